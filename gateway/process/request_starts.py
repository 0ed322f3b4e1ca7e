"""Starts of requests, limited to a few in each iteration of the event loop.

The acknowledgements of a flush are sent together, so hundreds of clients send their next requests at the same moment. If all of
them began in one iteration, everything else would wait for it: pending flushes, finished commits, answers ready to send.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

STARTS_PER_TURN: Final = 32
"""Requests begun in one iteration: some milliseconds of small requests."""


class RequestStarts:
    """The starts of all connections of a listener. Used on the event loop only."""

    def __init__(self, per_turn: int = STARTS_PER_TURN) -> None:
        self._per_turn = per_turn
        self._count = 0
        """Number of starts in this iteration."""
        self._waiting: deque[Callable[[], None]] = deque()

    def start(self, begin: Callable[[], None]) -> None:
        """Call ``begin`` now, or in one of the next iterations, in order."""
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
