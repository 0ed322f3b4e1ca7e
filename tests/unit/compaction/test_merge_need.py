"""What is merged when: by number, by bytes, by age; and however these come together, no record more than three times."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from compaction.merge_plan import RewriteReason, plan_merges
from compaction.policy import Policy
from log_format.segments.run import Run, SegmentRef
from log_format.topic.live_segments import LiveSegment
from log_format.topic.segment_tags import Rewritten

MIB = 1024 * 1024
MINUTE = 60_000
HOUR = 60 * MINUTE
PARTITIONS = 2
FEW = 3
"""Of one tier that a quiet partition keeps."""


class Topic:
    """Flushes and what merges make of them, without a store: each touches all partitions."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.now_ms = 10**12
        self.live: list[LiveSegment] = []
        self.merged = 0
        self._names = 0
        self._offset = 0

    def flush(self, size_bytes: int) -> None:
        runs = [self._run(partition, self._offset, self._offset + 10) for partition in range(PARTITIONS)]
        self._add(runs, size_bytes, self.now_ms, 0)
        self._offset += 10

    def maintain(self) -> None:
        """A round: merges, as long as there are any."""
        while plans := plan_merges(self.live, {}, policy=self.policy, retention_ms=-1, now_ms=self.now_ms):
            for plan in plans:
                assert plan.reason is RewriteReason.MERGE
                self._merge(plan.sources)

    def files(self) -> int:
        return len(self.live)

    def _merge(self, sources: Sequence[LiveSegment]) -> None:
        self.merged += len(sources)
        times = max(source.rewritten.times for source in sources) + 1
        paths = {source.segment.path for source in sources}
        self.live = [each for each in self.live if each.segment.path not in paths]
        newest_ms = max(source.modification_time_ms for source in sources)
        size = sum(source.segment.size_bytes for source in sources)
        partitions = sorted({run.partition for source in sources for run in source.runs})
        for partition in partitions:
            runs = [run for source in sources for run in source.runs if run.partition == partition]
            assert all(one.end_offset == other.base_offset for one, other in pairwise(runs))
            run = self._run(partition, runs[0].base_offset, runs[-1].end_offset)
            self._add([run], size // len(partitions), newest_ms, times)
        self.live.sort(key=lambda each: (each.modification_time_ms, each.segment.path))

    def _add(self, runs: list[Run], size_bytes: int, time_ms: int, times: int) -> None:
        self._names += 1
        segment = SegmentRef(f"{self._names:09d}", size_bytes, 10, 0)
        self.live.append(
            LiveSegment(
                segment=segment, runs=tuple(runs), modification_time_ms=time_ms, rewritten=Rewritten(times=times)
            )
        )

    def _run(self, partition: int, base: int, end: int) -> Run:
        return Run(partition, base, end, end - base, 1, self.now_ms, self.now_ms)


@pytest.mark.parametrize(
    ("count", "size", "files"), [(7, 8 * MIB, 7), (8, 8 * MIB, 2), (2, 40 * MIB, 2), (1, 70 * MIB, 1)]
)
def test_few_large_flushes_are_worth_a_merge(count: int, size: int, files: int) -> None:
    """Number is not all: a quarter of a merged segment's size is merged at once, into one segment for each partition."""
    topic = Topic()
    for _ in range(count):
        topic.flush(size)
    topic.maintain()
    assert topic.files() == files


def test_a_quiet_topic_ends_with_few_files() -> None:
    """What waits in vain for more of its tier does not wait for ever; while records come, it waits."""
    topic = Topic()
    for _ in range(15 * 16 + 15):
        topic.flush(1000)
        topic.flush(1000)
        topic.now_ms += topic.policy.idle_ms
        topic.maintain()
    assert topic.files() > PARTITIONS * 2 * (topic.policy.fan_in - 2)
    topic.now_ms += topic.policy.quiet_ms
    topic.maintain()
    assert topic.files() <= PARTITIONS * 2


def test_a_slow_topic_is_not_taken_for_a_quiet_one() -> None:
    """Where a few records come all the time, tiers wait for all of theirs: merging early would make more files, not fewer."""
    slow, hasty = Topic(), Topic(Policy(fan_in=4))
    for topic in (slow, hasty):
        for _ in range(1_500):
            topic.flush(1000)
            topic.now_ms += topic.policy.quiet_ms // 4
            topic.maintain()
    assert slow.files() < hasty.files()
    assert slow.merged < hasty.merged


def history(seed: int) -> tuple[Topic, dict[int, int]]:
    """Flushes of all sizes, pauses of all lengths, rounds now and then; and how often each offset was rewritten."""
    rng = random.Random(seed)
    small = Policy(flushed_min=rng.choice((2, 4, 8)), fan_in=rng.choice((2, 3, 4)), sources_max=rng.choice((8, 40)))
    topic = Topic(replace(small, quiet_fan_in=rng.choice((2, 4))))
    rewrites: dict[int, int] = {}
    real = topic._merge

    def counting(sources: Sequence[LiveSegment]) -> Any:
        for source in sources:
            for run in source.runs:
                for offset in range(run.base_offset, run.end_offset, 10) if run.partition == 0 else ():
                    rewrites[offset] = rewrites.get(offset, 0) + 1
        return real(sources)

    topic._merge = counting  # type: ignore[method-assign]
    for _ in range(150):
        for _ in range(rng.choice((1, 1, 3, 20))):
            topic.flush(rng.choice((1_000, 1_000, MIB, 40 * MIB, 300 * MIB)))
        topic.now_ms += rng.choice((1_000, MINUTE, 20 * MINUTE, 7 * HOUR))
        if rng.random() < 0.7:
            topic.maintain()
    topic.now_ms += 7 * HOUR
    topic.maintain()
    return topic, rewrites


@pytest.mark.parametrize("seed", range(12))
def test_no_record_is_merged_more_than_three_times(seed: int) -> None:
    """By number, bytes and age in any order: write amplification has the bound that the tiers give it."""
    topic, rewrites = history(seed)
    assert 1 <= max(rewrites.values()) <= topic.policy.merges_max == 3
    assert max(each.rewritten.times for each in topic.live) <= 3
