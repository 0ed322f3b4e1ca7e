"""Bounds on memory: what is about to be held is reserved first, and what does not fit is refused or waits.

1. The sum of all reservations of a budget never exceeds its ``bytes_max``.
2. A reservation is released exactly once, whatever happens to its request; releasing again does nothing.
3. Those who wait are served in order, so that a large one is not starved by small ones.

Not thread-safe: everything here belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from gateway.problem import overloaded


class Reservation:
    """Bytes taken from a budget; give them back with ``release`` or by leaving the ``with`` block."""

    __slots__ = ("_budget", "size_bytes")

    def __init__(self, budget: MemoryBudget, size_bytes: int) -> None:
        self._budget = budget
        self.size_bytes = size_bytes

    def grow(self, by_bytes: int) -> None:
        """Reserve so many more. Raises ``BackOff`` (``OVERLOADED``), keeping what there was."""
        self._budget.take(by_bytes)
        self.size_bytes += by_bytes

    def cover(self, size_bytes: int) -> None:
        """Reserve as much as is missing to ``size_bytes``, or to the whole budget. Raises ``BackOff``, keeping what there was."""
        missing = min(size_bytes, self._budget.bytes_max) - self.size_bytes
        if missing > 0:
            self.grow(missing)

    def shrink_to(self, size_bytes: int) -> None:
        """Give back what is above ``size_bytes``; nothing happens when less is held."""
        surplus = self.size_bytes - size_bytes
        if surplus > 0:
            self.size_bytes = size_bytes
            self._budget.give_back(surplus)

    def release(self) -> None:
        """Give everything back. Idempotent."""
        self.shrink_to(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class MemoryBudget:
    """So many bytes for one purpose, which ``purpose`` names in the refusal ("request bodies")."""

    def __init__(self, bytes_max: int, purpose: str) -> None:
        self.bytes_max = bytes_max
        self.purpose = purpose
        self.used_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting_count(self) -> int:
        """How many wait for room."""
        return len(self._waiting)

    def reserve(self, size_bytes: int = 0) -> Reservation:
        """Take ``size_bytes`` now. Raises ``BackOff`` (``OVERLOADED``) when they don't fit."""
        self.take(size_bytes)
        return Reservation(self, size_bytes)

    async def reserve_in_turn(self, size_bytes: int, *, wait_ms: int, waiting_max: int = 256) -> Reservation:
        """Take ``size_bytes`` as soon as those who came before are served, waiting at most ``wait_ms``.

        More than the whole budget counts as the whole budget: the largest permitted request must be served alone.
        Raises ``BackOff`` (``OVERLOADED``) when the time is over or ``waiting_max`` others wait already.
        """
        wanted = min(size_bytes, self.bytes_max)
        if not self._waiting and self.used_bytes + wanted <= self.bytes_max:
            self.used_bytes += wanted
            return Reservation(self, wanted)
        if len(self._waiting) >= waiting_max:
            raise self._full()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (wanted, turn)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await turn
        except BaseException as error:
            # Served and cancelled in the same turn of the loop: the bytes were taken, so they go back.
            if turn.done() and not turn.cancelled():
                self.give_back(wanted)
            elif entry in self._waiting:
                self._waiting.remove(entry)
                self._serve()
            if isinstance(error, TimeoutError):
                raise self._full() from None
            raise
        return Reservation(self, wanted)

    def take(self, size_bytes: int) -> None:
        """Count ``size_bytes`` as used. Raises ``BackOff`` (``OVERLOADED``)."""
        if self.used_bytes + size_bytes > self.bytes_max:
            raise self._full()
        self.used_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """Count ``size_bytes`` as free again and let those who wait have them."""
        self.used_bytes -= size_bytes
        assert self.used_bytes >= 0, "more was given back than taken"
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            wanted, turn = self._waiting[0]
            if self.used_bytes + wanted > self.bytes_max:
                return
            self._waiting.popleft()
            if not turn.done():
                self.used_bytes += wanted
                turn.set_result(None)

    def _full(self) -> Exception:
        return overloaded(f"The gateway holds as much of {self.purpose} as it may ({self.bytes_max} bytes).")
