"""Segments that are gone when a task comes to read them: their records are read where they are now, once, or missed aloud."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from log_format.errors import CorruptData
from log_format.segments.reader import OffsetRange, SegmentReader
from spark_pipeline.source import reading
from spark_pipeline.source.loss import DataLoss
from spark_pipeline.source.relocation import remaining_ranges
from tests.support.source_bench import SourceBench


def places(batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch]) -> list[tuple[int, int]]:
    return [
        place
        for batch in batches
        for place in zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True)
    ]


def in_each_partition(count: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in (0, 1) for offset in range(count)]


def test_a_segment_that_was_replaced_and_collected_is_looked_for_again(bench: SourceBench) -> None:
    """Planned, merged, the old segments deleted, merged and deleted again: every record once, each partition's in order."""
    for _ in range(3):
        bench.append(30)
    reader = bench.batch_reader()
    (task,) = reader.partitions()
    bench.collect(bench.merge())
    bench.append(5)
    bench.collect(bench.merge())
    found = places(reader.read(task))
    assert sorted(found) == in_each_partition(90)
    for partition in (0, 1):
        offsets = [offset for of, offset in found if of == partition]
        assert offsets == sorted(offsets)


def test_reading_goes_on_behind_the_last_record(bench: SourceBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that goes while it is read: what was given is not given again."""
    # Each span is a request of its own.
    spans = SegmentReader(bench.store, whole_object_bytes_max=0, span_bytes_max=1)
    monkeypatch.setattr(reading, "segment_reader", lambda _uri: spans)
    bench.append(100)
    bench.collect(bench.merge())
    reader = bench.batch_reader(minPartitions="1")
    (task,) = reader.partitions()
    segments = [part.segment for part in task.parts]
    batches = reader.read(task)
    found = places([next(batches)])
    bench.collect(bench.merge())
    found += places(batches)
    assert len(segments) == 2
    assert sorted(found) == in_each_partition(100)


@pytest.mark.parametrize("fail", [True, False])
def test_what_was_deleted_meanwhile_is_lost_aloud(bench: SourceBench, fail: bool) -> None:
    """A log start that moved beyond the plan's: data loss, or the rest when that is allowed."""
    bench.append(30)
    reader = bench.batch_reader(failOnDataLoss=str(fail).lower())
    (task,) = reader.partitions()
    bench.append(1)
    old = bench.merge()
    bench.delete_records({0: 10, 1: 20})
    bench.collect(old)
    if fail:
        with pytest.raises(DataLoss, match=r"t/0 was read up to 0, and begins at 10 now.*failOnDataLoss"):
            list(reader.read(task))
    else:
        assert places(reader.read(task)) == [(0, offset) for offset in range(10, 30)] + [(1, n) for n in range(20, 30)]


@pytest.mark.parametrize("fail", [True, False])
def test_another_incarnation_is_not_read(bench: SourceBench, fail: bool) -> None:
    """The topic made anew under its name has records at the same offsets, and they are others."""
    bench.append(30)
    reader = bench.batch_reader(failOnDataLoss=str(fail).lower())
    (task,) = reader.partitions()
    old = [f"topics/t/{segment.path}" for segment in bench.log.state.manifest.segments()]
    bench.delete_topic()
    bench.create()
    bench.append(30)
    bench.collect(old)
    if fail:
        with pytest.raises(DataLoss, match="'t' was deleted, or made anew"):
            list(reader.read(task))
    else:
        assert places(reader.read(task)) == []


@pytest.mark.parametrize("fail", [True, False])
def test_a_segment_that_the_log_still_names_is_missing(bench: SourceBench, fail: bool) -> None:
    """That is no rewrite but damage: an error, and not an endless search."""
    bench.append(30)
    reader = bench.batch_reader(failOnDataLoss=str(fail).lower())
    (task,) = reader.partitions()
    bench.collect([f"topics/t/{segment.path}" for segment in bench.log.state.manifest.segments()])
    if fail:
        with pytest.raises(CorruptData, match="is missing"):
            list(reader.read(task))
    else:
        assert list(reader.read(task)) == []


def test_what_is_left_of_ranges() -> None:
    """Behind a record: the rest of its partition's range, and the ranges of partitions that come later."""
    ranges = (OffsetRange(0, 0, 10), OffsetRange(1, 5, 9), OffsetRange(2, 3, 4))
    assert remaining_ranges(ranges, 0, 3) == (OffsetRange(0, 4, 10), *ranges[1:])
    assert remaining_ranges(ranges, 1, 8) == ranges[2:]
    assert remaining_ranges(ranges, 2, 3) == ()
