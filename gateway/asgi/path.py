"""Decoding of the path part by part, so that an encoded slash never becomes a separator.

Servers decode the whole path before routing: ``/v1/topics/a%2Frecords`` would then name the records of topic ``a``. Here each
part is decoded separately. ``ENCODED_SLASH`` stands for a slash inside a part until ``path_text`` restores it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http.parameters import ENCODED_SLASH
from gateway.problem import refused


class PathMiddleware:
    """Middleware that sets ``scope["path"]`` from ``scope["raw_path"]``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle one request. Raise ``RequestRefused`` for a path that is not UTF-8."""
        if b"%" in scope["raw_path"]:
            scope["path"] = decode_path(scope["raw_path"])
        return self._app(scope, receive, send)


def decode_path(raw_path: bytes) -> str:
    """Return the path with each part decoded. Raise ``RequestRefused``."""
    try:
        parts = [unquote_to_bytes(part).decode() for part in raw_path.split(b"/")]
    except UnicodeDecodeError:
        raise refused("The path is not UTF-8.") from None
    return "/".join(part.replace("/", ENCODED_SLASH) for part in parts)
