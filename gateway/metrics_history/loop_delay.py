"""How late the event loop runs what is due: one timer a second, and the largest delay since the last look."""

from __future__ import annotations

import asyncio
from typing import Final

TICK_SECONDS: Final = 1.0


class LoopDelay:
    """The timer. Used on the event loop only."""

    def __init__(self) -> None:
        self._largest_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure from now on."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + TICK_SECONDS
        self._timer = loop.call_at(due_s, self._tick, loop, due_s)

    def stop(self) -> None:
        """Measure no more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()

    def take_largest_ms(self) -> float:
        """Return the largest delay since the last call, in milliseconds."""
        largest_s, self._largest_s = self._largest_s, 0.0
        return largest_s * 1000

    def _tick(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        self._largest_s = max(self._largest_s, loop.time() - due_s)
        self.start()
