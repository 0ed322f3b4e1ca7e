"""The collector of orphans racing committers that sleep for hours at any request: what is in the log stays readable.

Each request of each actor may be preceded by a pause, of milliseconds or of more than a day, in which others do whole rounds
of their own. One seed is one history.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

import compaction.topic_upkeep
from compaction.collection import plan_segments
from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.change import Proposal, StagedFile
from log_format.delta.committer import Committer
from log_format.delta.fence import Fence
from log_format.errors import TidelogError
from log_format.inspection.verify import verify_topic
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Append
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from tests.support.clocks import ManualClock
from tests.support.collected_events import CollectedEvents
from tests.support.faulty_store import FaultyStore
from tests.support.records import batch_of

HISTORIES = 15
PLANTED_SEEDS_MAX = 600
HOUR_MS = 3_600_000
PAUSES_MS = (0, 0, 10, 60_000, HOUR_MS // 2, 2 * HOUR_MS, 25 * HOUR_MS, 30 * HOUR_MS)
PAUSE_SHARE = 0.1
DEPTH_MAX = 3
STEPS = 12
PAUSES_MAX = 12


class World:
    """Two appenders and two maintainers, none of which does two things at once."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.objects = MemoryStore(clock=self.clock)
        self.numbers = count(1)
        self.acknowledged: dict[int, bytes] = {}
        self.busy: set[int] = set()
        self.depth = 0
        self.pauses_left = PAUSES_MAX
        self.actors = [self.appender(), self.appender(), self.maintainer(), self.maintainer()]
        # At once, or by the count: that takes an hour, and the log says what is gone.
        counted = {"deleted.file.retention.ms": 7 * 24 * HOUR_MS, "deleted.file.retention.count": 0}
        soon = {"deleted.file.retention.ms": 0} if seed % 2 else counted
        config = TopicConfig.parse({**soon, "retention.ms": -1})
        log = TopicLog(self.objects, "t", self.clock)
        change = CreateTopic(name="t", partition_count=1, config=config, topic_id="topic")
        Committer(log, new_id=self.new_id).commit(change)

    def new_id(self) -> str:
        return f"id-{next(self.numbers)}"

    def run(self) -> None:
        for _ in range(STEPS):
            self.somebody()
        assert verify_topic(self.objects, "t", clock=self.clock).problems == ()
        state = TopicLog(self.objects, "t", self.clock).refresh()
        assert all(offset < state.high_watermark(0) for offset in self.acknowledged)

    def somebody(self) -> None:
        """An idle actor does something, and perhaps sleeps in the middle of it."""
        who = self.rng.randrange(len(self.actors))
        if who in self.busy:
            return
        self.busy.add(who)
        self.depth += 1
        try:
            self.actors[who]()
        finally:
            self.depth -= 1
            self.busy.discard(who)

    def pause(self) -> None:
        if self.pauses_left and self.rng.random() < PAUSE_SHARE:
            self.pauses_left -= 1
            parts = [self.rng.choice(PAUSES_MS) for _ in range(2)]
            self.clock.pass_ms(parts[0])
            if self.depth < DEPTH_MAX:
                self.somebody()
                self.somebody()
            self.clock.pass_ms(parts[1])

    def appender(self) -> Callable[[], None]:
        log = TopicLog(FaultyStore(self.objects, before=lambda _operation, _key: self.pause()), "t", self.clock)
        committer = Committer(log, new_id=self.new_id, jitter=lambda: 1.0)

        def append() -> None:
            value = b"%d" % next(self.numbers)
            batch = batch_of("topic", [value], timestamps_ms=self.clock.now_ms())
            try:
                (outcome,) = committer.commit(Append([batch], self.new_id)).result
            except TidelogError:
                return
            if isinstance(outcome, tuple):
                assert outcome[0].base_offset not in self.acknowledged
                self.acknowledged[outcome[0].base_offset] = value

        return append

    def maintainer(self) -> Callable[[], object]:
        store = FaultyStore(self.objects, before=lambda _operation, _key: self.pause())
        job = Job(
            store=store,
            workers=LocalWorkers(store),
            clock=self.clock,
            report=CollectedEvents(),
            policy=Policy(flushed_min=2, sources_max=3, fan_in=2, deletes_at_once=1),
            only=["t"],
            new_id=self.new_id,
        )
        return lambda: job.run_round(collect=True)


@pytest.mark.parametrize("part", range(3))
def test_whatever_is_collected_nothing_in_the_log_is_lost(part: int) -> None:
    """Every segment in the table is there, whole, after any history; and every acknowledged record below the end."""
    for seed in range(part, HISTORIES, 3):
        print(f"seed {seed}")
        World(seed).run()


def without_grace(*arguments: Any, **more: Any) -> Any:
    """A collector that takes what no commit names at once."""
    return plan_segments(*arguments, **{**more, "grace_ms": 0})


def of_any_age(committer: Committer[Any], segment: StagedFile | None) -> bool:
    """A committer that takes a segment however long ago it was put."""
    if segment is not None and segment.uploaded_at_ms is None:
        committer.stage(segment)
    return True


def unfenced(fence: Fence, state: Any, now_ms: int) -> Proposal[None]:
    """A collector that trusts the ages alone."""
    return Proposal(operation="FENCE", actions=(), result=None)


def by_its_own_clock(*_arguments: object) -> int:
    """A time of the store that says nothing: without a fence the newest commit may be days old."""
    return 10**15


@pytest.mark.parametrize(
    ("fault", "first_seed"), [("no grace", 559), ("no fence", 0), ("committer takes old segments", 0)]
)
def test_a_collector_or_committer_without_its_side_of_the_grace_is_found_out(
    fault: str, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the three is needed: without any of them some history loses records, and soon from the first seed on."""
    if fault == "no grace":
        monkeypatch.setattr(compaction.topic_upkeep, "plan_segments", without_grace)
    elif fault == "no fence":
        monkeypatch.setattr(Fence, "propose", unfenced)
        monkeypatch.setattr(compaction.topic_upkeep, "store_time_ms", by_its_own_clock)
    else:
        monkeypatch.setattr(Committer, "_is_segment_ready", of_any_age)
    for seed in range(first_seed, first_seed + PLANTED_SEEDS_MAX):
        try:
            World(seed).run()
        except AssertionError:
            return
    pytest.fail(f"{PLANTED_SEEDS_MAX} histories do not show it")
