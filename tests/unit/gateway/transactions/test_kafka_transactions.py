"""Transactions of Kafka's clients across gateways: each batch once and in order, whatever comes twice, late or not at all."""

from __future__ import annotations

import asyncio

import pytest

from gateway.transactions.kafka_transactions import TransactionalProducer
from log_format.clock import SystemClock
from log_format.errors import ErrorCode, TidelogError
from log_format.topic.append_outcome import Duplicate
from log_format.topic.producer_id import format_number
from log_format.topic.producers import ProducerStamp
from log_format.transactions.staged_offsets import StagedOffset, StagedOffsets
from tests.support.all_allowed import all_allowed
from tests.support.clocks import LaterClock
from tests.support.engine import Gateway, make_gateway
from tests.support.faulty_store import Gate
from tests.support.kafka_transactions import MINE, begun, stage, values
from tests.support.records import batch_of


async def refusal(gateway: Gateway, producer: TransactionalProducer, *, is_committed: bool = True) -> ErrorCode:
    with pytest.raises(TidelogError) as caught:
        await gateway.engine.kafka_transactions.end(producer, all_allowed, is_committed=is_committed)
    return caught.value.code


async def test_two_gateways_stage_one_transaction_in_any_order() -> None:
    """What is sent again to the other one counts once; the records keep the order of their sequences."""
    gateway = make_gateway()
    other = make_gateway(objects=gateway.store.objects)
    producer = await begun(gateway)
    assert await stage(other, producer, 2, b"c") is None
    assert await stage(gateway, producer, 0, b"a", b"b") is None
    assert await stage(other, producer, 0, b"a", b"b") is None
    assert await stage(other, producer, 0, b"A", partition=1) is None
    assert await values(gateway) == []
    await other.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)
    await gateway.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)
    assert await values(gateway) == [b"a", b"b", b"c"]
    assert await values(gateway, 1) == [b"A"]


@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_batch_of_the_transaction_before_that_comes_late_does_not_count(is_committed: bool) -> None:
    """The client sent it twice; one of them lay in a slow gateway until the next transaction."""
    gateway = make_gateway()
    producer = await begun(gateway)
    kafka = gateway.engine.kafka_transactions
    await stage(gateway, producer, 0, b"a", b"b")
    await kafka.end(producer, all_allowed, is_committed=is_committed)
    await kafka.begin(producer)
    await stage(gateway, producer, 0, b"a", b"b")
    await stage(gateway, producer, 2, b"c")
    await kafka.end(producer, all_allowed, is_committed=True)
    assert await values(gateway) == ([b"a", b"b", b"c"] if is_committed else [b"c"])


async def test_a_commit_without_a_batch_between_others_is_refused() -> None:
    """It is lost: committed without it, records would be missing. The client may abort, and go on."""
    gateway = make_gateway()
    producer = await begun(gateway)
    await stage(gateway, producer, 0, b"a")
    await stage(gateway, producer, 2, b"c")
    assert await refusal(gateway, producer) is ErrorCode.SEQUENCE_OUT_OF_ORDER
    kafka = gateway.engine.kafka_transactions
    await kafka.end(producer, all_allowed, is_committed=False)
    await kafka.end(producer, all_allowed, is_committed=False)
    await kafka.begin(producer)
    await stage(gateway, producer, 3, b"d")
    await kafka.end(producer, all_allowed, is_committed=True)
    assert await values(gateway) == [b"d"]


async def test_nothing_is_staged_without_an_open_transaction() -> None:
    """Before it begins, after it ended, from another epoch."""
    gateway = make_gateway()
    producer = await begun(gateway)
    await gateway.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)
    for who, code in (
        (producer, ErrorCode.TRANSACTION_NOT_OPEN),
        (producer._replace(epoch=7), ErrorCode.FENCED_PRODUCER),
        (producer._replace(producer_id=7), ErrorCode.UNKNOWN_PRODUCER),
    ):
        with pytest.raises(TidelogError) as caught:
            await stage(gateway, who, 0, b"x")
        assert caught.value.code is code
    assert await refusal(gateway, producer, is_committed=False) is ErrorCode.TRANSACTION_NOT_OPEN
    assert await values(gateway) == []


async def test_a_batch_whose_transaction_ended_while_it_was_put_is_refused() -> None:
    """Its successor fenced it: the client is told, and the batch never comes."""
    gateway = make_gateway()
    producer = await begun(gateway)
    other = make_gateway(objects=gateway.store.objects)
    with Gate(gateway.store, "put", ".arrow") as gate:
        staging = asyncio.create_task(stage(gateway, producer, 0, b"x"))
        await gate.wait_until_reached()
        await other.engine.kafka_transactions.init_producer(MINE, 60_000)
    outcome = await staging
    assert outcome is not None
    assert outcome.code is ErrorCode.FENCED_PRODUCER
    assert await refusal(gateway, producer) is ErrorCode.FENCED_PRODUCER


async def test_offsets_come_with_the_records() -> None:
    """Of a group without members; an aborted transaction leaves them as they were."""
    gateway = make_gateway()
    producer = await begun(gateway)
    kafka = gateway.engine.kafka_transactions
    for offset, is_committed in ((1, False), (2, True)):
        await kafka.begin(producer)
        offsets = (StagedOffset(topic="t", partition=0, offset=offset),)
        await kafka.stage_offsets(producer, StagedOffsets(group="g", member_id=None, generation=None, offsets=offsets))
        await kafka.end(producer, all_allowed, is_committed=is_committed)
        group = await gateway.engine.groups.committed.now("g")
        assert [row.offset for row in group.offsets.values()] == ([2] if is_committed else [])


async def test_a_commit_is_refused_once_the_time_out_has_passed() -> None:
    """Then the epoch is over, also for what would begin anew."""
    gateway = make_gateway()
    producer = await begun(gateway, timeout_ms=1)

    await asyncio.sleep(0.01)
    kafka = gateway.engine.kafka_transactions
    offsets = (StagedOffset(topic="t", partition=0, offset=1),)
    of_group = StagedOffsets(group="g", member_id=None, generation=None, offsets=offsets)
    for call in (
        lambda: kafka.stage_offsets(producer, of_group),
        lambda: kafka.end(producer, all_allowed, is_committed=True),
        lambda: kafka.begin(producer),
    ):
        with pytest.raises(TidelogError) as caught:
            await call()
        assert (caught.value.code, caught.value.fields["reason"]) == (ErrorCode.TRANSACTION_NOT_OPEN, "expired")


async def test_a_commit_that_meets_the_time_out_says_so() -> None:
    """The time-out passes while its decision is on its way: the client is told that the epoch is over, not of a wrong state."""
    clock = LaterClock()
    gateway = make_gateway(clock=clock)
    producer = await begun(gateway)
    await stage(gateway, producer, 0, b"x")
    with Gate(gateway.store, "get", ".arrow") as gate:
        ending = asyncio.create_task(gateway.engine.kafka_transactions.end(producer, all_allowed, is_committed=True))
        await gate.wait_until_reached()
        clock.ahead_ms = 61_000
    with pytest.raises(TidelogError) as caught:
        await ending
    assert (caught.value.code, caught.value.fields["reason"]) == (ErrorCode.TRANSACTION_NOT_OPEN, "expired")


async def test_a_commit_that_is_asked_for_again_is_known_as_long_as_its_transactional_id() -> None:
    """The transaction itself is forgotten after a day."""
    clock = LaterClock()
    gateway = make_gateway(clock=clock)
    producer = await begun(gateway)
    kafka = gateway.engine.kafka_transactions
    row = await kafka.open(producer)
    await kafka.end(producer, all_allowed, is_committed=True)
    clock.ahead_ms = 2 * 86_400_000
    await kafka.init_producer("another", 60_000)
    with pytest.raises(TidelogError) as caught:
        await gateway.engine.transactions.look(row.transaction_id)
    assert caught.value.code is ErrorCode.UNKNOWN_TRANSACTION
    await kafka.end(producer, all_allowed, is_committed=True)


async def test_the_next_transaction_begins_where_the_one_before_is_remembered_as_open() -> None:
    """The client ended it at another gateway, and comes back to the first one."""
    gateway = make_gateway()
    other = make_gateway(objects=gateway.store.objects)
    producer = await begun(gateway)
    await stage(gateway, producer, 0, b"a")
    await other.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)
    row = await gateway.engine.kafka_transactions.begin(producer)
    assert row.state == "open"
    await stage(gateway, producer, 1, b"b")
    await gateway.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)
    assert await values(gateway) == [b"a", b"b"]


async def test_an_idempotent_batch_is_in_the_log_once_and_waits_for_the_one_before() -> None:
    """Sequences of the topic's partitions, by way of the gateway's own order."""
    gateway = make_gateway()
    topic = await gateway.topic("t", 2, flush_ms=0)
    number = gateway.engine.producer_ids.issue_number()
    assert number < gateway.engine.producer_ids.issue_number()

    async def send(sequence: int, *some: bytes, partition: int = 0, wait_ms: int = 1_000) -> object:
        stamp = ProducerStamp(format_number(number, partition), 0, sequence)
        batch = batch_of(topic.state.topic_id, some, partition, stamp=stamp)
        reservation = gateway.request_memory.reserve(0)
        pending = await topic.submit_in_order(batch, reservation, gateway.engine.clock.monotonic_ms() + wait_ms)
        return await topic.appending.await_acknowledgement(pending)

    later = asyncio.create_task(send(2, b"c"))
    await asyncio.sleep(0)
    first = await send(0, b"a", b"b")
    await later
    assert await send(0, b"a", b"b") == Duplicate(first)  # type: ignore[arg-type]
    await send(0, b"x", partition=1)
    with pytest.raises(TidelogError) as caught:
        await send(9, b"z", wait_ms=1)
    assert (caught.value.code, caught.value.fields["expected_sequence"]) == (ErrorCode.SEQUENCE_OUT_OF_ORDER, 3)
    assert await values(gateway) == [b"a", b"b", b"c"]


def test_a_number_of_the_future_is_refused() -> None:
    """Once forgotten it would make every younger number unknown."""
    gateway = make_gateway()
    ids = gateway.engine.producer_ids
    now_ms = SystemClock().now_ms()
    ids.check_number(ProducerStamp(format_number(now_ms << 21, 0), 0, 0))
    with pytest.raises(TidelogError) as caught:
        ids.check_number(ProducerStamp(format_number((now_ms + 120_000) << 21, 0), 0, 0))
    assert caught.value.code is ErrorCode.UNKNOWN_PRODUCER


@pytest.mark.parametrize("producer_id", ["k0000000001400000-0", "k0000000001400000", "kitten"])
async def test_http_stages_nothing_under_a_kafka_clients_id(producer_id: str) -> None:
    """Records of two partitions, whose stamp names one or none: refused, not unforeseen."""
    gateway = make_gateway()
    topic = await gateway.topic("t", 2, flush_ms=0)
    transactions = gateway.engine.transactions
    row = await transactions.begin(MINE, 60_000)
    stamp = ProducerStamp(producer_id, 0, 0)
    batch = batch_of(topic.state.topic_id, [b"a", b"b"], [0, 1], stamp=stamp)
    with pytest.raises(TidelogError) as caught:
        await transactions.stage(row.transaction_id, "t", batch, stamp)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(TidelogError) as caught:
        await gateway.engine.check_producer(stamp)
    assert caught.value.code is ErrorCode.UNKNOWN_PRODUCER
