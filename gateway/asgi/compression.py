"""Compresses answers above 1 KiB when the client asks for zstd or gzip.

1. Event streams and encoded answers stay as they are.
2. The weights in ``Accept-Encoding`` are honoured; on a tie zstd wins.
3. Large pieces are compressed in the codec pool, so that the event loop goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import zlib
from concurrent.futures import Executor
from functools import lru_cache
from typing import Final, Protocol

import zstandard
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ANSWER_BYTES_MIN: Final = 1024
"""Answers up to this stay as they are."""
_INLINE_BYTES_MAX: Final = 32 * 1024
"""Larger pieces go to the pool; below, changing threads costs more than compressing."""
_PIECE_BYTES: Final = 1024 * 1024
_ZSTD_LEVEL: Final = 1
_GZIP_LEVEL: Final = 1
_GZIP_WINDOW: Final = 31
"""zlib's number for the largest window with a gzip header."""


class Compressor(Protocol):
    """An incremental compressor."""

    def compress(self, data: bytes | memoryview, /) -> bytes:
        """The output so far."""
        ...

    def flush(self) -> bytes:
        """The rest."""
        ...


AS_IT_IS: Final = "tidelog.as_it_is"
"""Marks an answer that another gateway made, and compressed if the client wanted it: it passes through at once, unchanged."""


@lru_cache(maxsize=256)
def chosen_encoding(accept_encoding: bytes) -> str | None:
    """``"zstd"``, ``"gzip"`` or None for the value of an ``Accept-Encoding`` header."""
    weights: dict[str, float] = {}
    for item in accept_encoding.decode("latin-1").split(","):
        name, *parameters = item.split(";")
        weights[name.strip().lower()] = _weight(parameters)
    best = max(("zstd", "gzip"), key=lambda name: weights.get(name, 0.0))
    weight = weights.get(best, 0.0)
    return best if weight > 0 and weight >= weights.get("identity", 0.0) else None


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                weight = float(value)
            except ValueError:
                return 0.0
            return weight if 0.0 <= weight <= 1.0 else 0.0
    return 1.0


class CompressionMiddleware:
    """Compresses in ``pool``."""

    def __init__(self, app: ASGIApp, *, pool: Executor) -> None:
        self._app = app
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        values = [value for name, value in scope["headers"] if name == b"accept-encoding"]
        encoding = chosen_encoding(b",".join(values)[:4096]) if values else None
        answer = _Answer(send, encoding, self._pool)
        await self._app(scope, receive, answer.send)


class _Answer:
    """One answer on its way out. It holds the start back until the first piece of the body tells whether to compress."""

    __slots__ = ("_compressor", "_decided", "_encoding", "_pool", "_send", "_start")

    def __init__(self, send: Send, encoding: str | None, pool: Executor) -> None:
        self._send = send
        self._encoding = encoding
        self._pool = pool
        self._start: Message = {}
        self._decided = False
        self._compressor: Compressor | None = None

    async def send(self, message: Message) -> None:
        """Take one ASGI message of the answer."""
        if message["type"] == "http.response.start":
            if message.pop(AS_IT_IS, False):
                self._decided = True
                await self._send(message)
            else:
                self._start = message
            return
        body: bytes = message.get("body", b"")
        more: bool = message.get("more_body", False)
        if not self._decided:
            self._decided = True
            body = await self._begin(body, more=more)
        elif self._compressor is not None:
            body = await self._compress(self._compressor, body, last=not more)
        if body or not more or self._compressor is None:
            await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def _begin(self, body: bytes, *, more: bool) -> bytes:
        headers: list[tuple[bytes, bytes]] = list(self._start.get("headers", ()))
        if _compressible(headers) and (more or len(body) > ANSWER_BYTES_MIN):
            headers.append((b"vary", b"Accept-Encoding"))
            if self._encoding is not None:
                self._compressor = _compressor(self._encoding)
                body = await self._compress(self._compressor, body, last=not more)
                headers = [header for header in headers if header[0].lower() != b"content-length"]
                headers.append((b"content-encoding", self._encoding.encode("ascii")))
                if not more:
                    headers.append((b"content-length", b"%d" % len(body)))
        await self._send({**self._start, "headers": headers})
        return body

    async def _compress(self, compressor: Compressor, body: bytes, *, last: bool) -> bytes:
        if len(body) <= _INLINE_BYTES_MAX:
            return _compressed(compressor, body, last=last)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: _compressed(compressor, body, last=last))


def _compressed(compressor: Compressor, body: bytes, *, last: bool) -> bytes:
    if len(body) <= _PIECE_BYTES:
        data = compressor.compress(body)
        return data + compressor.flush() if last else data
    view = memoryview(body)
    pieces = [compressor.compress(view[start : start + _PIECE_BYTES]) for start in range(0, len(body), _PIECE_BYTES)]
    if last:
        pieces.append(compressor.flush())
    return b"".join(pieces)


def _compressor(encoding: str) -> Compressor:
    if encoding == "zstd":
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compressobj()
    return zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)


def _compressible(headers: list[tuple[bytes, bytes]]) -> bool:
    for name, value in headers:
        lower = name.lower()
        if lower == b"content-encoding" or (lower == b"content-type" and value.startswith(b"text/event-stream")):
            return False
    return True
