"""Plans: every offset in one task, segments opened once, tasks of about one size; and each partition's fair share."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from log_format.errors import CorruptData
from log_format.manifest.manifest import Manifest
from log_format.segments.reader import OffsetRange
from log_format.segments.run import Run, SegmentRef
from log_format.topic.state import TopicState
from spark_pipeline.source import plan
from spark_pipeline.source.limit import limit_offsets
from spark_pipeline.source.offsets import count_offsets
from spark_pipeline.source.plan import SegmentPart, distribute_parts, find_parts


def topic(seed: int, segments: int, partitions: int) -> tuple[TopicState, list[int]]:
    """A topic of random segments, some partitions in each; and where its partitions end."""
    chosen = random.Random(seed)
    manifest = Manifest()
    ends = [0] * partitions
    for index in range(segments):
        runs = []
        for partition in sorted(chosen.sample(range(partitions), chosen.randint(1, partitions))):
            length = chosen.randint(1, 2_000)
            runs.append(Run(partition, ends[partition], ends[partition] + length, length, 1, index, index))
            ends[partition] += length
        manifest.add(SegmentRef(f"segments/{index}", 100, 50, 0), runs)
    return with_manifest(manifest), ends


def with_manifest(manifest: Manifest) -> TopicState:
    state = TopicState.absent("t")
    return type(state)(**{name: getattr(state, name) for name in state.__slots__} | {"manifest": manifest})


def rows(task: tuple[SegmentPart, ...]) -> int:
    return sum(part.offset_count for part in task)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("tasks_min", [None, 1, 7, 500])
def test_every_offset_once_and_partitions_in_order(seed: int, tasks_min: int | None) -> None:
    """Whatever the ranges and sizes: the tasks' ranges are the wanted ones, no two overlap, none is out of order."""
    chosen = random.Random(seed)
    state, ends = topic(seed, chosen.randint(1, 60), chosen.randint(1, 6))
    wanted = []
    for partition, end in enumerate(ends):
        start, stop = sorted([chosen.randint(0, end), chosen.randint(0, end)])
        if start < stop:
            wanted.append(OffsetRange(partition, start, stop))
    parts = find_parts(state, 0, wanted)
    tasks = distribute_parts(
        parts, parallelism=2, tasks_min=tasks_min, rows_per_task_max=5_000, rows_per_task_min=1_000
    )
    read: dict[int, list[tuple[int, int]]] = {}
    for task in tasks:
        of_task: dict[int, int] = {}
        for part in task:
            for each in part.ranges:
                assert each.start_offset >= of_task.get(each.partition, 0)
                of_task[each.partition] = each.end_offset
                read.setdefault(each.partition, []).append((each.start_offset, each.end_offset))
    for each in wanted:
        position = each.start_offset
        for start, end in sorted(read.pop(each.partition)):
            assert start == position
            position = end
        assert position == each.end_offset
    assert not read


def test_small_ranges_share_a_task_and_long_ones_are_split() -> None:
    """Few records are one task; many are as many as run at once, and none is much larger than asked."""
    state, ends = topic(1, 50, 4)
    parts = find_parts(state, 0, [OffsetRange(partition, 0, end) for partition, end in enumerate(ends)])
    total = sum(ends)
    assert len(distribute_parts(parts, parallelism=8, tasks_min=None, rows_per_task_max=10**6)) == max(
        1, -(-total // plan.ROWS_PER_TASK_MIN)
    )
    for size in (100, 1_000, 10_000):
        tasks = distribute_parts(parts, parallelism=2, tasks_min=None, rows_per_task_max=size)
        assert max(rows(task) for task in tasks) <= size * 3
    assert len(distribute_parts(parts, parallelism=2, tasks_min=40, rows_per_task_max=10**6)) >= 30


@pytest.mark.parametrize("parallelism", [2, 3, 8])
def test_long_ranges_are_tasks_for_every_core_to_the_end(parallelism: int) -> None:
    """Where there must be more tasks than cores there are as many rounds of them as it takes, all full."""
    runs = [Run(0, first, first + 100_000, 100_000, 1, 0, 0) for first in range(0, 5_000_000, 100_000)]
    manifest = Manifest()
    for index, run in enumerate(runs):
        manifest.add(SegmentRef(f"segments/{index}", 100, 50, 0), [run])
    parts = find_parts(with_manifest(manifest), 0, [OffsetRange(0, 0, 5_000_000)])
    tasks = distribute_parts(parts, parallelism=parallelism, tasks_min=None, rows_per_task_max=1_000_000)
    assert len(tasks) % parallelism == 0
    sizes = [rows(task) for task in tasks]
    assert max(sizes) - min(sizes) <= 100_000


def test_a_hole_that_nobody_made_fails_the_batch() -> None:
    """Offsets that were acknowledged and that no segment has: the batch says so, where key compaction did not leave them out."""
    manifest = Manifest()
    for index, first in enumerate((0, 20)):
        manifest.add(SegmentRef(f"segments/{index}", 100, 50, 0), [Run(0, first, first + 10, 10, 1, 0, 0)])
    state = replace(with_manifest(manifest), keys_compacted=np.zeros(1, np.int64), log_starts=np.zeros(1, np.int64))
    for end, lost in ((30, r"\[10, 20\)"), (40, r"\[30, 40\)")):
        with pytest.raises(CorruptData, match=lost):
            find_parts(state, 0, [OffsetRange(0, 0 if end == 30 else 20, end)])
    compacted = replace(state, keys_compacted=np.full(1, 20, np.int64))
    assert [part.segment.path for part in find_parts(compacted, 0, [OffsetRange(0, 0, 30)])] == [
        "segments/0",
        "segments/1",
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_bounded_micro_batch_takes_a_fair_share(seed: int) -> None:
    """Exactly as many offsets as allowed, from each partition in proportion, and something from each while that is possible."""
    chosen = random.Random(seed)
    start = {"a": {partition: chosen.randint(0, 100) for partition in range(5)}, "b": {0: 0}}
    end = {"a": {partition: at + chosen.randint(0, 10_000) for partition, at in start["a"].items()}, "b": {0: 3}}
    for bound in (1, 6, 100, 10**6):
        ends = limit_offsets(start, end, bound)
        assert count_offsets(start, ends) == min(bound, count_offsets(start, end))
        for name, of in ends.items():
            for partition, offset in of.items():
                begin, last = start[name][partition], end[name][partition]
                assert begin <= offset <= last
                assert bound < 6 or last == begin or offset > begin


def test_partitions_that_are_new_begin_at_their_first_offset() -> None:
    """A partition that the start does not know counts from 0."""
    assert limit_offsets({}, {"a": {0: 10}}, 4) == {"a": {0: 4}}
