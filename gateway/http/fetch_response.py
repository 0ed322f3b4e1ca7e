"""Responses with records: whole answers, answers in pieces, and event streams. Each holds its reserved memory until it is
sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import aclosing
from typing import Final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from gateway.http.disconnect import cancel_on_disconnect
from gateway.memory_budget import Reservation
from log_format.errors import BackOff

INLINE_BYTES_MAX: Final = 64 * 1024
"""Bytes of records above which they are encoded in a thread."""
WHOLE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Size above which an answer is made and sent in pieces: as JSON it may become six times as long."""
SENT_BYTES_MIN: Final = 64 * 1024
"""Size up to which pieces are joined before they are sent."""
PIECE_TEXT_BYTES: Final = 4 * 1024 * 1024
"""Size of the largest piece: 512 KiB of records as JSON, or 1 MiB as Arrow."""

Headers = list[tuple[bytes, bytes]]


class RecordsResponse:
    """An answer with records. ``pieces`` makes its body, in the codec pool if it is large."""

    def __init__(
        self,
        pieces: Callable[[], Iterator[bytes | memoryview]],
        *,
        size_bytes: int,
        media_type: str,
        headers: Mapping[str, int | str],
        reservation: Reservation,
        pool: Executor,
    ) -> None:
        self._pieces: Callable[[], Iterator[bytes | memoryview]] | None = pieces
        self._size_bytes = size_bytes
        self._headers: Headers = [(b"content-type", media_type.encode()), *_encode_headers(headers)]
        self._reservation = reservation
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        del scope, receive
        try:
            if self._size_bytes > WHOLE_BYTES_MAX:
                await self._send_pieces(send)
            else:
                await self._send_whole(send)
        finally:
            self._reservation.release()

    async def _send_whole(self, send: Send) -> None:
        pieces = self._take_pieces()
        chunks: list[bytes | memoryview] = []
        while not await self._gather_all(pieces, chunks):
            if not self._grow():
                await self._send_on(send, pieces, b"".join(chunks))
                return
        body = b"".join(chunks)
        # From here on only the bytes are held, not the records from which they were made.
        self._reservation.shrink_to(len(body))
        headers = [*self._headers, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _gather_all(self, pieces: Iterator[bytes | memoryview], chunks: list[bytes | memoryview]) -> bool:
        """Make pieces until all are made or the reservation is full; return whether all are made."""
        room = max(self._reservation.size_bytes, INLINE_BYTES_MAX)
        if self._size_bytes <= INLINE_BYTES_MAX:
            return _gather(pieces, chunks, room)
        return await asyncio.get_running_loop().run_in_executor(self._pool, _gather, pieces, chunks, room)

    def _grow(self) -> bool:
        """Enlarge the reservation, since records may be many times as long as JSON. Return False if the budget has no more."""
        before = self._reservation.size_bytes
        try:
            self._reservation.cover(2 * max(before, INLINE_BYTES_MAX))
        except BackOff:
            return False
        return self._reservation.size_bytes > before

    async def _send_pieces(self, send: Send) -> None:
        # An answer's first record is included whatever its size, and may be larger than the reservation made before.
        self._reservation.cover(self._size_bytes + PIECE_TEXT_BYTES)
        pieces = self._take_pieces()
        # Before the headers, so that records that can't be encoded give a problem, not half an answer.
        first = await asyncio.get_running_loop().run_in_executor(self._pool, _next_pieces, pieces)
        await self._send_on(send, pieces, first)

    async def _send_on(self, send: Send, pieces: Iterator[bytes | memoryview], piece: bytes | None) -> None:
        loop = asyncio.get_running_loop()
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        while piece is not None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            piece = await loop.run_in_executor(self._pool, _next_pieces, pieces)
        await send({"type": "http.response.body", "body": b""})

    def _take_pieces(self) -> Iterator[bytes | memoryview]:
        assert self._pieces is not None
        pieces, self._pieces = self._pieces(), None
        return pieces


class EventStreamResponse:
    """A stream of server-sent events. Each is sent before the next is made. The stream ends when the client disconnects. HEAD
    gets none.

    ``headers``: numbers sent before the first event.
    """

    def __init__(
        self, request: Request, events: AsyncGenerator[bytes, None], *, headers: Mapping[str, int | str]
    ) -> None:
        self._request = request
        self._events = events
        self._headers = _encode_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream. Raise ``ClientDisconnect``."""
        del receive
        headers: Headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            *self._headers,
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] == "HEAD":
            await self._events.aclose()
            await send({"type": "http.response.body", "body": b""})
            return
        # Without this the headers would wait for the first event.
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await cancel_on_disconnect(self._request, self._send_events(send))
        await send({"type": "http.response.body", "body": b""})

    async def _send_events(self, send: Send) -> None:
        # Closed immediately, even if the client disconnects during an event, so that the stream releases what it holds.
        async with aclosing(self._events):
            async for event in self._events:
                await send({"type": "http.response.body", "body": event, "more_body": True})


def _next_pieces(pieces: Iterator[bytes | memoryview]) -> bytes | None:
    """Return the next pieces, joined while they are short, since each call costs a change of threads; None after the last."""
    chunks: list[bytes | memoryview] = []
    _gather(pieces, chunks, SENT_BYTES_MIN - 1)
    return b"".join(chunks) if chunks else None


def _gather(pieces: Iterator[bytes | memoryview], chunks: list[bytes | memoryview], room: int) -> bool:
    """Add pieces to ``chunks`` until they exceed ``room`` bytes; return whether there are no more."""
    size = sum(map(len, chunks))
    while size <= room:
        piece = next(pieces, None)
        if piece is None:
            return True
        chunks.append(piece)
        size += len(piece)
    return False


def _encode_headers(headers: Mapping[str, int | str]) -> Headers:
    return [(name.encode(), str(value).encode()) for name, value in headers.items()]
