"""The tail in memory: what is found, what leaves first, what it counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gateway.engine.tail_cache import Original, TailCache
from log_format.records.schema import RECORD_SCHEMA
from log_format.records.single import RecordAtOffset, SingleRecord
from log_format.topic.append_outcome import AppendedRange


def table_of(runs: list[AppendedRange], value: bytes = b"x" * 100) -> pa.Table:
    count = sum(run.count for run in runs)
    columns = {
        "partition": np.concatenate([np.full(run.count, run.partition, np.int32) for run in runs]),
        "offset": np.concatenate([np.arange(run.count) + run.base_offset for run in runs]),
        "timestamp": pa.array([0] * count, RECORD_SCHEMA.field("timestamp").type),
        "key": pa.nulls(count, pa.binary()),
        "value": pa.array([value] * count, pa.binary()),
        "headers": pa.nulls(count, RECORD_SCHEMA.field("headers").type),
    }
    return pa.table(columns, schema=RECORD_SCHEMA)


def add(cache: TailCache, topic_id: str, *runs: AppendedRange) -> None:
    table = table_of(list(runs))
    cache.add(topic_id, table, list(runs), table.nbytes)


def test_a_run_is_found_by_any_of_its_offsets_and_no_other() -> None:
    """Rows and offsets of a flush with several partitions belong together."""
    cache = TailCache(1 << 20)
    add(cache, "a", AppendedRange(0, 10, 5), AppendedRange(3, 7, 2))
    add(cache, "a", AppendedRange(3, 20, 4))
    assert cache.find("a", 0, 9) is None
    assert cache.find("a", 0, 15) is None
    assert cache.find("a", 1, 10) is None
    assert cache.find("a", 3, 9) is None, "the gap between two runs is not in memory"
    for partition, offset in ((0, 10), (0, 14), (3, 7), (3, 8), (3, 20), (3, 23)):
        run = cache.find("a", partition, offset)
        assert run is not None
        row = run.first_row + offset - run.base_offset
        assert run.flush.records.column("partition")[row].as_py() == partition
        assert run.flush.records.column("offset")[row].as_py() == offset


def test_the_oldest_flush_leaves_first_and_the_bound_holds() -> None:
    """Memory stays below the bound; the newest records are those that are kept."""
    cache = TailCache(50_000)
    for number in range(300):
        add(cache, "a", AppendedRange(number % 3, number * 10, 10))
        assert cache.size_bytes <= 50_000
        assert cache.find("a", number % 3, number * 10) is not None
    assert cache.find("a", 0, 0) is None
    held = [number for number in range(300) if cache.find("a", number % 3, number * 10) is not None]
    assert held == list(range(held[0], 300)), "not the oldest left"
    assert len(held) > 5


def test_incarnations_share_nothing() -> None:
    """G3: a topic made anew does not show what the old one held at the same offsets."""
    cache = TailCache(1 << 20)
    add(cache, "old", AppendedRange(0, 0, 5))
    assert cache.find("new", 0, 0) is None
    add(cache, "new", AppendedRange(0, 0, 2))
    found = cache.find("new", 0, 1)
    assert found is not None
    assert found.end_offset == 2


def test_what_is_larger_than_the_bound_is_not_kept() -> None:
    """One huge flush does not throw out everything else for nothing."""
    cache = TailCache(20_000)
    add(cache, "a", AppendedRange(0, 0, 10))
    add(cache, "a", AppendedRange(0, 10, 1000))
    assert cache.find("a", 0, 10) is None
    assert cache.find("a", 0, 0) is not None


def test_everything_evicted_leaves_nothing_behind() -> None:
    """Partitions and topics that were once busy take no memory for ever."""
    cache = TailCache(30_000)
    for number in range(500):
        add(cache, f"topic-{number}", AppendedRange(number, 0, 10))
    assert len(cache._partitions) == len(cache._flushes)


def test_producers_bytes_are_found_by_offset_and_leave_with_their_flush() -> None:
    """Those of a range, in order, from the one that has its first record on; they count as memory."""
    cache = TailCache(60_000)
    batches = [Original(0, 4, b"a" * 5_000), Original(4, 6, b"b"), Original(8, 10, b"c")]
    table = table_of([AppendedRange(0, 0, 10), AppendedRange(1, 0, 3)])
    cache.add("a", table, [AppendedRange(0, 0, 10), AppendedRange(1, 0, 3)], table.nbytes, {0: batches})
    assert cache.size_bytes > 5_000
    assert cache.originals("a", 0, 0, 10) == batches
    assert cache.originals("a", 0, 5, 8) == batches[1:2]
    assert cache.originals("a", 0, 6, 8) == cache.originals("a", 1, 0, 3) == cache.originals("b", 0, 0, 10) == []
    cache.add("a", table_of([AppendedRange(0, 10, 2)]), [AppendedRange(0, 10, 2)], 100, {0: [Original(10, 12, b"d")]})
    assert [one.data for one in cache.originals("a", 0, 4, 12)] == [b"b", b"c", b"d"]
    add(cache, "a", AppendedRange(0, 12, 330))
    assert cache.originals("a", 0, 0, 10) == []
    assert [one.data for one in cache.originals("a", 0, 10, 12)] == [b"d"]


def test_a_record_that_came_alone_is_a_table_for_its_readers() -> None:
    """It counts as a table does, is found at its place, and is made once."""
    placed = RecordAtOffset(3, 7, SingleRecord(5, None, b"v"))
    plain, tables = TailCache(1 << 20), TailCache(1 << 20)
    nbytes = placed.table().nbytes
    plain.add("a", placed, [AppendedRange(3, 7, 1)], nbytes)
    tables.add("a", placed.table(), [AppendedRange(3, 7, 1)], nbytes)
    run = plain.find("a", 3, 7)
    assert run is not None
    assert plain.size_bytes == tables.size_bytes
    assert run.flush.records.equals(placed.table())
    assert run.flush.records is run.flush.records
    assert run.flush.size_sums().tolist() == [0, 1]
