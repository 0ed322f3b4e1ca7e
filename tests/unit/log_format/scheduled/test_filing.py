"""Filing and cancelling delayed records: each request is told of its own put, whatever the network does to it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np
import pyarrow as pa
import pytest

from log_format.errors import BackOff, ObjectExists, StoreUnavailable
from log_format.records.schema import BATCH_SCHEMA
from log_format.scheduled.calendar import Calendar
from log_format.scheduled.delayed_records import DelayedRecords
from log_format.scheduled.filing import find_earlier_try, put_object
from log_format.scheduled.lookup import UnknownScheduled, cancel, list_waiting, scheduled_id
from log_format.stores.memory import MemoryStore
from tests.support.clocks import EPOCH_MS, ManualClock
from tests.support.faulty_store import FaultyStore


class SentTwice(MemoryStore):
    """Each put-if-absent arrives twice, and the second one's answer is told."""

    def put_if_absent(self, key: str, data: bytes) -> None:
        super().put_if_absent(key, data)
        raise ObjectExists(key)


def request(values: list[bytes], due_ms: int) -> DelayedRecords:
    columns = {"timestamp": [0] * len(values), "key": [None] * len(values), "value": values}
    table = pa.table({**columns, "headers": [None] * len(values)}, schema=BATCH_SCHEMA)
    return DelayedRecords(
        records=table,
        partitions=np.zeros(len(values), np.int32),
        deliver_at=np.full(len(values), due_ms, np.int64),
        indices=np.arange(len(values), dtype=np.int64),
    )


def test_an_object_that_was_sent_twice_is_its_requests_own() -> None:
    """Requests that share an object are told of their own records, not of each other's."""
    numbers = count()
    calendar = Calendar(SentTwice(), "t", "id", ManualClock(), lambda: f"id-{next(numbers)}")
    requests = [request([b"a", b"b"], 9_000_000_000_000), request([b"c"], 8_000_000_000_000)]
    for store in (SentTwice(), MemoryStore()):
        calendar.store = store
        filed = put_object(calendar, "name", requests, is_repeatable=False, known_version=0)
        assert [one.records.records.column("value").to_pylist() for one in filed] == [[b"a", b"b"], [b"c"]]
        assert sorted(row for one in filed for row in one.rows.tolist()) == [0, 1, 2]
        assert [info.key for info in store.list("system/scheduled/")] != []


def test_a_cancellation_that_was_sent_twice_is_the_callers_own() -> None:
    """The caller is told that the record is cancelled, and the next one that there is none."""
    numbers = count()
    calendar = Calendar(SentTwice(), "t", "id", ManualClock(), lambda: f"id-{next(numbers)}")
    put_object(calendar, "name", [request([b"a"], 9_000_000_000_000)], is_repeatable=False, known_version=0)
    wanted = scheduled_id("name", 0)
    cancel(calendar, wanted)
    with pytest.raises(UnknownScheduled):
        cancel(calendar, wanted)


def test_a_repeat_names_no_ids_while_the_windows_can_not_be_read() -> None:
    """Records that came too late for their windows were appended: the answer to a repeat must not call them scheduled."""
    store, clock = FaultyStore(), ManualClock()
    calendar = Calendar(store, "t", "id", clock, lambda: "id")
    put_object(calendar, "name", [request([b"a"], EPOCH_MS + 10)], is_repeatable=True, known_version=0)
    store.script["get"] = [StoreUnavailable("windows", "cut", may_have_happened=False)]
    with pytest.raises(BackOff):
        find_earlier_try(calendar, "name")
    found = find_earlier_try(calendar, "name")
    assert found is not None
    assert found.missed.tolist() == [False]


@pytest.mark.parametrize("lost", ["put_if_absent", "put"])
def test_nothing_is_left_of_a_refused_request(lost: str) -> None:
    """Its object would be listed as waiting, and no notice would ever find it (G8). That of a request that may be repeated stays:
    its repeat may have answered for it."""
    store = FaultyStore()

    def breaks(real: Callable[[str, bytes], None], key: str, data: bytes) -> None:
        if lost == "put_if_absent":
            real(key, data)
        raise StoreUnavailable(key, "cut", may_have_happened=lost == "put_if_absent")

    for is_repeatable in (False, True):
        calendar = Calendar(store, "t", "id", ManualClock(), lambda: "id")
        store.script[lost] = [breaks]
        with pytest.raises(BackOff):
            put_object(
                calendar, "name", [request([b"a"], 9_000_000_000_000)], is_repeatable=is_repeatable, known_version=0
            )
        assert len(list(list_waiting(calendar, "", 10))) == is_repeatable
