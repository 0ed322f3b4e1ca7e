"""Refusals that apply to every route.

They are of new work while draining, of headers that are not supported, of requests for another host, of requests that a page of
another origin made, and of changes for a client that has disconnected: it may be asking another gateway. To ignore a header that
asks for idempotence or a transaction would silently break a promise. A body in a transfer coding that the gateway does not decode
would be misread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.asgi.cross_site import ORIGIN, SITE, refuse_cross_site
from gateway.http import producer_headers
from gateway.http.disconnect import check_connected_before_body
from gateway.http.parameters import OWN_PREFIX
from gateway.network.hosts import AllowedHosts
from gateway.problem import refused
from log_format.errors import BackOff, ErrorCode, RequestRefused

KNOWN_HEADERS: Final = frozenset(name.lower().encode() for name in producer_headers.NAMES)
"""Supported ``Tidelog-*`` request headers, in lower case."""
HOP_REFUSED: Final = "tidelog.hop_refused"
"""Key in the scope of a request with an invalid ``Tidelog-Hop``: why it is invalid."""
_CHECKED_HEADERS: Final = frozenset((b"host", b"transfer-encoding", ORIGIN, SITE))
_READ_METHODS: Final = frozenset(("GET", "HEAD"))
_PRODUCE: Final = "/records"
"""End of the paths of produce, whose route checks itself whether the client is still connected."""
_WORK: Final = ("/v1/", "/registry")
_NOT_WORK: Final = "/v1/cluster"


class GatekeeperMiddleware:
    """Middleware that refuses. ``draining()``: whether new work is refused. ``hosts``: the hosts that requests may name."""

    def __init__(self, app: ASGIApp, *, draining: Callable[[], bool], hosts: AllowedHosts) -> None:
        self._app = app
        self._draining = draining
        self._hosts = hosts

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle one request. Raise ``BackOff`` (``DRAINING``), ``RequestRefused``, ``ClientDisconnect``."""
        for name, value in scope["headers"]:
            if name in _CHECKED_HEADERS:
                self._check_header(scope, name, value)
            elif name.startswith(OWN_PREFIX) and name not in KNOWN_HEADERS:
                header = name.decode("latin-1").title()[:100]
                what = scope.get(HOP_REFUSED, "is not supported")
                raise refused(f"The header {header} {what}.", [(header, what)])
        if self._draining() and scope["path"].startswith(_WORK) and scope["path"] != _NOT_WORK:
            raise BackOff("The gateway is shutting down and takes no new work.", code=ErrorCode.DRAINING)
        if scope["method"] in _READ_METHODS or scope["path"].endswith(_PRODUCE):
            return self._app(scope, receive, send)
        return self._serve_connected(scope, receive, send)

    async def _serve_connected(self, scope: Scope, receive: Receive, send: Send) -> None:
        await check_connected_before_body(scope)
        await self._app(scope, receive, send)

    def _check_header(self, scope: Scope, name: bytes, value: bytes) -> None:
        if name == b"host":
            if not self._hosts.allow(value):
                raise _unknown_host(value)
        elif name == b"transfer-encoding":
            if value.lower() != b"chunked":
                raise refused("Transfer-Encoding must be chunked.", [("Transfer-Encoding", "must be chunked")])
        else:
            refuse_cross_site(scope)


def _unknown_host(header: bytes) -> RequestRefused:
    host = header[:200].decode("latin-1")
    return refused(
        f"This gateway is not known as {host!r}. Its setting allowed_hosts names the hosts that it serves.",
        [("Host", "must be an address, localhost, or a name of allowed_hosts")],
    )
