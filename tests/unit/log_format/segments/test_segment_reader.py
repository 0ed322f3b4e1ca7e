"""Reading by offset and by timestamp: the right records, with few requests, and errors that name the segment."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from log_format.errors import CorruptData, ErrorCode, StoreUnavailable
from log_format.records.schema import RECORD_SCHEMA, TIMESTAMP
from log_format.records.size import head_within
from log_format.segments.footer_cache import FooterCache
from log_format.segments.reader import SegmentReader
from log_format.segments.run import SegmentRef
from log_format.segments.segment import decode_footer, encode_segment
from log_format.stores.memory import MemoryStore

TOPIC = "flights"
PATH = "segments/some.parquet"
KEY = f"topics/{TOPIC}/{PATH}"
START_MS = 1_763_683_200_000
NO_LIMIT = {"bytes_max": 1 << 40, "records_max": 1 << 40}
VALUE_BYTES = 100


class CountingStore(MemoryStore):
    """A memory store that notes what was asked of it, and can be switched off."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[Any, ...]] = []
        self.down = False

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        self._note("get")
        return super().get(key, bytes_max=bytes_max)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self._note("get_range", start, end)
        return super().get_range(key, start, end)

    def _note(self, *request: object) -> None:
        self.requests.append(request)
        if self.down:
            raise StoreUnavailable(KEY, "it is down", may_have_happened=False)


def make_records(partition_counts: dict[int, int], timestamps_ms: list[int] | None = None) -> pa.Table:
    """Records of 100-byte values; partition p starts at offset 1000 * p."""
    partitions = np.repeat(np.array(list(partition_counts), dtype=np.int32), list(partition_counts.values()))
    offsets = np.concatenate([1000 * partition + np.arange(count) for partition, count in partition_counts.items()])
    total = len(partitions)
    times = np.array(timestamps_ms if timestamps_ms is not None else START_MS + np.arange(total)) * 1000
    return pa.table(
        [
            pa.array(partitions),
            pa.array(offsets),
            pa.array(times).cast(TIMESTAMP),
            pa.nulls(total, pa.binary()),
            pa.array([b"%0*d" % (VALUE_BYTES, index) for index in range(total)], pa.binary()),
            pa.nulls(total, RECORD_SCHEMA.field("headers").type),
        ],
        schema=RECORD_SCHEMA,
    )


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


def put(store: MemoryStore, records: pa.Table, *, row_group_bytes_max: int = 1250, path: str = PATH) -> SegmentRef:
    """About ten records a row group. Uncompressed, so that what a row group weighs is what it counts."""
    segment = encode_segment(records, compression="uncompressed", row_group_bytes_max=row_group_bytes_max)
    store.put(f"topics/{TOPIC}/{path}", segment.data)
    return segment.ref(path)


def offsets(records: pa.Table) -> list[int]:
    assert records.schema.equals(RECORD_SCHEMA, check_metadata=True)
    return list(records.column("offset").to_pylist())


@pytest.mark.parametrize("whole_object_bytes_max", [0, 1 << 20])
@pytest.mark.parametrize("bytes_max", [1, 99, 100, 250, 1000, 1001, 3333, 1 << 30])
@pytest.mark.parametrize("records_max", [1, 9, 10, 11, 1000])
def test_reads_what_a_scan_would(
    store: CountingStore, whole_object_bytes_max: int, bytes_max: int, records_max: int
) -> None:
    """From any offset, up to exactly the limits, by ranges as well as from the whole object; warm as well as cold."""
    records = make_records({0: 5, 1: 57, 2: 3})
    segment = put(store, records)
    reader = SegmentReader(store, footer_cache_bytes=1 << 20, whole_object_bytes_max=whole_object_bytes_max)
    mine = records.slice(5, 57)
    for start in (0, 1000, 1001, 1009, 1010, 1033, 1056, 1057):
        for end in (None, 1011, start + 1):
            kept = mine.filter(pa.array([start <= offset < (end or 10**9) for offset in offsets(mine)]))
            expected = head_within(kept, bytes_max=bytes_max, records_max=records_max)
            for _ in range(2):
                found = reader.read(
                    TOPIC, segment, 1, start, bytes_max=bytes_max, records_max=records_max, end_offset=end
                )
                assert found.equals(expected)


def test_a_large_segment_takes_two_requests_then_one(store: CountingStore) -> None:
    """Footer and one range at first, one range when the footer is known; never a byte outside the row groups needed."""
    segment = put(store, make_records({0: 40, 1: 40}))
    reader = SegmentReader(store, footer_cache_bytes=1 << 20, whole_object_bytes_max=0)
    groups = decode_footer(store.get(KEY)[segment.footer_start :], segment).row_groups
    needed = [group for group in groups if group.partition == 1][1:3]
    store.requests.clear()
    first = needed[0].base_offset
    limits = {"bytes_max": 1 << 20, "records_max": sum(group.record_count for group in needed)}
    assert len(reader.read(TOPIC, segment, 1, first, **limits)) == limits["records_max"]
    row_groups = ("get_range", needed[0].start, needed[1].end)
    assert store.requests == [("get_range", segment.footer_start, segment.size_bytes), row_groups]
    reader.read(TOPIC, segment, 1, first, **limits)
    assert store.requests[2:] == [row_groups]


def test_a_small_segment_takes_one_request(store: CountingStore) -> None:
    """One get for all of it when nothing is known, one range when the footer is."""
    segment = put(store, make_records({0: 40, 1: 40}))
    reader = SegmentReader(store)
    assert offsets(reader.read(TOPIC, segment, 1, 1005, bytes_max=100, records_max=10)) == [1005]
    assert store.requests == [("get",)]
    assert offsets(reader.read(TOPIC, segment, 0, 39, bytes_max=100, records_max=10)) == [39]
    assert [request[0] for request in store.requests] == ["get", "get_range"]


def test_little_is_read_for_little(store: CountingStore) -> None:
    """A read of a few records out of many asks for a few row groups, not for the run."""
    segment = put(store, make_records({0: 900}))
    reader = SegmentReader(store, whole_object_bytes_max=0)
    reader.read(TOPIC, segment, 0, 450, bytes_max=2000, records_max=1000)
    bytes_read = sum(end - start for _, start, end in store.requests[1:])
    assert bytes_read < 6000


def test_a_start_inside_a_row_group_costs_no_further_request(store: CountingStore) -> None:
    """What lies before the start is not taken for records that are still to come."""
    segment = put(store, make_records({0: 900}))
    reader = SegmentReader(store, whole_object_bytes_max=0)
    groups = decode_footer(store.get(KEY)[segment.footer_start :], segment).row_groups
    store.requests.clear()
    last = groups[40].end_offset - 1
    assert offsets(reader.read(TOPIC, segment, 0, last, bytes_max=1 << 20, records_max=3)) == [last, last + 1, last + 2]
    assert len(store.requests) == 2


def test_a_long_span_is_read_in_pieces(store: CountingStore) -> None:
    """However much a reader may take, one request is bounded."""
    records = make_records({0: 900})
    segment = put(store, records)
    reader = SegmentReader(store, whole_object_bytes_max=0, span_bytes_max=10_000)
    assert reader.read(TOPIC, segment, 0, 0, **NO_LIMIT).equals(records)
    sizes = [end - start for _, start, end in store.requests[1:]]
    assert len(sizes) > 5
    assert max(sizes) < 12_000


def test_offsets_that_are_not_there(store: CountingStore) -> None:
    """Past the run, or in a gap, there is nothing: an empty table in the right schema, not an error."""
    gapped = make_records({0: 30}).filter(pa.array([not 10 <= index < 20 for index in range(30)]))
    segment = put(store, gapped)
    reader = SegmentReader(store)
    assert offsets(reader.read(TOPIC, segment, 0, 30, **NO_LIMIT)) == []
    assert offsets(reader.read(TOPIC, segment, 0, 12, end_offset=18, **NO_LIMIT)) == []
    assert offsets(reader.read(TOPIC, segment, 0, 12, bytes_max=1, records_max=1)) == [20]
    assert offsets(reader.read(TOPIC, segment, 0, 8, bytes_max=1 << 20, records_max=4)) == [8, 9, 20, 21]


class TestFindTimestamp:
    """The first record, in offset order, whose timestamp is at least T."""

    def test_agrees_with_a_scan(self, store: CountingStore) -> None:
        """Also when timestamps go back and forth, and from any offset."""
        times = [START_MS + (index * 37) % 50 for index in range(60)]
        segment = put(store, make_records({0: 60}, times))
        reader = SegmentReader(store, whole_object_bytes_max=0)
        for timestamp in (0, START_MS, START_MS + 20, START_MS + 48, START_MS + 49, START_MS + 50):
            for start in (0, 1, 15, 40, 59, 60):
                expected = next((index for index in range(start, 60) if times[index] >= timestamp), None)
                assert reader.find_timestamp(TOPIC, segment, 0, start, timestamp) == expected

    def test_reads_only_row_groups_that_are_late_enough(self, store: CountingStore) -> None:
        """Largest timestamps come from the footer: one row group is read, or none."""
        segment = put(store, make_records({0: 60}))
        reader = SegmentReader(store, whole_object_bytes_max=0)
        assert reader.find_timestamp(TOPIC, segment, 0, 0, START_MS + 55) == 55
        assert len(store.requests) == 2
        assert reader.find_timestamp(TOPIC, segment, 0, 0, START_MS + 60) is None
        assert len(store.requests) == 2


class TestDamage:
    """A segment that isn't what the log says stops its readers, which name it, and no others."""

    def read(self, reader: SegmentReader, segment: SegmentRef, partition: int = 0) -> pa.Table:
        return reader.read(TOPIC, segment, partition, 0, **NO_LIMIT)

    def assert_corrupt(self, reader: SegmentReader, segment: SegmentRef) -> None:
        for call in (
            lambda: self.read(reader, segment),
            lambda: reader.find_timestamp(TOPIC, segment, 0, 0, START_MS),
        ):
            with pytest.raises(CorruptData) as caught:
                call()
            assert caught.value.code is ErrorCode.CORRUPT_SEGMENT
            assert caught.value.fields == {"segment": PATH, "topic": TOPIC}
            assert PATH in caught.value.detail

    @pytest.mark.parametrize("whole_object_bytes_max", [0, 1 << 20])
    @pytest.mark.parametrize("warm", [False, True])
    def test_missing(self, store: CountingStore, whole_object_bytes_max: int, warm: bool) -> None:
        """Deleted by hand, also after its footer was read."""
        segment = put(store, make_records({0: 9}))
        reader = SegmentReader(store, whole_object_bytes_max=whole_object_bytes_max)
        if warm:
            self.read(reader, segment)
        store.delete(KEY)
        self.assert_corrupt(reader, segment)

    @pytest.mark.parametrize("whole_object_bytes_max", [0, 1 << 20])
    def test_cut_short_or_changed(self, store: CountingStore, whole_object_bytes_max: int) -> None:
        """Half of it, none of it, a changed byte in a row group or in the footer, other bytes altogether."""
        segment = put(store, make_records({0: 9}))
        whole = store.get(KEY)
        for position in (50, segment.footer_start + 50, len(whole) - 1):
            changed = bytearray(whole)
            changed[position] ^= 1
            store.put(KEY, bytes(changed))
            self.assert_corrupt(SegmentReader(store, whole_object_bytes_max=whole_object_bytes_max), segment)
        for damaged in (b"", whole[: len(whole) // 2], whole[:-1], bytes(len(whole))):
            store.put(KEY, damaged)
            self.assert_corrupt(SegmentReader(store, whole_object_bytes_max=whole_object_bytes_max), segment)

    @pytest.mark.parametrize("damaged", [b"parquet?", b""])
    def test_whole_reads_check_all_of_it(self, store: CountingStore, damaged: bytes) -> None:
        """When the whole object is at hand its first bytes and its length count, too."""
        segment = put(store, make_records({0: 9}))
        whole = store.get(KEY)
        store.put(KEY, damaged[:4] + whole[4:] if damaged else whole + b"\0")
        self.assert_corrupt(SegmentReader(store), segment)

    def test_other_partitions_go_on(self, store: CountingStore) -> None:
        """Damage in one partition's row group does not keep another from being read by ranges."""
        segment = put(store, make_records({0: 9, 1: 9}))
        changed = bytearray(store.get(KEY))
        changed[50] ^= 1
        store.put(KEY, bytes(changed))
        reader = SegmentReader(store, whole_object_bytes_max=0)
        assert self.read(reader, segment, 1).num_rows == 9
        self.assert_corrupt(reader, segment)

    def test_a_partition_that_is_not_inside(self, store: CountingStore) -> None:
        """The log says that the partition is here; an empty answer would make a consumer skip what is lost."""
        segment = put(store, make_records({1: 9}))
        self.assert_corrupt(SegmentReader(store), segment)

    def test_a_store_that_fails_is_no_damage(self, store: CountingStore) -> None:
        """The caller tells a failing store from a damaged segment, and can go on when the store is back."""
        segment = put(store, make_records({0: 9}))
        reader = SegmentReader(store)
        store.down = True
        with pytest.raises(StoreUnavailable):
            self.read(reader, segment)
        store.down = False
        assert self.read(reader, segment).num_rows == 9


class TestFooterCache:
    """Bounded in bytes; the least recently used goes first."""

    def test_the_bound_holds_and_the_oldest_goes(self, store: CountingStore) -> None:
        """Used footers stay, unused ones leave, and what is kept is counted."""
        segment = put(store, make_records({0: 9}))
        footer = decode_footer(store.get(KEY)[segment.footer_start :], segment)
        cache = FooterCache(3 * footer.memory_bytes)
        for name in "abc":
            cache.put(name, footer)
        assert cache.get("a") is footer
        cache.put("d", footer)
        cache.put("d", footer)
        assert [name for name in "abcd" if cache.get(name)] == ["a", "c", "d"]
        assert cache.memory_bytes == 3 * footer.memory_bytes

    def test_a_footer_above_the_bound_is_not_kept(self, store: CountingStore) -> None:
        """One giant must not empty the cache."""
        segment = put(store, make_records({0: 9}))
        footer = decode_footer(store.get(KEY)[segment.footer_start :], segment)
        cache = FooterCache(footer.memory_bytes - 1)
        cache.put("a", footer)
        assert cache.get("a") is None
        assert cache.memory_bytes == 0


def test_many_threads_read_at_once(store: CountingStore) -> None:
    """One reader serves a pool, with a cache too small for what is read."""
    records = make_records({0: 30, 1: 30})
    segments = [put(store, records, path=f"segments/{index}.parquet") for index in range(6)]
    reader = SegmentReader(store, footer_cache_bytes=40_000, whole_object_bytes_max=0)
    wrong: list[object] = []

    def work(seed: int) -> None:
        for step in range(30):
            start = (seed * 7 + step * 3) % 30
            found = reader.read(TOPIC, segments[(seed + step) % 6], 1, 1000 + start, bytes_max=1 << 20, records_max=4)
            if found.column("offset").to_pylist() != [1000 + offset for offset in range(start, min(start + 4, 30))]:
                wrong.append((seed, step))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
