"""Basic authentication for the schema registry, whose clients know nothing else but Bearer (``basic.auth.user.info``).

The password is the credential, a token or a JWT, under any user name, as with SASL PLAIN: the credential itself names the
principal. Elsewhere only Bearer is accepted.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.registry_problem import is_of_registry

_HEADER: Final = b"authorization"
_SCHEME: Final = b"basic "
_HEADER_BYTES_MAX: Final = 16 * 1024


class BasicMiddleware:
    """Middleware outside of authentication: replaces Basic by the Bearer that it stands for. What is no Basic stays as it is, and
    is judged by authentication."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle one request."""
        if is_of_registry(scope["path"]):
            scope["headers"] = [
                (name, _as_bearer(value) if name == _HEADER else value) for name, value in scope["headers"]
            ]
        return self._app(scope, receive, send)


def _as_bearer(value: bytes) -> bytes:
    if value[: len(_SCHEME)].lower() != _SCHEME or len(value) > _HEADER_BYTES_MAX:
        return value
    try:
        _, _, password = base64.b64decode(value[len(_SCHEME) :].strip(b" "), validate=True).partition(b":")
    except binascii.Error:
        return value
    return b"Bearer " + password
