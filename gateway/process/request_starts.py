"""Starts requests, a few in each turn of the event loop.

The acknowledgements of a flush go out together, so hundreds of clients send their next requests at one moment. Were all of them
begun in one turn, all else would wait for that turn: flushes that are due, commits that have ended, answers that are ready.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

STARTS_PER_TURN: Final = 32
"""Some milliseconds of small requests."""


class RequestStarts:
    """One for all connections of a listener. Belongs to the event loop."""

    def __init__(self, per_turn: int = STARTS_PER_TURN) -> None:
        self._per_turn = per_turn
        self._count = 0
        """Starts since the turn began."""
        self._waiting: deque[Callable[[], None]] = deque()

    def start(self, begin: Callable[[], None]) -> None:
        """Call ``begin``: now, or in order in one of the next turns."""
        if self._count >= self._per_turn:
            self._waiting.append(begin)
            return
        self._begin(begin)

    def _begin(self, begin: Callable[[], None]) -> None:
        if not self._count:
            asyncio.get_running_loop().call_soon(self._turn)
        self._count += 1
        begin()

    def _turn(self) -> None:
        self._count = 0
        while self._waiting and self._count < self._per_turn:
            self._begin(self._waiting.popleft())
