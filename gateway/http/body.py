"""Request bodies, read with a count of their bytes.

1. At most ``request_bytes_max`` is buffered, compressed or decompressed. A longer body is refused (413) by its ``Content-Length``
   before any of it is read, else at the first byte too many.
2. Bytes are reserved in a budget before they are buffered, chunk by chunk, so a slow client holds only what it sent; beyond the
   budget the answer is 503 ``OVERLOADED``. The reservation lasts as long as the ``with`` block, or until its new owner releases
   it (``transfer_memory``).
3. A body of more than 64 KiB is decompressed in the codec pool, in pieces and in order, while the event loop runs on. Queued
   pieces are reserved as well.
4. A body that takes too long as a whole is refused. ``ClientDisconnect`` is raised if the client disconnects, or the body stops
   arriving (the protocol's limit). In all these cases no part of the body was used.

The protocol decides what happens to the connection after a refusal (answer first, then close).
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Executor
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from starlette.requests import ClientDisconnect, Request

from gateway.codec.compression import Decompressor
from gateway.http.parameters import header_text
from gateway.memory_budget import Memory, Reservation
from gateway.problem import refused
from log_format.errors import ErrorCode, RequestRefused

_INLINE_BYTES_MAX: Final = 64 * 1024
"""Size above which pieces go to the pool; below it, changing threads costs more than decompressing."""
_POOL_BYTES_MIN: Final = 1024 * 1024
"""Least size of the pieces for the pool: it may be busy, and a body must not queue for each of its chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """``bytes_max`` of one body, and ``total_ms`` for receiving all of it."""

    bytes_max: int
    total_ms: int


class Body:
    """A whole request body, decompressed, and the memory reserved for it; made by ``request_body``."""

    __slots__ = ("_limits", "_pool", "_request", "budget", "data", "is_handed_over", "reservation")

    def __init__(self, request: Request, limits: BodyLimits, budget: Memory, pool: Executor) -> None:
        self._request = request
        self._limits = limits
        self._pool = pool
        self.budget = budget
        self.reservation = budget.reserve()
        self.data = b""
        self.is_handed_over = False

    @property
    def content_type(self) -> str | None:
        """The ``Content-Type`` header as sent; None if there is none."""
        return header_text(self._request, b"content-type")

    async def __aenter__(self) -> Self:
        try:
            self.data = await _read(self._request, self._limits, self.reservation, self._pool)
        except BaseException:
            self.reservation.release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_handed_over:
            self.reservation.release()

    def reserve_more(self, by_bytes: int) -> None:
        """Reserve more for what the body was converted to. Raises ``BackOff`` (``OVERLOADED``), or ``RequestRefused``
        (``REQUEST_TOO_LARGE``) for what would not fit if it were alone."""
        wanted, most = self.reservation.size_bytes + by_bytes, self.budget.largest_bytes
        if wanted > most:
            raise RequestRefused(
                f"The records take {wanted:,} bytes of memory when they are decoded; all requests together have {most:,}: "
                "send fewer at once.",
                code=ErrorCode.REQUEST_TOO_LARGE,
                limit_bytes=most,
            )
        self.reservation.grow(by_bytes)

    def transfer_memory(self, size_bytes: int) -> Reservation:
        """Return memory for what the body was converted to. Its new owner releases it, not the ``with`` block.

        A second call makes a new reservation. Raises as ``reserve_more``.
        """
        if self.is_handed_over:
            return self.budget.reserve(size_bytes)
        surplus = size_bytes - self.reservation.size_bytes
        if surplus > 0:
            self.reserve_more(surplus)
        self.is_handed_over = True
        self.data = b""
        return self.reservation


def request_body(request: Request, limits: BodyLimits, budget: Memory, *, pool: Executor) -> Body:
    """Read the body of ``request``. Its memory is reserved until the ``with`` block ends.

    Args:
        request: The request.
        limits: Bounds of the body's size and time.
        budget: Memory from which the body is reserved.
        pool: Executor in which a large body is decompressed.

    Raises:
        RequestRefused: 413 ``REQUEST_TOO_LARGE``, 415 for an unknown encoding, 400 for a corrupt or stalled body.
        BackOff: 503 ``OVERLOADED``.
        ClientDisconnect: The client disconnected.
    """
    return Body(request, limits, budget, pool)


def has_body(request: Request) -> bool:
    """Return whether the request announces a body: only a body needs a type."""
    return "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"


async def _read(request: Request, limits: BodyLimits, reservation: Reservation, pool: Executor) -> bytes:
    announced = _content_length(request)
    if announced is not None and announced > limits.bytes_max:
        raise _too_large(limits.bytes_max)
    decompressor = _decompressor(request, limits.bytes_max)
    decompressing = None if decompressor is None else _BodyDecompressor(decompressor, reservation, pool)
    chunks: list[bytes] = []
    received = 0
    deadline = time.monotonic() + limits.total_ms / 1000
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        more = message.get("more_body", False)
        chunk: bytes = message.get("body", b"")
        received += len(chunk)
        if received > limits.bytes_max:
            raise _too_large(limits.bytes_max)
        if decompressing is not None:
            chunk = await decompressing.take(chunk, is_last=not more)
        if chunk:
            reservation.grow(len(chunk))
            chunks.append(chunk)
        if more and time.monotonic() > deadline:
            raise refused(f"The body took longer than {limits.total_ms} ms.")
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class _BodyDecompressor:
    """Decompression of one body: inline while it is small, then in the pool."""

    __slots__ = ("_decompressor", "_pool", "_reservation", "_reserved_bytes", "_seen_bytes", "_waiting")

    def __init__(self, decompressor: Decompressor, reservation: Reservation, pool: Executor) -> None:
        self._decompressor = decompressor
        self._reservation = reservation
        self._pool = pool
        self._waiting: list[bytes] = []
        self._reserved_bytes = 0
        self._seen_bytes = 0
        """Compressed and decompressed bytes together: a few compressed ones may become many."""

    async def take(self, chunk: bytes, *, is_last: bool) -> bytes:
        """Return the output so far after ``chunk``; the rest of it after the last chunk. Raise as ``Decompressor`` does, and
        ``BackOff``."""
        self._waiting.append(chunk)
        self._seen_bytes += len(chunk)
        if self._seen_bytes <= _INLINE_BYTES_MAX:
            data = self._feed(is_last)
        else:
            self._reservation.grow(len(chunk))
            self._reserved_bytes += len(chunk)
            if not is_last and self._reserved_bytes < _POOL_BYTES_MIN:
                return b""
            data = await asyncio.get_running_loop().run_in_executor(self._pool, self._feed, is_last)
            self._reservation.shrink_to(self._reservation.size_bytes - self._reserved_bytes)
            self._reserved_bytes = 0
        self._seen_bytes += len(data)
        return data

    def _feed(self, is_last: bool) -> bytes:
        data = self._decompressor.feed(b"".join(self._waiting))
        self._waiting.clear()
        return data + self._decompressor.finish() if is_last else data


def _content_length(request: Request) -> int | None:
    text = header_text(request, b"content-length")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise refused("Content-Length is not a number of bytes.", [("Content-Length", "must be a decimal number")])
    return int(text)


def _decompressor(request: Request, bytes_max: int) -> Decompressor | None:
    encodings = [value for name, value in request.scope["headers"] if name == b"content-encoding"]
    if not encodings:
        return None
    encoding = b",".join(encodings).decode("latin-1").strip().lower()
    if encoding in ("", "identity"):
        return None
    return Decompressor(encoding, bytes_max)


def _too_large(bytes_max: int) -> RequestRefused:
    return RequestRefused(
        f"The request body is longer than {bytes_max} bytes, compressed or decompressed.",
        code=ErrorCode.REQUEST_TOO_LARGE,
        limit_bytes=bytes_max,
    )
