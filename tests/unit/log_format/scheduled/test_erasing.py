"""Delayed records that a request to erase means are neither published nor kept; the others are published as they would be."""

from __future__ import annotations

from itertools import count

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from log_format import limits
from log_format.records.condition import parse_condition
from log_format.records.erasing import Matcher, digest_of, hide_condition
from log_format.records.schema import BATCH_SCHEMA
from log_format.scheduled.calendar import Calendar, Window
from log_format.scheduled.delayed_records import DelayedRecords
from log_format.scheduled.due import list_notices
from log_format.scheduled.erasing import count_meant, erase_delayed
from log_format.scheduled.filing import put_object
from log_format.scheduled.lookup import list_waiting
from log_format.scheduled.publication import PublicationCutter, publication_batch
from log_format.scheduled.scheduled_object import ScheduledObject, open_object
from log_format.stores.memory import MemoryStore
from log_format.topic.erasures import Erasure
from tests.support.clocks import EPOCH_MS, ManualClock

SECRET = b"secret"
HOUR_MS = 3_600_000
DUE_MS = EPOCH_MS + HOUR_MS


@pytest.fixture
def calendar() -> Calendar:
    numbers = count()
    return Calendar(MemoryStore(), "t", "id", ManualClock(), lambda: f"id-{next(numbers)}")


def asked(version: int | None = 1, *, before_ms: int | None = None, requested_ms: int = EPOCH_MS) -> Erasure:
    """A request to erase what ``anna`` has."""
    wanted = (Matcher(digest_of(SECRET, b"anna")),)
    return Erasure(erasure_id="e1", requested_ms=requested_ms, wanted=wanted, before_ms=before_ms, version=version)


def file(
    calendar: Calendar,
    name: str,
    keys: list[bytes],
    *,
    known_version: int = 0,
    due_ms: int = DUE_MS,
    value_bytes: int = 10,
) -> None:
    """One object with a record for each key, all due then, with timestamps 0, 1, …"""
    values = [b"%d-" % number + key * value_bytes for number, key in enumerate(keys)]
    columns = {"timestamp": [1_000 * number for number in range(len(keys))], "key": keys, "value": values}
    table = pa.table({**columns, "headers": [[{"key": "h", "value": key}] for key in keys]}, schema=BATCH_SCHEMA)
    filed = DelayedRecords(
        records=table,
        partitions=np.zeros(len(keys), np.int32),
        deliver_at=np.full(len(keys), due_ms, np.int64),
        indices=np.arange(len(keys), dtype=np.int64),
    )
    put_object(calendar, name, [filed], is_repeatable=False, known_version=known_version)


def opened(calendar: Calendar, name: str) -> ScheduledObject:
    found = open_object(calendar.store, calendar.object_key(name))
    assert found is not None
    return found


def waiting(calendar: Calendar) -> list[tuple[str, bytes]]:
    found = list_waiting(calendar, "", 10_000)
    return [(name, key) for one in found for name, key in zip(one.ids, one.rows["key"].to_pylist(), strict=True)]


def plan(calendar: Calendar, until_ms: int) -> Window:
    """Close a window at a time, and put it."""
    for _ in range(2):
        calendar.look()
        calendar.plan(list(list_notices(calendar.store, until_ms)), until_ms)
    return calendar.newest


def published(calendar: Calendar, window: Window, *erasures: Erasure) -> list[bytes]:
    """Keys of the records of a window, which is one publication."""
    cutter = PublicationCutter(window)
    for name in window.objects:
        assert not list(cutter.add(name, opened(calendar, name)))
    loaded = [(part, part[1].read(calendar.store, part[2])) for part in cutter.finish()]
    made = publication_batch("id", window, loaded, 0, 0, erasures=erasures, secret=SECRET)
    return [] if made is None else made[0].records["key"].to_pylist()


def test_what_waits_is_cancelled_and_emptied(calendar: Calendar) -> None:
    """The others keep their ids and are published; a second round finds nothing; what came later stays."""
    file(calendar, "a", [b"anna", b"bo", b"anna"])
    file(calendar, "b", [b"bo"])
    file(calendar, "later", [b"anna"], known_version=1)
    before = calendar.store.get(calendar.object_key("b"))
    assert erase_delayed(calendar, [asked()], SECRET) == (2, False)
    assert erase_delayed(calendar, [asked()], SECRET) == (0, False)
    left = [("a-0000000001", b"bo"), ("b-0000000000", b"bo"), ("later-0000000000", b"anna")]
    assert waiting(calendar) == left
    (block,) = opened(calendar, "a").index.blocks
    rows = opened(calendar, "a").read(calendar.store, block)
    assert [rows[name].to_pylist()[::2] for name in ("key", "value", "headers")] == [[None, None]] * 3
    assert rows["value"].to_pylist()[1] == b"1-" + b"bo" * 10
    assert calendar.store.get(calendar.object_key("b")) == before
    assert sorted(published(calendar, plan(calendar, DUE_MS))) == [b"anna", b"bo", b"bo"]


def test_the_log_orders_objects_and_requests_not_the_clocks(calendar: Calendar) -> None:
    """A gateway whose clock is an hour ahead, or behind, put the object: what it had looked up counts."""
    file(calendar, "before", [b"anna"], known_version=6)
    file(calendar, "after", [b"anna"], known_version=7)
    for requested_ms in (EPOCH_MS - HOUR_MS, EPOCH_MS + HOUR_MS):
        request = asked(7, requested_ms=requested_ms)
        counts = [
            count_meant(calendar.store, calendar.object_key(name), [request], SECRET) for name in ("before", "after")
        ]
        assert counts == [1, 0]


def test_clocks_order_what_names_no_version(calendar: Calendar) -> None:
    """Objects of earlier releases, and requests that were made again in a restored copy."""
    file(calendar, "a", [b"anna"], known_version=9)
    key = calendar.object_key("a")
    for requested_ms, meant in ((EPOCH_MS - 1, 0), (EPOCH_MS, 1)):
        assert count_meant(calendar.store, key, [asked(None, requested_ms=requested_ms)], SECRET) == meant
    one = opened(calendar, "a")
    index = msgspec.structs.replace(one.index, known_version=None)
    data = calendar.store.get(key)
    text = msgspec.json.encode(index)
    calendar.store.put(key, data[:4] + len(text).to_bytes(4, "little") + text + data[one.blocks_start :])
    for requested_ms, meant in ((EPOCH_MS - 1, 0), (EPOCH_MS, 1)):
        assert count_meant(calendar.store, key, [asked(requested_ms=requested_ms)], SECRET) == meant


def test_only_earlier_timestamps(calendar: Calendar) -> None:
    """As the request says."""
    file(calendar, "a", [b"anna", b"anna", b"anna"])
    assert erase_delayed(calendar, [asked(before_ms=2)], SECRET) == (2, False)
    assert [name for name, _ in waiting(calendar)] == ["a-0000000002"]


def test_what_a_window_has_taken_is_left_out_of_it(calendar: Calendar) -> None:
    """Whoever publishes it knows of the request; its row is emptied when nobody can still need it."""
    file(calendar, "a", [b"anna", b"bo"])
    window = plan(calendar, DUE_MS)
    calendar.clock.sleep_ms(HOUR_MS)
    assert published(calendar, window) == [b"anna", b"bo"]
    assert published(calendar, window, asked()) == [b"bo"]
    assert published(calendar, window, asked(0)) == [b"anna", b"bo"]
    key = calendar.object_key("a")
    assert erase_delayed(calendar, [asked()], SECRET) == (0, True)
    assert count_meant(calendar.store, key, [asked()], SECRET) == 1
    calendar.clock.sleep_ms(limits.WINDOWS_KEPT_MS)
    assert erase_delayed(calendar, [asked()], SECRET) == (1, False)
    assert count_meant(calendar.store, key, [asked()], SECRET) == 0


def test_publications_are_cut_as_before(calendar: Calendar) -> None:
    """Blocks keep their sizes and rows, whatever they have now, so two gateways publish the same parts, each once."""
    file(calendar, "a", [b"anna", b"bo"] * 5_000, value_bytes=40)
    before = opened(calendar, "a").index.blocks
    assert len(before) > 2
    assert erase_delayed(calendar, [asked()], SECRET).record_count == 5_000
    after = opened(calendar, "a")
    assert [one[1:2] + one[3:] for one in map(tuple_of, after.index.blocks)] == [
        one[1:2] + one[3:] for one in map(tuple_of, before)
    ]
    assert len(calendar.store.get(calendar.object_key("a"))) < sum(block.size_bytes for block in before)
    keys = [key for block in after.index.blocks for key in after.read(calendar.store, block)["key"].to_pylist()]
    assert keys == [None, b"bo"] * 5_000


def tuple_of(block: object) -> tuple[int, ...]:
    return tuple(getattr(block, name) for name in block.__struct_fields__)  # type: ignore[attr-defined]


def test_a_condition_on_columns_means_what_waits(calendar: Calendar) -> None:
    """By the columns that the topic's schemas give its documents. An emptied row is meant no more, also where null is."""

    def judge(records: pa.Table, _: object) -> pa.Table:
        names = [None if value is None else value.as_py()[2:4].decode() for value in records.column("value")]
        return records.append_column("data", pa.array([{"who": name} for name in names]))

    file(calendar, "a", [b"anna", b"bo"])
    where = parse_condition("data.who = 'an' or data.who is null")
    erasure = Erasure(erasure_id="e1", requested_ms=EPOCH_MS, wanted=(), where=hide_condition(SECRET, where), version=1)
    assert count_meant(calendar.store, calendar.object_key("a"), [erasure], SECRET, judge) == 1
    assert erase_delayed(calendar, [erasure], SECRET, judge) == (1, False)
    assert waiting(calendar) == [("a-0000000001", b"bo")]
    assert erase_delayed(calendar, [erasure], SECRET, judge) == (0, False)
