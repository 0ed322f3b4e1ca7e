"""One thread, many processes, one virtual clock: plain blocking code run in an order that a seed decides.

A process is a greenlet. It runs until it waits (``sleep_ms``, ``Signal.wait``); then whatever is due next in virtual time runs.
Things due at the same moment run in an order drawn from the seed. Nothing here knows of stores or topics.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from greenlet import GreenletExit, greenlet

EPOCH_MS = 1_763_683_200_000
"""Wall time when a simulation begins."""


@dataclass(eq=False)
class Machine:
    """What is paused or crashes as one: a gateway's processes live on one machine."""

    name: str
    wall_skew_ms: int = 0
    paused_until_ms: int = 0
    alive: bool = True
    processes: list[Process] = field(default_factory=list)


@dataclass(eq=False)
class Process:
    """One thread of control on a machine."""

    name: str
    machine: Machine
    run: greenlet
    ended: bool = False


class StillRunning(AssertionError):
    """A simulation did not come to its end within its bound of steps: something waits or retries for ever."""


class Scheduler:
    """Runs processes and timed calls; keeps the virtual time, milliseconds from 0."""

    def __init__(self, rng: random.Random, *, steps_max: int = 60_000) -> None:
        self.now_ms = 0
        self.steps = 0
        self.trace: list[str] = []
        """What happened, in order: equal for equal seeds."""
        self.on_note: Callable[[str], None] = lambda line: None
        self._rng = rng
        self._steps_max = steps_max
        self._due: list[tuple[int, float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._hub: greenlet | None = None
        self._current: Process | None = None
        self._failure: BaseException | None = None

    @property
    def current(self) -> Process:
        """The process that runs now."""
        assert self._current is not None, "only a process can wait"
        return self._current

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        line = f"{self.now_ms} {what}"
        self.trace.append(line)
        self.on_note(line)

    def at(self, delay_ms: int, call: Callable[[], None]) -> None:
        """Call after ``delay_ms``, outside all processes."""
        self._sequence += 1
        heapq.heappush(self._due, (self.now_ms + max(0, delay_ms), self._rng.random(), self._sequence, call))

    def start(self, name: str, machine: Machine, body: Callable[[], None]) -> Process:
        """Begin a process, at the present moment but not before the caller waits."""

        def run() -> None:
            try:
                body()
            except GreenletExit:
                pass
            except BaseException as problem:  # noqa: BLE001 - whatever it is, it ends the simulation
                self._failure = problem
            process.ended = True

        process = Process(name, machine, greenlet(run))
        machine.processes.append(process)
        self.at(0, lambda: self.resume(process))
        return process

    def sleep_ms(self, duration_ms: int) -> None:
        """Let the current process wait."""
        process = self.current
        self.at(duration_ms, lambda: self.resume(process))
        self.wait()

    def crash(self, machine: Machine) -> None:
        """End every process of the machine where it stands; not to be called by one of them."""
        machine.alive = False
        for process in machine.processes:
            if not process.ended and process.run:
                process.run.parent = greenlet.getcurrent()
                process.run.throw()
            process.ended = True
        machine.processes.clear()

    def run(self) -> None:
        """Run until nothing is due any more. Raises what a process raised, and ``StillRunning``."""
        self._hub = greenlet.getcurrent()
        while self._due:
            due_ms, _, _, call = heapq.heappop(self._due)
            self.now_ms = due_ms
            self.steps += 1
            if self.steps > self._steps_max:
                raise StillRunning(f"more than {self._steps_max} steps")
            call()
            if self._failure is not None:
                raise self._failure

    def wait(self) -> None:
        """Leave the current process until another one resumes it."""
        assert self._hub is not None
        self._hub.switch()

    def resume(self, process: Process) -> None:
        """Go on with a process, when its machine lets it. Called when something is due, outside all processes."""
        if process.ended or not process.machine.alive:
            return
        paused_ms = process.machine.paused_until_ms - self.now_ms
        if paused_ms > 0:
            self.at(paused_ms, lambda: self.resume(process))
            return
        before, self._current = self._current, process
        process.run.parent = greenlet.getcurrent()
        process.run.switch()
        self._current = before


class Signal:
    """Something to wait for: set once or again and again."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: list[Process] = []
        self.is_set = False
        self.is_given_up = False

    def set(self) -> None:
        """Wake all waiting processes."""
        self.is_set = True
        self._wake()

    def give_up(self) -> None:
        """Wake all waiting processes, without what they wait for."""
        self.is_given_up = True
        self._wake()

    def wait(self) -> bool:
        """Return when it is set (True) or given up."""
        while not (self.is_set or self.is_given_up):
            self._waiting.append(self._scheduler.current)
            self._scheduler.wait()
        return self.is_set

    def _wake(self) -> None:
        for process in self._waiting:
            self._scheduler.at(0, partial(self._scheduler.resume, process))
        self._waiting.clear()


class Lock:
    """Held by one process at a time. The seed chooses which waiting process gets it next."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._free: Signal | None = None

    def __enter__(self) -> None:
        while self._free is not None:
            self._free.wait()
        self._free = Signal(self._scheduler)

    def __exit__(self, *_: object) -> None:
        free, self._free = self._free, None
        assert free is not None
        free.set()


class MachineClock:
    """``log_format.clock.Clock`` on a machine: its wall clock may be wrong, its monotonic one is right."""

    def __init__(self, scheduler: Scheduler, machine: Machine) -> None:
        self._scheduler = scheduler
        self._machine = machine

    def now_ms(self) -> int:
        return EPOCH_MS + self._scheduler.now_ms + self._machine.wall_skew_ms

    def monotonic_ms(self) -> int:
        return self._scheduler.now_ms

    def sleep_ms(self, duration_ms: int) -> None:
        self._scheduler.sleep_ms(duration_ms)
