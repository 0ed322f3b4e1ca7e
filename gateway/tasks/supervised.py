"""Background work, round after round, for as long as the gateway runs; and pauses before an ended process is started again.

An unforeseen error of a round is logged, and the next round comes. Only this work tends sessions, heartbeats and what
transactions leave behind. A process without it would look well and not be.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from gateway.tasks.parallel import run_parallel
from log_format.errors import OutcomeUnknown, TidelogError

PAUSE_AFTER_DEFECT_MS: Final = 1_000
"""Pause after a round that met a defect: a round may fail before it awaits anything, and must not keep the event loop for
itself."""
RESTART_PAUSE_SECONDS: Final = (0.5, 1, 2, 5, 10)
"""Pauses before a process that ended is started again, by the number of its ends within ``STABLE_SECONDS``."""
STABLE_SECONDS: Final = 60

ItemT = TypeVar("ItemT")

_log = logging.getLogger("gateway.supervised")


async def run_supervised(
    work: Callable[[], Awaitable[None]], what: str, *, pause_after_defect_ms: int = PAUSE_AFTER_DEFECT_MS
) -> None:
    """Do round after round of ``work``, which makes its own pause, until cancelled. ``what``: its name in the log."""
    while True:
        try:
            await work()
        except Exception as defect:  # noqa: BLE001 - the top of this work: no other code would begin it again
            _log.error("%s met a defect, and goes on", what, exc_info=defect)
            await asyncio.sleep(pause_after_defect_ms / 1000)


class SupervisedTasks:
    """Background tasks for ``subject``, such as ``groups``, until ``stop``."""

    def __init__(self, subject: str, log: logging.Logger, *, pause_after_defect_ms: int) -> None:
        self._subject = subject
        self._log = log
        self._pause_after_defect_ms = pause_after_defect_ms
        self._tasks: set[asyncio.Task[None]] = set()

    def repeat(self, work: Callable[[], Awaitable[None]], what: str, *, pause_ms: int) -> None:
        """Do the work after each pause; a ``TidelogError`` is logged, and the work repeated after the next pause. ``what``: its
        name in the log."""
        self.go_round(partial(self._after, pause_ms, work), what)

    def go_round(self, work: Callable[[], Awaitable[None]], what: str) -> None:
        """Do the work again and again, with the pause that it makes itself."""
        self.begin(run_supervised(work, what, pause_after_defect_ms=self._pause_after_defect_ms))

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do the work once. An error that it raises is logged."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def for_each(self, items: Iterable[ItemT], work: Callable[[ItemT], Awaitable[object]], *, limit: int) -> None:
        """Do the work for each item, ``limit`` items at a time. A ``TidelogError`` is logged, and its item left for later."""
        await run_parallel(lambda item: self._attempt(partial(work, item)), items, limit=limit)

    def stop(self) -> None:
        """Cancel all tasks."""
        for task in list(self._tasks):
            task.cancel()

    async def _after(self, pause_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(pause_ms / 1000)
        await self._attempt(work)

    async def _attempt(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except TidelogError as problem:
            level = logging.WARNING if isinstance(problem, OutcomeUnknown) else logging.INFO
            self._log.log(level, "work on %s is put off: %s", self._subject, problem.detail)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("work on %s failed", self._subject, exc_info=error)


class RestartPause:
    """Pauses before the restarts of one process that is kept running."""

    def __init__(self) -> None:
        self._ends: list[float] = []

    def next_seconds(self) -> float:
        """Count an end of the process; return the pause before it is started again."""
        now = time.monotonic()
        self._ends = [ended for ended in self._ends if now - ended < STABLE_SECONDS]
        pause = RESTART_PAUSE_SECONDS[min(len(self._ends), len(RESTART_PAUSE_SECONDS) - 1)]
        self._ends.append(now)
        return pause
