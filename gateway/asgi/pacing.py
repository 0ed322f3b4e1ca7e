"""Pacing of large answers: the connection gets a slice once most of the slice before has been sent.

The connection buffers no more than a slice. A slow client keeps its request alive, and with it the answer's reservation. The
protocol's timeout disconnects a client that stops reading.

A request whose body is not read to its end is answered with ``Connection: close``: its rest is not worth receiving.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

SLICE_BYTES: Final = 256 * 1024
"""Size of a slice: several network round trips' worth. A thousand slow readers hold at most 256 MiB of slices."""
UNREAD_BYTES_MAX: Final = 64 * 1024
"""Size up to which the rest of a body is received and discarded instead, which keeps the connection open."""


class PacingMiddleware:
    """Middleware that paces answers; outermost, except for middlewares that only observe."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle one request."""
        unread = _has_long_body(scope)
        if not unread:
            return self._app(scope, receive, _pace(send))

        async def watching_receive() -> Message:
            nonlocal unread
            message = await receive()
            if not message.get("more_body", False):
                unread = False
            return message

        def closing_send(message: Message) -> Awaitable[None]:
            if unread and message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            return send(message)

        return self._app(scope, watching_receive, _pace(closing_send))


def _pace(send: Send) -> Send:
    def paced_send(message: Message) -> Awaitable[None]:
        return send(message) if len(message.get("body", b"")) <= SLICE_BYTES else _slice_body(message, send)

    return paced_send


async def _slice_body(message: Message, send: Send) -> None:
    body: bytes = message["body"]
    view = memoryview(body)
    more: bool = message.get("more_body", False)
    for start in range(0, len(body), SLICE_BYTES):
        last = start + SLICE_BYTES >= len(body)
        piece = view[start : start + SLICE_BYTES]
        await send({"type": "http.response.body", "body": piece, "more_body": more or not last})


def _has_long_body(scope: Scope) -> bool:
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return True
        if name == b"content-length":
            return not (value.isdigit() and int(value[:19]) <= UNREAD_BYTES_MAX)
    return False
