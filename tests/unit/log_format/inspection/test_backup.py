"""A log that was copied to another store goes on there: its topics take transactions, and no two logs are mixed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from log_format import layout
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.errors import RequestRefused, StoreUnavailable
from log_format.inspection.backup import copy_log
from log_format.inspection.verify import verify_topic
from log_format.records.schema import BATCH_SCHEMA
from log_format.scheduled.calendar import Calendar
from log_format.scheduled.delayed_records import DelayedRecords
from log_format.scheduled.due import list_notices
from log_format.scheduled.filing import put_object
from log_format.scheduled.lookup import list_waiting, scheduled_id
from log_format.schemas.changes import Decide, Register, compared
from log_format.schemas.copied import copied_at_ms
from log_format.schemas.decision import Decided
from log_format.schemas.schema import Schema
from log_format.schemas.state import schemas_table
from log_format.store import ObjectInfo, ObjectStore
from log_format.stores import open_store
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Append
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from log_format.topic.producer_id import JOB, issue
from log_format.transactions.job import CommitJob
from log_format.transactions.staged_records import StagedRecords, encode_staged, staged_name, staged_prefix
from log_format.transactions.transaction_finisher import TransactionFinisher
from tests.support.faulty_store import FaultyStore
from tests.support.records import batch_of

CLOCK = SystemClock()
TOPIC = "orders"


def new_id() -> str:
    return uuid.uuid4().hex


def create(store: ObjectStore, topic: str = TOPIC) -> None:
    change = CreateTopic(name=topic, partition_count=1, config=TopicConfig.parse({}), topic_id=f"id-{topic}")
    Committer(TopicLog(store, topic, CLOCK), new_id=new_id).commit(change)


def append(store: ObjectStore, *values: bytes) -> None:
    """A commit for each value."""
    for value in values:
        change = Append([batch_of(f"id-{TOPIC}", [value])], new_id)
        Committer(TopicLog(store, TOPIC, CLOCK), new_id=new_id).commit(change)


def everything(store: ObjectStore) -> list[tuple[str, bytes]]:
    return [(info.key, store.get(info.key)) for info in store.list("")]


def transact(store: ObjectStore, value: bytes, topic: str = TOPIC) -> None:
    """A transaction of one record, from its decision to its end."""
    finishing = TransactionFinisher(
        store, CLOCK, new_id=new_id, log_of=lambda name: TopicLog(store, name, CLOCK), engine="tidelog-test"
    )
    transaction_id, name = issue(JOB, CLOCK.now_ms(), new_id(), b"key"), staged_name(0, topic, None, new_id())
    rows = [{"timestamp": 0, "key": None, "value": value, "headers": None}]
    records = pa.Table.from_pylist(rows, schema=BATCH_SCHEMA)
    staged = StagedRecords(topic=topic, topic_id=f"id-{topic}", records=records, partitions=np.zeros(1, np.int32))
    store.put(f"{staged_prefix(transaction_id)}{name}", encode_staged(staged))
    row = finishing.decide(CommitJob(transaction_id=transaction_id, staged=(name,), new_producer_id="p"))
    assert finishing.finish(row).state == "committed"


def delayed(value: bytes, due_ms: int) -> DelayedRecords:
    table = pa.Table.from_pylist([{"timestamp": 0, "key": None, "value": value, "headers": None}], schema=BATCH_SCHEMA)
    zeros = np.zeros(1, np.int64)
    return DelayedRecords(
        records=table, partitions=zeros.astype(np.int32), deliver_at=np.full(1, due_ms, np.int64), indices=zeros
    )


def end(store: ObjectStore, topic: str = TOPIC) -> int:
    return TopicLog(store, topic, CLOCK).refresh().high_watermark(0)


@pytest.mark.parametrize("topics", [None, [TOPIC]])
def test_a_copy_takes_transactions(topics: list[str] | None) -> None:
    """A topic knows up to which decision all transactions have ended. Those of the copy are decided behind that (G6)."""
    source, target = MemoryStore(), MemoryStore()
    create(source)
    for value in (b"a", b"b", b"c"):
        transact(source, value)
    assert [each.problems for each in copy_log(source, target, CLOCK, topics=topics)] == [()]
    transact(target, b"d")
    assert end(target) == 4
    # Another topic of the same log comes later: its transactions ended behind what the copy has decided.
    create(source, "late")
    for number in range(9):
        transact(source, b"%d" % number, "late")
    if topics is not None:
        assert [each.problems for each in copy_log(source, target, CLOCK, topics=["late"])] == [()]
        transact(target, b"e", "late")
        transact(target, b"f")
        assert [end(target, "late"), end(target)] == [10, 5]


def test_a_copy_gives_no_id_that_its_source_has_given_since() -> None:
    """Schemas are in the copy; what either registers afterwards has ids of its own, also when it is copied again."""
    source, target = MemoryStore(), MemoryStore()
    create(source)

    def registered(store: ObjectStore, text: str) -> int:
        log = TableLog(store, schemas_table(), CLOCK)
        state = log.refresh()
        asked = Register(
            subject="a",
            schema=Schema(text=text),
            compared=compared(state, "a"),
            copied_at_ms=copied_at_ms(store),
        )
        (outcome,) = Committer(log, new_id=new_id).commit(Decide([asked], new_id)).result
        assert isinstance(outcome, Decided)
        return outcome.schema_id

    assert registered(source, "1") == 1
    assert [each.problems for each in copy_log(source, target, CLOCK)] == [()]
    assert registered(target, "1") == 1
    of_source = {registered(source, text) for text in "23"}
    of_target = {registered(target, text) for text in "456"}
    assert len(of_source | of_target) == 5
    assert max(of_target) - min(of_target) == 2, "they are skipped once"


def test_a_copy_into_a_log_that_has_gone_on_is_refused() -> None:
    """Restored, used, and restored again: commits of both would be in one log, and no reader could go on (G3)."""
    source, target = MemoryStore(), MemoryStore()
    create(source)
    source.put(layout.CLUSTER_KEY, b"{}")
    list(copy_log(source, target, CLOCK))
    append(source, b"there", b"there")
    list(copy_log(source, target, CLOCK))  # the same log, further on
    append(target, b"here")
    before = dict(everything(target))
    with pytest.raises(RequestRefused, match=r"topics/orders/ has commits"):
        list(copy_log(source, target, CLOCK))
    append(source, b"there")
    with pytest.raises(RequestRefused, match=r"topics/orders/ has commits"):
        list(copy_log(source, target, CLOCK))
    assert dict(everything(target)) == before
    assert verify_topic(target, TOPIC).ok


def test_a_copy_onto_itself_is_refused(tmp_path: Path) -> None:
    """By another name of the directory, too: it would be taken for a backup, and there would be none."""
    (tmp_path / "log").mkdir()
    (tmp_path / "other-name").symlink_to(tmp_path / "log")
    source, target = (open_store(f"file://{tmp_path}/{name}") for name in ("log", "other-name"))
    create(source)
    before = dict(everything(source))
    for store in (source, target):
        with pytest.raises(RequestRefused, match="the same store as the source"):
            list(copy_log(source, store, CLOCK))
    assert dict(everything(source)) == before


def test_a_copy_that_broke_off_is_not_taken_for_whole() -> None:
    """It may lack whole topics, which no proof of those that are there would tell. Made again it is whole."""
    source, target, restored = MemoryStore(), FaultyStore(), MemoryStore()
    create(source)
    create(source, "second")
    source.put(layout.CLUSTER_KEY, b"{}")

    def breaks_off(operation: str, key: str) -> None:
        if operation == "put_if_absent" and key.startswith("topics/second/"):
            raise StoreUnavailable(key, "the store is down", may_have_happened=False)

    target.before = breaks_off
    with pytest.raises(StoreUnavailable):
        list(copy_log(source, target, CLOCK))
    target.come_back()
    with pytest.raises(RequestRefused, match=layout.COPYING):
        list(copy_log(target, restored, CLOCK))
    assert not everything(restored)
    list(copy_log(source, target, CLOCK))
    assert [each.topic for each in copy_log(target, restored, CLOCK)] == [TOPIC, "second"]
    assert not any(restored.list(layout.COPYING))


def test_a_directory_that_is_no_journal_stops_no_copy() -> None:
    """Something lies below ``system/journals/`` that Tidelog did not put there."""
    source, target = MemoryStore(), MemoryStore()
    create(source)
    source.put(f"{layout.JOURNALS}lost+found/x", b"")
    assert [each.problems for each in copy_log(source, target, CLOCK)] == [()]


def test_what_is_damaged_holds_up_no_other_topic() -> None:
    """A topic and a journal whose logs can't be read: the topic is named, and the others are copied and proved."""
    source, target = MemoryStore(), MemoryStore()
    create(source)
    append(source, b"a")
    for root in (layout.topic_root("broken"), layout.journal_root(0)):
        source.put(layout.table_commit_key(root, 0), b"no commit")
    create(source, "zero")
    found = {each.topic: bool(each.problems) for each in copy_log(source, target, CLOCK)}
    assert found == {"broken": True, TOPIC: False, "zero": False}
    assert not any(target.list(layout.COPYING))


def test_delayed_records_are_in_the_copy() -> None:
    """What waits when the copy begins waits in it, and is found when it is due. What comes later is not in it, nor shown as if it
    waited there; nor is anything where a topic goes back to a version."""
    source, target, earlier = MemoryStore(), MemoryStore(), MemoryStore()
    create(source)
    calendar = Calendar(source, TOPIC, f"id-{TOPIC}", CLOCK, new_id)
    due_ms = CLOCK.now_ms() + 3_600_000
    (filed,) = put_object(calendar, "first", [delayed(b"later", due_ms)], is_repeatable=False, known_version=0)

    class Busy(FaultyStore):
        def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
            if prefix.startswith(layout.topic_root(TOPIC)) and not any(source.list(calendar.object_key("second"))):
                put_object(calendar, "second", [delayed(b"late", due_ms)], is_repeatable=False, known_version=0)
            return super().list(prefix, start_after=start_after)

    assert [each.problems for each in copy_log(Busy(source), target, CLOCK)] == [()]
    copied = Calendar(target, TOPIC, f"id-{TOPIC}", CLOCK, new_id)
    assert [each.ids for each in list_waiting(copied, "", 10)] == [[scheduled_id("first", 0)]]
    assert [due.name for due in list_notices(target, due_ms)] == [filed.name]
    copied.look()
    assert copied.plan(list_notices(target, due_ms), due_ms)
    assert (copied.look().closing_ms, copied.plan(list_notices(target, due_ms), due_ms)) == (due_ms, True)
    assert copied.newest.objects == ["first"]
    list(copy_log(source, earlier, CLOCK, topics=[TOPIC], version=0))
    assert not any(earlier.list(f"{layout.topic_root(TOPIC)}{layout.SCHEDULED_BELOW}"))
