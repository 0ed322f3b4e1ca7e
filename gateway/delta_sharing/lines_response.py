"""An answer of JSON lines about very many files: made piece by piece in a thread, each piece sent before the next is made.

1. The first piece is made before the answer begins, so that what is damaged is refused whole.
2. Before each piece the caller's right is judged again, so no URL is signed for one who lost it. A piece may have no lines:
   predicates left out all of its files.
3. What fails later ends the connection without its last chunk, and an answer that should end with ``endStreamAction`` lacks it:
   no client takes a part for the whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from starlette.types import Receive, Scope, Send

from gateway.engine.pool import Pool
from gateway.memory_budget import Reservation
from log_format.errors import BackOff, StoreUnavailable

MEDIA_TYPE: Final = b"application/x-ndjson; charset=utf-8"
FILES_AT_ONCE: Final = 500
"""Files whose lines are made at once: some 400 KiB of text."""
RESERVED_BYTES: Final = 8 * 1024 * 1024
"""Memory of a piece: decoded rows of a checkpoint, their objects, and the text made of them."""
_encode_lines: Final = msgspec.json.Encoder().encode_lines


class Piece(NamedTuple):
    """Some lines, and how large and how many the files are that they name."""

    lines: list[dict[str, Any]]
    file_bytes: int = 0
    file_count: int = 0


class LinesResponse:
    """The answer. ``check``: raises if the caller may no longer read; ``give``: is told the bytes and the number of each piece's
    files before they are named."""

    def __init__(
        self,
        pieces: Iterator[Piece],
        *,
        headers: Mapping[str, str],
        pool: Pool,
        reservation: Reservation,
        check: Callable[[], Awaitable[None]],
        give: Callable[[int, int], Awaitable[None]],
    ) -> None:
        self._pieces = pieces
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._pool = pool
        self._reservation = reservation
        self._check = check
        self._give = give

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        del scope, receive
        with self._reservation:
            await self._check()
            made = await self._next()
            headers = [(b"content-type", MEDIA_TYPE), *self._headers]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while made is not None:
                body, file_bytes, file_count = made
                await self._give(file_bytes, file_count)
                if body:
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                await self._check()
                made = await self._next()
            await send({"type": "http.response.body", "body": b""})

    async def _next(self) -> tuple[bytes, int, int] | None:
        try:
            return await self._pool.run(self._make)
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not return the table: {problem.detail}.") from problem

    def _make(self) -> tuple[bytes, int, int] | None:
        piece = next(self._pieces, None)
        return None if piece is None else (_encode_lines(piece.lines), piece.file_bytes, piece.file_count)
