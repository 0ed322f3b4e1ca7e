"""Offsets that a Kafka client sends with its transaction: judged when they come, and pending until the transaction ends."""

from __future__ import annotations

import pytest

from gateway.groups.calls.groups import JoinRequest
from gateway.transactions.kafka_transactions import TransactionalProducer
from log_format.errors import BackOff, ErrorCode, TidelogError
from log_format.topic.producer_id import parse_number
from log_format.transactions.staged_offsets import StagedOffset, StagedOffsets
from tests.support.all_allowed import all_allowed
from tests.support.clocks import LaterClock
from tests.support.engine import Gateway, make_gateway

KEY = ("t", 0)


async def begun(gateway: Gateway, timeout_ms: int = 60_000) -> TransactionalProducer:
    """An epoch whose first transaction is open."""
    await gateway.topic("t", 2, flush_ms=0)
    row = await gateway.engine.kafka_transactions.init_producer("mine", timeout_ms)
    producer = TransactionalProducer("mine", parse_number(row.producer_id), row.epoch)
    await gateway.engine.kafka_transactions.begin(producer)
    return producer


async def stage(gateway: Gateway, producer: TransactionalProducer, offset: int, partition: int = 0) -> None:
    offsets = (StagedOffset(topic="t", partition=partition, offset=offset),)
    of_group = StagedOffsets(group="g", member_id=None, generation=None, offsets=offsets)
    await gateway.engine.kafka_transactions.stage_offsets(producer, of_group)


async def join(gateway: Gateway) -> None:
    """From then on the group refuses offsets that name no member."""
    joining = JoinRequest(
        topics=("t",), pattern=None, assignor="range", session_timeout_ms=60_000, client_id=None, instance_id=None
    )
    await gateway.engine.groups.join("g", joining)


async def shown(gateway: Gateway) -> tuple[dict[int, int | None], set[int]]:
    """Committed offsets by partition, and the partitions that wait for a transaction."""
    rows, waiting = await gateway.engine.groups.committed.rows_of("g", None)
    return {row.partition: row.offset for row in rows.values()}, {partition for _, partition in waiting}


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("elsewhere", [True, False])
async def test_a_rebalance_before_the_commit_changes_nothing(is_committed: bool, elsewhere: bool) -> None:
    """The group would refuse the offsets now; they were judged when they came, as a broker does. Any gateway may commit them."""
    gateway = make_gateway()
    other = make_gateway(objects=gateway.store.objects)
    producer = await begun(gateway)
    await stage(gateway, producer, 1)
    await stage(gateway, producer, 7)
    await stage(gateway, producer, 2, partition=1)
    await join(gateway)
    with pytest.raises(TidelogError) as caught:
        await stage(gateway, producer, 8)
    assert caught.value.code is ErrorCode.STALE_GENERATION
    assert await shown(other) == ({}, {0, 1})
    kafka = (other if elsewhere else gateway).engine.kafka_transactions
    await kafka.end(producer, all_allowed, is_committed=is_committed)
    for one in (gateway, other):
        assert await shown(one) == ({0: 7, 1: 2} if is_committed else {}, set())


async def test_the_next_member_waits_for_the_transaction() -> None:
    """It would read again what the transaction's records come from. What is only shown is there at once, and no reader aborts."""
    gateway = make_gateway(pending_offsets_ms_max=0)
    producer = await begun(gateway)
    await stage(gateway, producer, 7)
    committed = gateway.engine.groups.committed
    with pytest.raises(BackOff):
        await committed.of_partitions("g", [KEY])
    assert await shown(gateway) == ({}, {0})
    await gateway.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)
    assert {key: row.offset for key, row in (await committed.of_partitions("g", [KEY])).items()} == {KEY: 7}


async def test_the_sweep_leaves_an_open_transaction() -> None:
    """It looks after what a client left behind; this one may still be committed."""
    gateway = make_gateway(left_alone_ms=-1, pending_offsets_ms_max=0)
    producer = await begun(gateway)
    await stage(gateway, producer, 7)
    await gateway.engine.sweeping.sweep_once()
    assert await shown(gateway) == ({}, {0})
    await gateway.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)
    assert await shown(gateway) == ({0: 7}, set())


@pytest.mark.parametrize("ends", ["time-out", "successor"])
async def test_a_transaction_that_was_left_behind_holds_up_no_reader(ends: str) -> None:
    """Its time-out has passed, or its client came anew: the offsets are those before it."""
    clock = LaterClock()
    gateway = make_gateway(clock=clock)
    producer = await begun(gateway)
    await stage(gateway, producer, 7)
    if ends == "time-out":
        clock.ahead_ms = 60_001
    else:
        await gateway.engine.kafka_transactions.init_producer("mine", 60_000)
    assert await gateway.engine.groups.committed.of_partitions("g", [KEY]) == {}
    assert await shown(gateway) == ({}, set())
    with pytest.raises(TidelogError):
        await gateway.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)
