"""A connection's socket while a reader of history writes an answer's body to it (``ClientSocket``). With TLS it is not lent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from gateway.process.gentle_transport import GentleTransport

_PAUSES_S: Final = (0.0, 0.0, 0.0, 0.001, 0.005, 0.02)
"""Pauses while the answer's head is sent, which takes the event loop's next iterations unless the client reads nothing."""


class LentSocket:
    """The ``ClientSocket`` of one connection."""

    __slots__ = ("_gentle", "_on_lost", "is_lost")

    def __init__(self, gentle: GentleTransport) -> None:
        self.is_lost = False
        self._gentle = gentle
        self._on_lost: Callable[[], None] | None = None

    async def lend(self, on_lost: Callable[[], None]) -> int | None:
        """Lend the socket's descriptor; see ``ClientSocket``."""
        gentle = self._gentle
        gentle.flush()
        for pause_s in _PAUSES_S:
            await asyncio.sleep(pause_s)
            if self.is_lost or gentle.is_closing():
                await self.drop()
                raise ConnectionResetError("the client is gone")
            if not gentle.is_plain:
                return None
            if not gentle.unsent_bytes():
                gentle.is_lent = True
                self._on_lost = on_lost
                descriptor: int = gentle.get_extra_info("socket").fileno()
                return descriptor
        return None

    def count_written(self, byte_count: int, *, waits: bool) -> None:
        """Count bytes that the reader wrote; see ``ClientSocket``."""
        self._gentle.written_bytes += byte_count
        self._gentle.unsent_elsewhere_bytes = int(waits)

    def take_back(self) -> None:
        """Take the socket back; see ``ClientSocket``."""
        self._on_lost = None
        self._gentle.is_lent = False
        self._gentle.unsent_elsewhere_bytes = 0

    async def drop(self) -> None:
        """Abort the connection; see ``ClientSocket``."""
        self._gentle.transport.abort()
        while not self.is_lost:  # noqa: ASYNC110 - waits for the event loop's next iteration
            await asyncio.sleep(0)

    def lost(self) -> None:
        """Note the end of the connection, and tell the borrower."""
        self.is_lost = True
        if self._on_lost is not None:
            self._on_lost()
