"""Programs of maintenance: rounds of the real job, which drain what gateways left, merge, compact keys, give older records their
columns, and whatever else a topic needs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from compaction.job import Job
from compaction.policy import Policy
from compaction.report import Totals
from compaction.workers import LocalWorkers
from log_format.errors import StoreError
from log_format.store import ObjectStore
from tests.simulation.simulated.faults import Profile
from tests.simulation.simulated.scheduler import Machine, MachineClock, Scheduler


class Maintainer:
    """One process of maintenance on its machine.

    ``topics``: those that it maintains; none: all. ``collects``: in which share of its rounds it deletes what nobody needs.
    ``told``: what it did, how often.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        store: ObjectStore,
        machine: Machine,
        *,
        topics: Sequence[str],
        collects: float,
        new_id: Callable[[], str],
        rng: random.Random,
        told: Counter[str],
    ) -> None:
        self.machine = machine
        self.began_ms: int | None = None
        """When the round under way began; None: there is none."""
        self._scheduler = scheduler
        self._told = told
        self._collects = collects
        self._job = Job(
            store=store,
            workers=LocalWorkers(store, new_id=new_id),
            clock=MachineClock(scheduler, machine),
            report=self,
            policy=Policy(
                flushed_min=2, sources_max=3, fan_in=2, quiet_fan_in=2, idle_ms=1, dirty_ratio=0.1,
                target_bytes=rng.choice((16_000, 1 << 20)), deletes_at_once=1, reads_at_once=1,
            ),
            only=topics,
            new_id=new_id,
        )  # fmt: skip

    def live(self, is_over: Callable[[], bool], profile: Profile, rng: random.Random) -> None:
        """Do rounds until all is over."""
        while not is_over():
            self._scheduler.sleep_ms(rng.randrange(1, 5 * profile.think_ms_max))
            self.run_round(collect=bool(self._collects) and rng.random() < self._collects)

    def run_round(self, *, collect: bool = False) -> Totals | None:
        """Do one round; None where it failed as a whole."""
        self.began_ms = self._scheduler.now_ms
        try:
            totals = self._job.run_round(collect=collect)
        except StoreError:
            return None
        finally:
            if self.machine.alive:
                self.began_ms = None
        self._told["drained by maintenance"] += totals.drains
        return totals

    def event(self, event: str, **fields: str | float) -> None:
        """Count what is done, and tell it."""
        self._scheduler.note(f"{self.machine.name}: {event} {fields}")
        if event == "rewrite" and fields["outcome"] == "committed":
            self._told[f"rewritten: {fields['reason']}"] += 1
        elif event == "lay out" and fields["outcome"] == "committed":
            self._told["laid out"] += 1
