"""Work beside the requests, round after round, for as long as the gateway runs; and when an ended process is started again.

An unforeseen error of a round is logged, and the next round comes. Only this work tends sessions, heartbeats and what
transactions leave behind. A process without it would look well and not be.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

PAUSE_AFTER_DEFECT_MS: Final = 1_000
"""A round may fail before it awaits anything: it must not keep the event loop for itself."""
RESTART_PAUSE_SECONDS: Final = (0.5, 1, 2, 5, 10)
"""Before a process that ended is started again, by how often it did so in ``STABLE_SECONDS``."""
STABLE_SECONDS: Final = 60

_log = logging.getLogger("gateway.supervised")


async def supervised(
    work: Callable[[], Awaitable[None]], what: str, *, pause_after_defect_ms: int = PAUSE_AFTER_DEFECT_MS
) -> None:
    """Do round after round of ``work``, which makes its own pause, until cancelled. ``what``: its name in the log."""
    while True:
        try:
            await work()
        except Exception as defect:  # noqa: BLE001 - the top of this work: no other code would begin it again
            _log.error("%s met a defect, and goes on", what, exc_info=defect)
            await asyncio.sleep(pause_after_defect_ms / 1000)


class RestartPause:
    """Of one process that is kept running."""

    def __init__(self) -> None:
        self._ends: list[float] = []

    def next_seconds(self) -> float:
        """It ended just now: the pause before it is started again."""
        now = time.monotonic()
        self._ends = [ended for ended in self._ends if now - ended < STABLE_SECONDS]
        pause = RESTART_PAUSE_SECONDS[min(len(self._ends), len(RESTART_PAUSE_SECONDS) - 1)]
        self._ends.append(now)
        return pause
