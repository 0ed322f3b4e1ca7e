"""Objects of delayed records: read by blocks, damage is found, publications are cut alike by every process."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from log_format import limits
from log_format.errors import CorruptData
from log_format.records.schema import BATCH_SCHEMA
from log_format.scheduled.calendar import Window
from log_format.scheduled.delayed_records import DelayedRecords, with_scheduled_header
from log_format.scheduled.publication import PublicationCutter
from log_format.scheduled.record_outcome import RecordOutcome, record_outcomes
from log_format.scheduled.scheduled_object import encode_object, open_object
from log_format.stores.memory import MemoryStore


def delayed(times: list[int], value_bytes: int = 4) -> DelayedRecords:
    """Records that are due then, each with its number and a header."""
    rows = [
        {
            "timestamp": time * 1000,
            "key": None,
            "value": b"%d" % number + b"x" * value_bytes,
            "headers": [{"key": "a", "value": b"b"}] if number % 2 else None,
        }
        for number, time in enumerate(times)
    ]
    return DelayedRecords(
        records=pa.Table.from_pylist(rows, schema=BATCH_SCHEMA),
        partitions=np.zeros(len(times), np.int32),
        deliver_at=np.array(times, np.int64),
        indices=np.arange(len(times), dtype=np.int64),
    )


def test_rows_are_in_order_of_time_and_each_request_knows_its_rows() -> None:
    """An id says where a record lies: the row that the answer names is the record's."""
    requests = [delayed([30, 10]), delayed([20])]
    encoded = encode_object(requests, made_ms=5)
    store = MemoryStore("test")
    store.put("o", encoded.data)
    found = open_object(store, "o")
    assert found is not None
    assert (found.index.first_due, found.index.last_due) == (10, 30)
    for request, rows in zip(requests, encoded.rows, strict=True):
        for number, row in enumerate(rows.tolist()):
            record = found.row(store, row)
            assert record is not None
            assert record.column("deliver_at").to_pylist() == [int(request.deliver_at[number])]
            assert record.column("value")[0] == request.records.column("value")[number]
    assert found.row(store, 3) is None


def test_large_objects_are_read_by_blocks_and_damage_is_found() -> None:
    """No block is much larger than the bound, none is taken for another, and a flipped bit is corrupt."""
    encoded = encode_object([delayed(list(range(5_000)), value_bytes=400)], made_ms=0)
    store = MemoryStore("test")
    store.put("o", encoded.data)
    found = open_object(store, "o")
    assert found is not None
    assert len(found.index.blocks) > 5
    read = [found.read(store, block) for block in found.index.blocks]
    assert [time for rows in read for time in rows.column("deliver_at").to_pylist()] == list(range(5_000))
    assert max(rows.nbytes for rows in read) < 2 * limits.SCHEDULED_BLOCK_BYTES
    store.put("o", encoded.data[:-1] + bytes([encoded.data[-1] ^ 1]))
    with pytest.raises(CorruptData):
        found.read(store, found.index.blocks[-1])
    store.put("o", b"no such object")
    with pytest.raises(CorruptData):
        open_object(store, "o")


def test_an_object_without_records_is_one() -> None:
    """It says that no try of its request delays any."""
    store = MemoryStore("test")
    store.put("o", encode_object([delayed([])], made_ms=7, kept_ms=10).data)
    found = open_object(store, "o")
    assert found is not None
    assert (found.index.blocks, found.index.first_due) == ((), 17)
    assert open_object(store, "none") is None


def test_a_published_record_has_one_header_more() -> None:
    """Behind its own: the time at which it was due."""
    records = delayed([5, 6])
    headers = with_scheduled_header(records.records, records.deliver_at).column("headers").to_pylist()
    due = [{"key": "tidelog-scheduled-for", "value": b"%d" % time} for time in (5, 6)]
    assert headers == [[due[0]], [{"key": "a", "value": b"b"}, due[1]]]


def test_windows_say_what_became_of_rows() -> None:
    """Waiting, taken, skipped, missed: by interval, object and row."""
    windows = [
        Window(after_ms=-1, until_ms=10, closing_ms=20, by="1", objects=["o"], skipped={"o": [1]}),
        Window(after_ms=10, until_ms=20, closing_ms=30, by="2"),
    ]
    found = record_outcomes(windows, "o", np.array([5, 6, 15, 25]), np.array([0, 1, 2, 3]))
    assert found.tolist() == [RecordOutcome.TAKEN, RecordOutcome.SKIPPED, RecordOutcome.MISSED, RecordOutcome.WAITING]


def test_publications_are_cut_by_blocks() -> None:
    """Only blocks that overlap the window, so many at a time, whatever else an object has."""
    store = MemoryStore("test")
    store.put("o", encode_object([delayed(list(range(100)))], made_ms=0).data)
    one = open_object(store, "o")
    assert one is not None
    cutter = PublicationCutter(Window(after_ms=10, until_ms=20, closing_ms=30, by=""))
    complete = [parts for number in range(limits.PUBLICATION_BLOCKS + 1) for parts in cutter.add(f"o{number}", one)]
    assert [len(parts) for parts in complete] == [limits.PUBLICATION_BLOCKS]
    assert len(cutter.finish()) == 1
    outside = PublicationCutter(Window(after_ms=99, until_ms=200, closing_ms=300, by=""))
    assert not list(outside.add("o", one))
    assert not outside.finish()
