"""A connection's socket, while a reader of history writes an answer's body to it (``ClientSocket``). Over TLS it is not lent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from gateway.process.gentle_transport import GentleTransport

_PAUSES_S: Final = (0.0, 0.0, 0.0, 0.001, 0.005, 0.02)
"""An answer's head goes out in the event loop's next turns, unless the client takes nothing."""


class LentSocket:
    """Of one connection."""

    __slots__ = ("_gentle", "_on_lost", "is_lost")

    def __init__(self, gentle: GentleTransport) -> None:
        self.is_lost = False
        self._gentle = gentle
        self._on_lost: Callable[[], None] | None = None

    async def lend(self, on_lost: Callable[[], None]) -> int | None:
        """See ``ClientSocket``."""
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

    def wrote(self, byte_count: int, *, waits: bool) -> None:
        """See ``ClientSocket``."""
        self._gentle.written_bytes += byte_count
        self._gentle.unsent_elsewhere_bytes = int(waits)

    def take_back(self) -> None:
        """See ``ClientSocket``."""
        self._on_lost = None
        self._gentle.is_lent = False
        self._gentle.unsent_elsewhere_bytes = 0

    async def drop(self) -> None:
        """See ``ClientSocket``."""
        self._gentle.transport.abort()
        while not self.is_lost:  # noqa: ASYNC110 - the event loop's next turn
            await asyncio.sleep(0)

    def lost(self) -> None:
        """The connection ended."""
        self.is_lost = True
        if self._on_lost is not None:
            self._on_lost()
