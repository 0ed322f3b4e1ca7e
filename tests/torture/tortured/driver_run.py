"""A run in which a Spark driver is killed again and again: feed it, kill it, and at last let one come to its end.

Every other driver is killed at a *point*, which is where what it has written and what Spark has noted differ; the others at any
moment. What a driver is, where its point is, what it is fed and what must be there at the end is the run's own.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from unittest import mock

from tests.torture.tortured.killed_driver import killed_driver
from tests.torture.tortured.run import Outcome
from tests.torture.tortured.service import Service, service
from tidelog import Admin, Producer

DRIVER_SECONDS_MAX = 240.0
LAST_SECONDS_MAX = 600.0
LAST_STARTS_MAX = 5
LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``planted``: drivers have a fault that the run must find."""

    restarts: int
    seed: int
    planted: bool = False


class DriverRun(ABC):
    """What is under way."""

    GATEWAYS: ClassVar[int]
    PLANTED: ClassVar[Path]
    """A directory whose ``sitecustomize`` is the fault."""
    TOPICS: ClassVar[Sequence[str]]
    """Made at the beginning; the first of them is fed."""
    FED: ClassVar[int]
    """New records before each start of a driver."""
    RANDOM_SECONDS_MAX: ClassVar[float]
    """Between a driver's first step and its death, when it is not killed at the point."""

    def __init__(self, plan: Plan, running: Service, directory: Path, progress: Callable[[str], None]) -> None:
        self.running = running
        self.directory = directory
        self.counts = Counter[str]()
        self.failures: list[str] = []
        self._plan = plan
        self._progress = progress
        self._chosen = random.Random(plan.seed)

    def run(self) -> None:
        """All of the plan; at its end everything that was fed is settled."""
        with Admin(self.running.urls) as admin:
            for topic in self.TOPICS:
                admin.create_topic(topic, partition_count=2, config={"flush.ms": 50})
        with self.misfortune(random.Random(self._plan.seed + 1)):
            for restart in range(self._plan.restarts):
                self._progress(f"driver {restart} of {self._plan.restarts}, {dict(self.counts)}")
                self._feed()
                self._run_driver(restart)
        for _ in range(LAST_STARTS_MAX):
            if self._run_driver(None) == 0:
                return
        self.failures.append(f"{LAST_STARTS_MAX} drivers that nobody killed did not come to their end")

    @abstractmethod
    def judge(self) -> list[str]:
        """What is missing or there twice at the end."""

    @abstractmethod
    def command(self, *, is_last: bool) -> list[str]:
        """A driver, as arguments of Python; the last one must come to its end by itself."""

    @abstractmethod
    def steps(self) -> Sequence[int]:
        """How far the driver is: another answer means that it has done something."""

    @abstractmethod
    def is_at_the_point(self, before: Sequence[int]) -> bool:
        """Whether a driver that began at the steps ``before`` should be killed now."""

    @abstractmethod
    def count_what_was_cut_off(self) -> None:
        """Count in what state the driver that has just ended left things."""

    def value(self, number: int) -> str:
        """The record of this number."""
        return str(number)

    def misfortune(self, chosen: random.Random) -> contextlib.AbstractContextManager[None]:
        """What else befalls the service while drivers are killed."""
        del chosen
        return contextlib.nullcontext()

    def _feed(self) -> None:
        fed = self.counts["records"]
        with Producer(self.running.urls) as producer:
            for number in range(fed, fed + self.FED):
                producer.send(self.TOPICS[0], self.value(number), key=str(number))
        self.counts["records"] += self.FED

    def _run_driver(self, restart: int | None) -> int:
        """One driver, killed on its way; None: one that should come to its end. How it ended."""
        is_last = restart is None
        log = self.directory / f"driver-{'last' if is_last else restart}.log"
        planted = self.PLANTED if self._plan.planted else None
        with killed_driver(self.command(is_last=is_last), log, planted=planted) as process:
            try:
                if restart is None:
                    process.wait(LAST_SECONDS_MAX)
                else:
                    self._until_it_is_to_be_killed(process, at_the_point=restart % 2 == 0)
            except subprocess.TimeoutExpired:
                self.counts["drivers that took too long"] += 1
        code = process.wait()
        if code not in (0, -signal.SIGKILL):
            # Spark waits 10 s for its own Python processes, which a busy machine may exceed: it is started again, as an
            # operator would.
            self.counts["drivers that gave up by themselves"] += 1
        elif not is_last:
            self.counts["drivers killed" if code else "drivers that were done before"] += 1
        self.count_what_was_cut_off()
        return code

    def _until_it_is_to_be_killed(self, process: subprocess.Popen[bytes], *, at_the_point: bool) -> None:
        """Until this driver has done something, and what is waited for of it has come."""
        deadline = time.monotonic() + DRIVER_SECONDS_MAX
        before = self.steps()
        enough = self._chosen.uniform(0, self.RANDOM_SECONDS_MAX)
        began: float | None = None
        while process.poll() is None and time.monotonic() < deadline:
            if began is None and self.steps() != before:
                began = time.monotonic()
            if began is not None and (
                self.is_at_the_point(before) if at_the_point else time.monotonic() - began > enough
            ):
                return
            time.sleep(LOOK_SECONDS)


def torture_drivers(
    kind: type[DriverRun], plan: Plan, directory: Path, *, progress: Callable[[str], None] = lambda _text: None
) -> Outcome:
    """Run the plan and judge what is there at its end."""
    began = time.monotonic()
    with service(directory, kind.GATEWAYS) as running, mock.patch.dict(os.environ, running.environment):
        run = kind(plan, running, directory, progress)
        run.run()
        contradictions = run.judge() if not run.failures else []
        run.failures += [
            f"gateway {i} ended with {code}" for i, g in enumerate(running.gateways) if (code := g.stop()) != 0
        ]
    return Outcome(
        counts=dict(run.counts), contradictions=run.failures + contradictions, seconds=time.monotonic() - began
    )
