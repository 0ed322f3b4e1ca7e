"""Request bodies, read by counting bytes as they come.

1. Never more than ``request_bytes_max`` is buffered, compressed and decompressed alike: a longer body is refused (413) by its
   ``Content-Length`` before a byte of it is read, else at the byte that is too many.
2. What is buffered is reserved in a budget first, chunk by chunk, so a slow client holds only what it sent; past the budget
   503 ``OVERLOADED``. The reservation lives as long as the ``with`` block, or as long as its new owner wants (``keep``).
3. A body that takes too long as a whole is refused; a client that goes away, or whose body stops coming (the protocol's limit),
   raises ``ClientDisconnect``. In all these cases nothing of the body was looked at.

The connection's fate after a refusal (answer first, then close) is the protocol's, not decided here.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request

from gateway.codec.compression import Decompressor
from gateway.memory_budget import MemoryBudget, Reservation
from gateway.problem import refused
from log_format.errors import ErrorCode, RequestRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """``bytes_max`` of one body, and how long (milliseconds) it may take as a whole."""

    bytes_max: int
    total_ms: int


@dataclass(slots=True)
class Body:
    """A whole request body, decompressed, and the memory reserved for it."""

    data: bytes
    content_type: str | None
    """The ``Content-Type`` header as it was sent; None when there was none."""
    reservation: Reservation
    kept: bool = False

    def keep(self) -> Reservation:
        """Take the reservation over: the caller releases it, not the ``with`` block."""
        self.kept = True
        return self.reservation


@asynccontextmanager
async def request_body(request: Request, limits: BodyLimits, budget: MemoryBudget) -> AsyncIterator[Body]:
    """Read the body of ``request``; its memory is reserved until the block ends.

    Raises ``RequestRefused`` (413 ``REQUEST_TOO_LARGE``, 415 for an unknown encoding, 400 for a corrupt or stalled one),
    ``BackOff`` (503 ``OVERLOADED``), ``ClientDisconnect``.
    """
    reservation = budget.reserve()
    body = Body(b"", request.headers.get("content-type"), reservation)
    try:
        body.data = await _read(request, limits, reservation)
        yield body
    finally:
        if not body.kept:
            reservation.release()


async def _read(request: Request, limits: BodyLimits, reservation: Reservation) -> bytes:
    announced = _content_length(request)
    if announced is not None and announced > limits.bytes_max:
        raise _too_large(limits.bytes_max)
    decompressor = _decompressor(request, limits.bytes_max)
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
        if decompressor is not None:
            chunk = decompressor.feed(chunk) if chunk else b""
            if not more:
                chunk += decompressor.finish()
        if chunk:
            reservation.grow(len(chunk))
            chunks.append(chunk)
        if more and time.monotonic() > deadline:
            raise refused(f"The body took longer than {limits.total_ms} ms.")
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _content_length(request: Request) -> int | None:
    text = request.headers.get("content-length")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise refused("Content-Length is no number of bytes.", [("Content-Length", "must be a decimal number")])
    return int(text)


def _decompressor(request: Request, bytes_max: int) -> Decompressor | None:
    encodings = request.headers.getlist("content-encoding")
    encoding = ",".join(encodings).strip().lower()
    if encoding in ("", "identity"):
        return None
    return Decompressor(encoding, bytes_max)


def _too_large(bytes_max: int) -> RequestRefused:
    return RequestRefused(
        f"The request body is longer than {bytes_max} bytes, compressed or decompressed.",
        code=ErrorCode.REQUEST_TOO_LARGE,
        limit_bytes=bytes_max,
    )
