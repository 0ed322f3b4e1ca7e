"""Compression of answers above 1 KiB, if the client accepts zstd or gzip (``gateway.codec.answer_compression``).

1. Event streams and encoded answers stay unchanged. So do large answers that hardly shrink.
2. Large pieces are compressed in a pool of their own, so that neither the event loop nor the codec waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from concurrent.futures import Executor
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.codec.answer_compression import (
    ANSWER_BYTES_MIN,
    Compressor,
    choose_encoding_for,
    compress_piece,
    is_worthwhile,
    new_compressor,
)

_INLINE_BYTES_MAX: Final = 32 * 1024
"""Size above which pieces go to the pool; below it, changing threads costs more than compressing."""
NO_COMPRESSION: Final = "tidelog.as_it_is"
"""Key that marks an answer of another process, compressed if the client accepts it: it passes through immediately, unchanged."""


class CompressionMiddleware:
    """Middleware that compresses answers, large pieces in ``pool``."""

    def __init__(self, app: ASGIApp, *, pool: Executor) -> None:
        self._app = app
        self._pool = pool

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle one request."""
        answer = _Answer(send, choose_encoding_for(scope["headers"]), self._pool)
        return self._app(scope, receive, answer.send)


class _CompletedAwaitable:
    """An awaitable that is already done, and can be awaited any number of times."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


_COMPLETED: Final = _CompletedAwaitable()


class _Answer:
    """One answer being sent. Its start is held until the first piece of the body decides whether to compress."""

    __slots__ = ("_compressor", "_decided", "_encoding", "_pool", "_send", "_start")

    def __init__(self, send: Send, encoding: str | None, pool: Executor) -> None:
        self._send = send
        self._encoding = encoding
        self._pool = pool
        self._start: Message = {}
        self._decided = False
        self._compressor: Compressor | None = None

    def send(self, message: Message) -> Awaitable[None]:
        """Send one ASGI message of the answer."""
        if message["type"] != "http.response.start":
            return self._body(message)
        if message.pop(NO_COMPRESSION, False):
            self._decided = True
            return self._send(message)
        self._start = message
        return _COMPLETED

    async def _body(self, message: Message) -> None:
        body: bytes = message.get("body", b"")
        more: bool = message.get("more_body", False)
        if not (self._decided or more) and len(body) <= ANSWER_BYTES_MIN:
            self._decided = True
            await self._send(self._start)
            await self._send(message)
            return
        if not self._decided:
            self._decided = True
            body = await self._begin(body, more=more)
        elif self._compressor is not None:
            body = await self._compress(self._compressor, body, last=not more)
        if body or not more or self._compressor is None:
            await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def _begin(self, body: bytes, *, more: bool) -> bytes:
        headers: list[tuple[bytes, bytes]] = list(self._start.get("headers", ()))
        if _is_compressible(headers):
            headers.append((b"vary", b"Accept-Encoding"))
            if self._encoding is not None and is_worthwhile(self._encoding, body):
                self._compressor = new_compressor(self._encoding)
                body = await self._compress(self._compressor, body, last=not more)
                headers = [header for header in headers if header[0].lower() != b"content-length"]
                headers.append((b"content-encoding", self._encoding.encode("ascii")))
                if not more:
                    headers.append((b"content-length", b"%d" % len(body)))
        await self._send({**self._start, "headers": headers})
        return body

    async def _compress(self, compressor: Compressor, body: bytes, *, last: bool) -> bytes:
        if len(body) <= _INLINE_BYTES_MAX:
            return compress_piece(compressor, body, last=last)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: compress_piece(compressor, body, last=last))


def _is_compressible(headers: list[tuple[bytes, bytes]]) -> bool:
    for name, value in headers:
        lower = name.lower()
        if lower == b"content-encoding" or (lower == b"content-type" and value.startswith(b"text/event-stream")):
            return False
    return True
