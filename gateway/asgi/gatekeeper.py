"""Refuses, before any route is asked, what no route may do: new work while draining, and headers that do not work yet.

A header that asks for idempotence or a transaction and is ignored would be a promise broken silently. A body in a transfer
coding that nobody undoes would be taken for something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway import producer_headers
from gateway.problem import refused
from log_format.errors import BackOff, ErrorCode

OWN_PREFIX: Final = b"tidelog-"
UNDERSTOOD: Final = frozenset(name.lower().encode() for name in producer_headers.NAMES)
"""``Tidelog-*`` request headers that work, in lower case."""
_WORK: Final = "/v1/"
_NOT_WORK: Final = "/v1/cluster"


class GatekeeperMiddleware:
    """``draining()`` says whether new work is refused."""

    def __init__(self, app: ASGIApp, *, draining: Callable[[], bool]) -> None:
        self._app = app
        self._draining = draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request. Raises ``BackOff`` (``DRAINING``), ``RequestRefused``."""
        for name, value in scope["headers"]:
            if name.startswith(OWN_PREFIX) and name not in UNDERSTOOD:
                header = name.decode("latin-1").title()[:100]
                raise refused(f"The header {header} is not supported.", [(header, "is not supported")])
            if name == b"transfer-encoding" and value.lower() != b"chunked":
                raise refused("Transfer-Encoding must be chunked.", [("Transfer-Encoding", "must be chunked")])
        if self._draining() and scope["path"].startswith(_WORK) and scope["path"] != _NOT_WORK:
            raise BackOff("The gateway is shutting down and takes no new work.", code=ErrorCode.DRAINING)
        await self._app(scope, receive, send)
