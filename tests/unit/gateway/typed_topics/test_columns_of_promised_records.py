"""Columns of records that nobody can refuse any more: of jobs' and large transactions, whoever finishes them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from compaction.abandoned_transactions import finish_abandoned
from compaction.report import LogReporter
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.errors import BackOff, StoreUnavailable
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.topic.producer_id import JOB, issue
from log_format.transactions.job import CommitJob
from log_format.transactions.row import TransactionRow
from log_format.transactions.staged_records import StagedRecords, encode_staged, staged_name, staged_prefix
from log_format.transactions.transaction_finisher import TransactionFinisher
from tests.support.all_allowed import all_allowed
from tests.support.clocks import ManualClock
from tests.support.engine import Gateway, make_gateway
from tests.support.kafka_transactions import begun, stage
from tests.support.records import batch_of
from tests.support.registry import record
from tests.support.typed_topic import register_in, stored_columns

ORDER = record("Order", id="long")
LATER = record("Order", id="long", note=("string", "none"))
MISFIT = "value.id: it is missing"


def fail_registry(_operation: str, key: str) -> None:
    """No request for the registry is answered."""
    if key.startswith("system/schemas/"):
        raise StoreUnavailable(key, "it is slow", may_have_happened=False)


def new_id() -> str:
    return uuid.uuid4().hex


async def typed_gateway(**bounds: Any) -> Gateway:
    """A gateway with topic ``t``, whose values have a schema."""
    gateway = make_gateway(**bounds)
    register_in(gateway.store, "t-value", ORDER)
    await gateway.topic("t", 2, flush_ms=0, value_schema="t-value")
    return gateway


def finisher(gateway: Gateway) -> TransactionFinisher:
    """A program without a gateway, such as a job or maintenance."""
    clock = ManualClock()
    return TransactionFinisher(
        gateway.store,
        clock,
        new_id=new_id,
        log_of=lambda topic: TopicLog(gateway.store, topic, clock),
        engine="tidelog-test",
        type_records=StoredReaders(gateway.store, clock).type_records,
    )


async def decided(gateway: Gateway, finishing: TransactionFinisher, values: list[bytes]) -> TransactionRow:
    """A job's decided transaction, with these values for topic ``t``."""
    transaction_id = issue(JOB, SystemClock().now_ms(), new_id(), b"key")
    batch = batch_of((await gateway.engine.open_topic("t")).state.topic_id, values)
    records = StagedRecords(topic="t", topic_id=batch.topic_id, records=batch.records, partitions=batch.partitions)
    name = staged_name(0, "t", None, new_id())
    gateway.store.put(f"{staged_prefix(transaction_id)}{name}", encode_staged(records))
    return finishing.decide(CommitJob(transaction_id=transaction_id, staged=(name,), new_producer_id="p"))


async def test_a_program_without_a_gateway_writes_the_columns() -> None:
    """By the schemas as they are then; a version that nobody has used yet widens the table, and what does not fit is marked."""
    gateway = await typed_gateway()
    finishing = finisher(gateway)
    register_in(gateway.store, "t-value", LATER)
    row = await decided(gateway, finishing, [b'{"id":1,"note":"n"}', b"{}"])
    assert finishing.finish(row).state == "committed"
    assert stored_columns(gateway.store, "t") == [({"id": 1, "note": "n"}, None), (None, MISFIT)]
    state = TopicLog(gateway.store, "t", SystemClock()).refresh()
    assert state.columns.data is not None
    assert state.columns.data.get_field_index("note") == 1


async def test_maintenance_writes_the_columns() -> None:
    """It finishes what is left alone."""
    gateway = await typed_gateway()
    await decided(gateway, finisher(gateway), [b'{"id":1}', b"{}"])
    finish_abandoned(gateway.store, SystemClock(), new_id, LogReporter(), is_dry_run=False, left_alone_ms=-1)
    assert stored_columns(gateway.store, "t") == [({"id": 1}, None), (None, MISFIT)]


async def test_a_gateway_that_has_not_read_the_registry_writes_the_columns() -> None:
    """It looks at the registry itself."""
    gateway = await typed_gateway()
    row = await decided(gateway, finisher(gateway), [b'{"id":1}'])
    other = make_gateway(objects=gateway.store.objects, left_alone_ms=-1)
    await other.engine.sweeping.sweep_once(left_alone_ms=-1)
    assert finisher(gateway).finish(row).state == "committed"
    assert stored_columns(gateway.store, "t") == [({"id": 1}, None)]


async def test_records_wait_while_the_registry_can_not_be_read() -> None:
    """They are not stored without columns; the next try finishes the transaction."""
    gateway = await typed_gateway()
    finishing = finisher(gateway)
    row = await decided(gateway, finishing, [b'{"id":1}'])

    gateway.store.before = fail_registry
    with pytest.raises(BackOff, match="schemas of the topic can't be read"):
        finishing.finish(row)
    gateway.store.come_back()
    assert stored_columns(gateway.store, "t") == []
    assert finishing.finish(row).state == "committed"
    assert stored_columns(gateway.store, "t") == [({"id": 1}, None)]


async def test_a_large_transaction_writes_the_columns() -> None:
    """All of its segments have them, and the statistics; a version that is new to the table widens it in the same commit."""
    gateway = await typed_gateway(
        transaction_bytes_max=20_000, transaction_piece_bytes=16_000, left_alone_ms=-1, large_pause_ms=0
    )
    register_in(gateway.store, "t-value", LATER)
    producer = await begun(gateway, value_schema="t-value")
    wanted: list[tuple[Any, str | None]] = []
    for number in range(12):
        note = "x" * 4_000
        assert await stage(gateway, producer, number, b'{"id":%d,"note":"%s"}' % (number, note.encode())) is None
        wanted.append(({"id": number, "note": note}, None))
    assert await stage(gateway, producer, 12, b"{}") is None
    await gateway.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)
    assert stored_columns(gateway.store, "t") == [*wanted, (None, MISFIT)]
    state = TopicLog(gateway.store, "t", SystemClock()).refresh()
    assert len(state.manifest.segments()) > 2
    assert state.version == 1, "one commit has the columns and the segments"
