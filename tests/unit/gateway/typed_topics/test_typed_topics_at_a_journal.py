"""Typed topics at a journal: the door judges, and the drain writes the columns by the same schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from compaction.journals import JournalUpkeep
from compaction.report import LogReporter, Totals
from gateway.engine.open_topic import OpenTopic
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.errors import BackOff, StoreUnavailable, TopicReplaced
from log_format.ids import random_id
from log_format.journal.drain import REGISTRY_WAIT_MS_MAX, Drain, plan_drain
from log_format.journal.view import journal_topic
from log_format.records.typed_columns import NOT_JUDGED
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Batch
from log_format.topic.applied_transactions import TransactionStamp
from log_format.topic.config import Subjects
from tests.support import records
from tests.support.clocks import LaterClock
from tests.support.engine import Gateway, batch_of, make_gateway, values_of
from tests.support.faulty_store import FaultyStore
from tests.support.journal_wires import wired_gateways
from tests.support.registry import record
from tests.support.typed_topic import delete_in, register_in, stored_columns

SUBJECT = "t-value"
ORDER = record("Order", id="long")
LATER = record("Order", id="long", note=("string", "none"))
OTHER = record("Other", id="long", size=(["null", "long"], None))
SHARED: dict[str, Any] = {"commit_mode": "shared", "flush_ms": 5, "drain_ms": 600_000}


async def typed_topic(gateway: Gateway, **config: Any) -> OpenTopic:
    """Topic ``t`` at a journal, whose values have a schema."""
    register_in(gateway.store, SUBJECT, ORDER)
    return await gateway.topic("t", 2, **{**SHARED, "value_schema": SUBJECT, **config})


def judged(gateway: Gateway, topic: OpenTopic, *documents: Any, partition: int = 0) -> Batch:
    """A request's records as the door passes them on, judged by what the registry has now."""
    batch = batch_of(topic, [json.dumps(one).encode() for one in documents], partition)
    subjects = topic.state.config.subjects
    if not subjects.are_set:
        return batch
    readers = StoredReaders(gateway.store, SystemClock()).newest(subjects)
    return batch.with_typed(readers.typed(batch.records)[0], subjects)


async def send(gateway: Gateway, topic: OpenTopic, *documents: Any) -> None:
    """Produce the documents, each acknowledged."""
    await topic.appending.await_acknowledgement(topic.submit(judged(gateway, topic, *documents), None))


async def alter(gateway: Gateway, **config: str | None) -> None:
    """Change settings of topic ``t``."""
    await gateway.engine.administration.alter(
        "t", None, {key.replace("_", "."): value for key, value in config.items()}
    )


def fail_registry(store: FaultyStore) -> None:
    """No request for the registry is answered from now on."""

    def fail(_operation: str, key: str) -> None:
        if key.startswith("system/schemas/"):
            raise StoreUnavailable(key, "it is slow", may_have_happened=False)

    store.before = fail


def unreadable(_subjects: Subjects, _records: Any) -> Any:
    """As a program judges that can't read the registry."""
    raise BackOff("The schemas of the topic can't be read.")


@pytest.mark.parametrize("is_in_memory", [True, False])
async def test_the_drain_writes_the_columns(*, is_in_memory: bool) -> None:
    """One commit has the wider table, the segment and its statistics; the topic stays at its journal, and records are as sent."""
    gateway = make_gateway()
    topic = await typed_topic(gateway)
    register_in(gateway.store, SUBJECT, LATER)
    await send(gateway, topic, {"id": 1, "note": "a"}, {"id": 2})
    assert stored_columns(gateway.store, "t") == []
    if not is_in_memory:
        gateway.forget_tail()
    before = topic.log.state
    await topic.moving.drain_all()
    assert stored_columns(gateway.store, "t") == [({"id": 1, "note": "a"}, None), ({"id": 2, "note": "none"}, None)]
    state = TopicLog(gateway.store, "t", SystemClock()).refresh()
    assert (state.version, state.attachment) == (before.version + 1, before.attachment)
    commit = gateway.store.get(f"topics/t/_delta_log/{state.version:020}.json").splitlines()
    (stats,) = [json.loads(action["add"]["stats"]) for action in map(json.loads, commit) if "add" in action]
    assert stats["maxValues"]["data"] == {"id": 2, "note": "none"}
    await send(gateway, topic, {"id": 3, "note": "c"})
    assert values_of(await gateway.fetch())[-1] == b'{"id": 3, "note": "c"}'


@pytest.mark.parametrize("is_in_memory", [True, False])
async def test_a_document_is_judged_by_the_version_of_the_door(*, is_in_memory: bool) -> None:
    """The newest version has moved on when the drain comes: what was acknowledged before keeps what it was judged to be."""
    gateway = make_gateway()
    topic = await typed_topic(gateway)
    await send(gateway, topic, {"id": 1})
    register_in(gateway.store, SUBJECT, LATER)
    await send(gateway, topic, {"id": 2})
    if not is_in_memory:
        gateway.forget_tail()
    await topic.moving.drain_all()
    assert stored_columns(gateway.store, "t") == [({"id": 1, "note": None}, None), ({"id": 2, "note": "none"}, None)]


async def test_records_of_two_versions_share_an_object() -> None:
    """Each keeps its own, whatever the order in which partitions lie in the object; an untyped topic beside them has none."""
    gateway = make_gateway()
    topic = await typed_topic(gateway, flush_ms=200)
    plain = await gateway.topic("plain", 1, **SHARED)
    pending = [topic.submit(judged(gateway, topic, {"id": 1}, partition=1), None)]
    pending.append(plain.submit(judged(gateway, plain, {}), None))
    register_in(gateway.store, SUBJECT, LATER)
    pending.append(topic.submit(judged(gateway, topic, {"id": 2}, {"id": 3}), None))
    for one in pending:
        await topic.appending.await_acknowledgement(one)
    assert sum(info.key.endswith(".parquet") for info in gateway.store.list("system/journals/0/")) == 1
    gateway.forget_tail()
    await topic.moving.drain_all()
    await plain.moving.drain_all()
    assert [data["note"] for data, _ in stored_columns(gateway.store, "t")] == ["none", "none", None]
    assert stored_columns(gateway.store, "plain") == [(None, None)]


async def test_a_marked_record_is_marked_by_the_drain() -> None:
    """With ``data.on.error`` ``mark`` the door lets it in."""
    gateway = make_gateway()
    topic = await typed_topic(gateway, data_on_error="mark")
    await send(gateway, topic, {"id": "one"}, {"id": 2})
    await topic.moving.drain_all()
    assert stored_columns(gateway.store, "t") == [
        (None, "value.id: it must be an integer without fraction and exponent, not a string"),
        ({"id": 2}, None),
    ]


async def test_a_drain_waits_for_a_registry_that_can_not_be_read() -> None:
    """A gateway that has never read it drains nothing meanwhile, and says so; then everything."""
    gateway = make_gateway()
    await send(gateway, await typed_topic(gateway, drain_ms=1_000), {"id": 1})
    other = make_gateway(objects=gateway.store.objects)
    topic = await other.engine.open_topic("t")
    await topic.fresh()
    fail_registry(other.store)
    with pytest.raises(BackOff, match="schemas of the topic can't be read"):
        await topic.moving.drain()
    assert stored_columns(gateway.store, "t") == []
    other.store.come_back()
    await topic.moving.drain_all()
    assert stored_columns(gateway.store, "t") == [({"id": 1}, None)]


async def test_records_that_no_door_judged_are_judged_by_the_newest_version() -> None:
    """Those of transactions and delayed ones come to a journal so; the gateway that drains them has not heard of the version."""
    gateway = make_gateway()
    topic = await typed_topic(gateway)
    register_in(gateway.store, SUBJECT, LATER)
    stamp = TransactionStamp("t-1", 1, 0)
    assert topic.state.topic_id is not None
    batch = records.batch_of(topic.state.topic_id, [b'{"id":1}', b"{}"], transaction=stamp)
    await topic.appending.await_acknowledgement(topic.submit(batch, None))
    await topic.moving.drain_all()
    assert stored_columns(gateway.store, "t") == [
        ({"id": 1, "note": "none"}, None),
        (None, "value.id: it is missing"),
    ]


async def test_what_the_door_judged_keeps_its_columns_when_the_subject_is_deleted() -> None:
    """Its versions can still be read; a promised document, which names none, is marked as not judged."""
    gateway = make_gateway()
    topic = await typed_topic(gateway)
    await send(gateway, topic, {"id": 1})
    batch = records.batch_of(
        topic.state.existing_id, [b'{"id":2}', b"\0\0\0\0\1\6"], transaction=TransactionStamp("t-1", 1, 0)
    )
    await topic.appending.await_acknowledgement(topic.submit(batch, None))
    delete_in(gateway.store, SUBJECT)
    await topic.moving.drain_all()
    assert stored_columns(gateway.store, "t") == [({"id": 1}, None), (None, NOT_JUDGED), ({"id": 3}, None)]


async def test_the_wait_has_a_bound_from_the_first_failed_read() -> None:
    """However old the record was by then. Past it the record is stored with the reason: a journal that isn't drained would refuse
    all of its topics' records."""
    gateway = make_gateway()
    topic = await typed_topic(gateway)
    await send(gateway, topic, {"id": 1})
    own, journal = topic.log.state, gateway.engine.journals.get(0)
    known = journal_topic(own, journal.state)
    assert known is not None
    assert known.undrained_since_ms is not None
    ends, parts = plan_drain(known, journal.state.runs.of(known.topic_id), own.next_offsets)
    (_, (run,)) = parts[0]
    found = topic.moving._in_memory(known.topic_id, run, is_typed=True)
    assert found is not None
    first_ms = known.undrained_since_ms + 2 * REGISTRY_WAIT_MS_MAX
    since_ms: int | None = None
    for now_ms in (first_ms, first_ms + REGISTRY_WAIT_MS_MAX):
        drain = Drain(known, found, ends, random_id, unreadable, unread_since_ms=since_ms)
        with pytest.raises(BackOff):
            drain.propose(own, now_ms)
        since_ms = drain.unread_since_ms
    assert since_ms == first_ms
    later = replace(known, undrained_since_ms=first_ms + 1)
    with pytest.raises(BackOff):  # others have drained what waited
        Drain(later, found, ends, random_id, unreadable, unread_since_ms=since_ms).propose(own, first_ms + 2**30)
    drain = Drain(known, found, ends, random_id, unreadable, unread_since_ms=since_ms)
    proposal = drain.propose(own, first_ms + REGISTRY_WAIT_MS_MAX + 1)
    assert proposal.result
    assert proposal.segment is not None


async def test_a_gateway_that_starts_late_waits_for_the_registry() -> None:
    """A record that was at the journal for an hour has its columns, if the registry can be read a moment after the first drain; a
    read in between begins the wait anew."""
    clock = LaterClock()
    gateway = make_gateway(clock=clock)
    topic = await typed_topic(gateway)
    for number in range(2):
        register_in(gateway.store, SUBJECT, record("Order", id="long", **{f"n{number}": ("int", 0)}))
        await send(gateway, topic, {"id": number})
        clock.ahead_ms += 4 * REGISTRY_WAIT_MS_MAX
        fail_registry(gateway.store)
        with pytest.raises(BackOff):
            await topic.moving.drain_all()
        gateway.store.come_back()
        await topic.moving.drain_all()
    assert [error for _, error in stored_columns(gateway.store, "t")] == [None, None]


async def test_records_of_before_the_schema_have_no_columns() -> None:
    """They are drained before the topic gets its schema, so nothing judges them by it."""
    gateway = make_gateway()
    topic = await gateway.topic("t", **SHARED)
    await send(gateway, topic, "text")
    register_in(gateway.store, SUBJECT, ORDER)
    await alter(gateway, value_schema=SUBJECT)
    assert topic.log.state.attachment is not None
    await send(gateway, topic, {"id": 2})
    await topic.moving.drain_all()
    assert stored_columns(gateway.store, "t") == [(None, None), ({"id": 2}, None)]


async def test_records_of_another_schema_keep_its_columns() -> None:
    """A change of the subject waits for the drain; one that was judged before is sent back to be judged anew."""
    gateway = make_gateway()
    topic = await typed_topic(gateway)
    register_in(gateway.store, "other", OTHER)
    await send(gateway, topic, {"id": 1})
    late = judged(gateway, topic, {"id": 2})
    await alter(gateway, value_schema="other")
    with pytest.raises(TopicReplaced):
        await topic.appending.await_acknowledgement(topic.submit(late, None))
    await send(gateway, topic, {"id": 3, "size": 4})
    await topic.moving.drain_all()
    assert stored_columns(gateway.store, "t") == [({"id": 1}, None), ({"id": 3, "size": 4}, None)]


async def test_records_keep_their_columns_when_the_topic_loses_its_schema() -> None:
    """Those that come later have none."""
    gateway = make_gateway()
    topic = await typed_topic(gateway)
    await send(gateway, topic, {"id": 1})
    await alter(gateway, value_schema=None)
    await send(gateway, topic, "text")
    await topic.moving.drain_all()
    assert stored_columns(gateway.store, "t") == [({"id": 1}, None), (None, None)]


async def test_a_typed_topic_moves_in_both_directions() -> None:
    """Each record has its columns, wherever it was acknowledged."""
    gateway = make_gateway()
    topic = await typed_topic(gateway)
    for number, mode in enumerate(("own", "shared", "own", "shared")):
        await send(gateway, topic, {"id": number})
        await alter(gateway, commit_mode=mode)
        assert (topic.log.state.attachment is None) == (mode == "own")
    await send(gateway, topic, {"id": 4})
    await topic.moving.drain_all()
    assert stored_columns(gateway.store, "t") == [({"id": number}, None) for number in range(5)]


async def test_a_drain_that_the_journal_never_heard_of_is_done_once() -> None:
    """The gateway dies after the commit to the table: another one drains the rest, with columns."""
    gateway = make_gateway()
    topic = await typed_topic(gateway)
    register_in(gateway.store, SUBJECT, LATER)
    await send(gateway, topic, {"id": 1})
    await topic.moving.drain_all()
    gateway.engine.journals.get(0).writer.take_notes()
    await send(gateway, topic, {"id": 2})
    other = make_gateway(objects=gateway.store.objects)
    found = await other.engine.open_topic("t")
    await found.fresh()
    await found.moving.drain_all()
    assert [data["id"] for data, _ in stored_columns(gateway.store, "t")] == [1, 2]


async def test_another_gateway_commits_the_object() -> None:
    """The schemas are in the object, so the preferred gateway needs to know nothing of them."""
    gateways, _ = wired_gateways(MemoryStore(), 2)
    topic = await typed_topic(gateways[1])
    await send(gateways[1], topic, {"id": 1})
    register_in(gateways[1].store, SUBJECT, LATER)
    await send(gateways[1], topic, {"id": 2})
    found = await gateways[0].engine.open_topic("t")
    await found.fresh()
    await found.moving.drain_all()
    assert [data["note"] for data, _ in stored_columns(gateways[0].store, "t")] == [None, "none"]


async def test_maintenance_drains_with_columns() -> None:
    """No gateway runs any more; what it can't judge it leaves at the journal, for as long as it takes."""
    gateway = make_gateway()
    topic = await typed_topic(gateway, drain_ms=1_000)
    await send(gateway, topic, {"id": 1})
    register_in(gateway.store, SUBJECT, LATER)
    await send(gateway, topic, {"id": 2})
    late = LaterClock()
    late.ahead_ms = 2 * REGISTRY_WAIT_MS_MAX
    upkeep = JournalUpkeep(gateway.store, 0, clock=late, new_id=random_id, report=LogReporter())
    fail_registry(gateway.store)
    upkeep.run(failed := Totals(), collect=False)
    assert failed.failed_drains == 1
    assert stored_columns(gateway.store, "t") == []
    gateway.store.come_back()
    upkeep.run(Totals(), collect=False)
    assert [data["note"] for data, _ in stored_columns(gateway.store, "t")] == [None, "none"]
