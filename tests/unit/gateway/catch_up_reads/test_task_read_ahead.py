"""A reader decodes ahead for a lone client that reads on, and no client gets other records for that."""

from __future__ import annotations

import threading

import msgspec
import pytest

from gateway.catch_up_reads.old_records import FoundRecords, OldRecords
from gateway.catch_up_reads.task import PlannedRun, Task
from gateway.codec.media_type import JSON
from log_format.clock import SystemClock
from log_format.errors import StoreUnavailable
from log_format.segments.reader import SegmentReader
from log_format.segments.segment import encode_segment
from log_format.stores.memory import MemoryStore
from tests.support.segments import make_records
from tests.support.waiting import until

TOPIC = "flights"
RECORDS = 100
"""Of a segment."""
LARGE_BYTES = 41_900
"""Of a value, where two segments are a little more than what is kept."""


class WatchedStore(MemoryStore):
    """It notes which segments are read, fails on some, and while it is not open holds what is read of others."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []
        self.failing: set[int] = set()
        self.held: set[int] = set()
        self.is_open = threading.Event()
        self.is_open.set()

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        number = int(key.rpartition("/")[2])
        self.read.append(number)
        assert number not in self.held or self.is_open.wait(30)
        if number in self.failing:
            raise StoreUnavailable(key, "it is down", may_have_happened=False)
        return super().get(key, bytes_max=bytes_max)


class Log:
    """Segments of one partition with ``RECORDS`` each. No footer is kept, so each piece that is decoded is a get."""

    def __init__(self, count: int, *, value_bytes: int = 10) -> None:
        self.store = WatchedStore()
        self.records = make_records({0: count * RECORDS}, value_bytes=value_bytes)
        self.runs: list[PlannedRun] = []
        for number in range(count):
            start = number * RECORDS
            segment = encode_segment(self.records.slice(start, RECORDS), compression="uncompressed")
            self.store.put(f"topics/{TOPIC}/segments/{number}", segment.data)
            ref = segment.ref(f"segments/{number}")
            self.runs.append(
                PlannedRun(ref.path, ref.size_bytes, ref.footer_start, ref.footer_crc32, start, start + RECORDS)
            )
        reader = SegmentReader(self.store, footer_cache_bytes=0, whole_object_bytes_max=1 << 30)
        self.reader = OldRecords(reader, clock=SystemClock())

    def settle(self) -> None:
        """Return when nothing is decoded ahead."""
        self.reader._reading_on._executor.submit(int).result()

    def read(self, offset: int, records_max: int) -> FoundRecords:
        """By one task, which gets the right records."""
        first, *more = (run for run in self.runs if run.end_offset > offset)
        task = Task(
            topic=TOPIC,
            topic_id="id",
            partition=0,
            runs=(msgspec.structs.replace(first, start_offset=offset), *more),
            records_max=records_max,
            bytes_max=1 << 22,
            kind=JSON,
            encoding=None,
            high_watermark=self.records.num_rows,
            log_start_offset=0,
        )
        found = self.reader.read(task)
        assert found.table.combine_chunks().equals(self.records.slice(offset, found.record_count).combine_chunks())
        assert found.next_offset == offset + found.record_count
        return found


def segments(*numbers: int) -> int:
    """The offset at which so many segments end."""
    return sum(numbers) * RECORDS


def test_what_a_client_that_reads_on_asks_for_next_is_decoded_before() -> None:
    """From its second request on, as much as its last answer had; each segment is read once."""
    log = Log(10)
    assert log.read(segments(1), segments(2)).record_count == segments(2)
    assert log.store.read == [1, 2]
    log.read(segments(3), segments(2))
    until(lambda: log.store.read == [1, 2, 3, 4, 5, 6])
    log.read(segments(5), segments(2))
    until(lambda: log.store.read == [*range(1, 9)])


def test_a_client_that_begins_at_the_logs_start_reads_on() -> None:
    """Most likely: its second request finds its records decoded."""
    log = Log(4)
    log.read(0, segments(2))
    until(lambda: log.store.read == [0, 1, 2, 3])


@pytest.mark.parametrize("count", [7, 99, 100, 101, 250, 3_000])
def test_every_record_once_whatever_is_asked_for(count: int) -> None:
    """In order from the first to the last, with answers that end in the middle of pieces. No segment is read twice."""
    log = Log(20)
    offset = 0
    while offset < log.records.num_rows:
        offset = log.read(offset, count).next_offset
    assert log.store.read == [*range(20)]


def test_among_several_clients_none_is_read_ahead_for() -> None:
    """Their tasks keep the reader busy without that."""
    log = Log(13)
    for turn in range(3):
        for first in (1, 7):
            log.read(segments(first, 2 * turn), segments(2))
    assert log.store.read == [1, 2, 7, 8, 3, 4, 9, 10, 5, 6, 11, 12]


def test_a_piece_that_is_decoded_just_then_is_waited_for() -> None:
    """The next task does not decode it again."""
    log = Log(4)
    log.store.is_open.clear()
    log.store.held.add(2)
    log.read(0, segments(2))
    until(lambda: log.store.read == [0, 1, 2])
    task = threading.Thread(target=log.read, args=(segments(2), segments(1)))
    task.start()
    log.store.is_open.set()
    task.join(30)
    until(lambda: log.store.read == [0, 1, 2, 3])


def test_a_task_ends_what_is_decoded_for_the_one_before() -> None:
    """Behind the piece under way, which is kept."""
    log = Log(12)
    log.store.is_open.clear()
    log.store.held.add(3)
    log.read(0, segments(3))
    until(lambda: log.store.read == [0, 1, 2, 3])
    log.read(segments(10), segments(1))
    log.store.is_open.set()
    log.read(segments(3), segments(1))
    assert log.store.read == [0, 1, 2, 3, 10]


def test_what_cannot_be_read_ahead_is_read_when_it_is_asked_for() -> None:
    """And fails only then, where it still does."""
    log = Log(4)
    log.store.failing.add(2)
    log.read(0, segments(2))
    until(lambda: log.store.read == [0, 1, 2])
    with pytest.raises(StoreUnavailable):
        log.read(segments(2), segments(1))
    log.store.failing.clear()
    log.read(segments(2), segments(1))


def test_small_pieces_are_decoded_ahead_only_as_far_as_they_are_kept() -> None:
    """A partition has room for eight of them. None is decoded twice."""
    log = Log(30)
    for start in range(0, 30, 10):
        log.read(segments(start), segments(10))
        log.settle()
    assert log.store.read == [*range(30)]


def test_what_is_kept_makes_no_way_for_what_nobody_asked_for() -> None:
    """Two of the largest pieces have no room: the next is decoded once the one before is used up."""
    log = Log(3, value_bytes=LARGE_BYTES)
    log.read(0, 60)
    log.settle()
    assert log.store.read == [0]
    log.read(60, 40)
    log.settle()
    assert log.store.read == [0, 1]


def test_records_of_a_segment_that_was_replaced_are_not_used() -> None:
    """Key compaction may have removed some of them: what the task names is read."""
    log = Log(2)
    log.read(0, RECORDS // 2)
    log.settle()
    segment = encode_segment(log.records.slice(0, RECORDS), compression="uncompressed")
    log.store.put(f"topics/{TOPIC}/segments/7", segment.data)
    log.runs[0] = msgspec.structs.replace(log.runs[0], path="segments/7")
    log.read(RECORDS // 2, RECORDS // 2)
    assert log.store.read[:2] == [0, 7]
