"""asyncio and thread pools on the virtual clock: the real gateway's code runs in them without knowing.

A gateway's event loop is one process of its machine. It runs what is ready, then gives the turn back until a process wakes it
or its next timer is due. What a thread pool would do in threads, further processes of the machine do; they wait where the store
does. Several loops share one thread, so each is the running one only while it has the turn.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Any, TypeVar

from gateway.engine.threads import WorkExecutor
from tests.simulation.simulated.scheduler import Machine, Process, Scheduler

T = TypeVar("T")


class Wake:
    """Lets one process wait until another sets it or a time has passed."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False
        self._waiting: Process | None = None
        self._turn = 0

    def set(self) -> None:
        """Wake the waiting process, or the next one that waits."""
        self._is_set = True
        if self._waiting is not None:
            turn = self._turn
            self._scheduler.at(0, lambda: self._resume(turn))

    def wait(self, delay_ms: int | None) -> None:
        """Return when it was set, or after ``delay_ms``; it is unset then."""
        if not self._is_set:
            self._turn += 1
            turn = self._turn
            self._waiting = self._scheduler.current
            if delay_ms is not None:
                self._scheduler.at(delay_ms, lambda: self._resume(turn))
            self._scheduler.wait()
        self._is_set = False

    def _resume(self, turn: int) -> None:
        if turn == self._turn and self._waiting is not None:
            process, self._waiting = self._waiting, None
            self._scheduler.resume(process)


class _NoSelector:
    """There are no sockets."""

    def select(self, _timeout: float | None) -> list[object]:
        return []

    def close(self) -> None:
        """Nothing is open."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """The event loop of one machine. ``live`` is the body of its process."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._selector = _NoSelector()
        self._wake = Wake(scheduler)
        self.failures: list[dict[str, Any]] = []
        """Errors that no code caught."""
        self.set_exception_handler(lambda _loop, context: self.failures.append(context))

    def use_threads(self, threads: Executor) -> None:
        """For what runs in threads of the loop's own (``asyncio.to_thread``)."""
        self._default_executor = threads

    def time(self) -> float:
        """Virtual seconds."""
        return self._scheduler.now_ms / 1000

    def live(self) -> None:
        """Run for ever; the scheduler ends it with its machine."""
        while True:
            self.run_ready()
            self._wake.wait(self._until_next_timer_ms())

    def run_ready(self) -> None:
        """Run what is ready now, and what that makes ready."""
        events._set_running_loop(self)
        try:
            while True:
                self._run_once()  # type: ignore[attr-defined]
                if not self._ready:  # type: ignore[attr-defined]
                    return
        finally:
            events._set_running_loop(None)

    def bury(self) -> None:
        """Cancel whatever a crashed machine had under way, so that nothing of it is left to the garbage collector."""
        self._write_to_self = lambda: None  # type: ignore[method-assign]
        while tasks := [task for task in asyncio.all_tasks(self) if not task.done()]:
            for task in tasks:
                task.cancel()
            self.run_ready()
        self.close()

    def _until_next_timer_ms(self) -> int | None:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        while timers and timers[0].cancelled():
            heapq.heappop(timers)._scheduled = False  # type: ignore[attr-defined]
            self._timer_cancelled_count: int = max(0, self._timer_cancelled_count - 1)
        if not timers:
            return None
        return max(1, -int(-(timers[0].when() * 1000 - self._scheduler.now_ms) // 1))

    def _process_events(self, event_list: list[object]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        self._wake.set()


class SimulatedExecutor(WorkExecutor):
    """``Threads``, each call in a process of its own on the machine. Which one runs first is the seed's choice."""

    def __init__(self, scheduler: Scheduler, machine: Machine, name: str) -> None:
        self._scheduler = scheduler
        self._machine = machine
        self._name = name

    def begin(self, work: Callable[[], None]) -> None:
        """Begin a call."""
        if not self._machine.alive:
            raise OSError("the machine has crashed")
        self._scheduler.start(f"{self._machine.name} {self._name}", self._machine, work)

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """One call after the other, in the process that asks."""
        return iter([fn(*arguments) for arguments in zip(*iterables, strict=False)])

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing to end."""
