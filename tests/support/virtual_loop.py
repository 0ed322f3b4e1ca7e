"""An event loop whose time jumps to the next timer: hours of waiting take no time, and every run is alike."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """For what waits for timers and for nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        """Virtual seconds since it was made."""
        return self._now

    def _run_once(self) -> None:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        if not self._ready and timers:  # type: ignore[attr-defined]
            self._now = max(self._now, timers[0].when())
        super()._run_once()  # type: ignore[misc]


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """What it returns."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
