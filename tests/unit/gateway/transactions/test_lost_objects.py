"""Decided transactions whose staged objects another program deleted: they end when people ask for it, and say what they lack."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.transactions.kafka_transactions import TransactionalProducer
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.errors import BackOff, OutcomeUnknown, StoreUnavailable
from log_format.ids import random_id
from log_format.store import ObjectStore
from log_format.topic.producer_id import format_number
from log_format.transactions.damaged_transactions import (
    LEFT_ALONE_MS,
    TransactionDamaged,
    find_damaged,
    plan_commit_without_lost,
)
from log_format.transactions.staged_offsets import StagedOffset, StagedOffsets
from log_format.transactions.staged_records import STAGED
from log_format.transactions.transaction_finisher import TransactionFinisher
from tests.support import kafka_transactions
from tests.support.all_allowed import all_allowed
from tests.support.engine import Gateway, batch_of, make_gateway, values_of


def end_without_what_is_lost(store: ObjectStore) -> list[int]:
    """As ``tidelog doctor --repair system/transactions``, later; of each transaction how many objects are lost."""
    clock = SystemClock()
    finishing = TransactionFinisher(
        store, clock, new_id=random_id, log_of=lambda topic: TopicLog(store, topic, clock), engine="tidelog-test"
    )
    state = finishing.log.refresh()
    assert not list(find_damaged(store, state, clock.now_ms())), "a young one is left to its gateway"
    found = list(find_damaged(store, state, clock.now_ms() + LEFT_ALONE_MS + 1))
    for each in found:
        finishing.decide(plan_commit_without_lost(store, each, random_id))
    return [len(each.lost) for each in found]


def dies_behind_the_decision(gateway: Gateway) -> None:
    def die(current: str, key: str) -> None:
        if current == "put_if_absent" and key.startswith("topics/"):
            raise StoreUnavailable(key, "the gateway died", may_have_happened=False)

    gateway.store.before = die


def delete(store: ObjectStore, key: str) -> None:
    store.delete(key)


def garble(store: ObjectStore, key: str) -> None:
    store.put(key, b"x")


@pytest.mark.parametrize("harm", [delete, garble])
async def test_it_ends_with_what_is_left_and_says_so(harm: Callable[[ObjectStore, str], None]) -> None:
    """Until then nobody is told that it is committed, and its producer waits. Then topics and offsets have what is left, the
    producer goes on, and who asks for the commit hears that something may be missing, at any gateway."""
    dying = make_gateway()
    engine = dying.engine
    row = await engine.transactions.begin("mine", 60_000)
    for name in ("a", "b"):
        topic = await dying.topic(name, flush_ms=0)
        await engine.transactions.stage(row.transaction_id, name, batch_of(topic, [name.encode()]), None)
    offsets = (StagedOffset(topic="a", partition=0, offset=1),)
    of_group = StagedOffsets(group="g", member_id=None, generation=None, offsets=offsets)
    await engine.transactions.stage_offsets(row.transaction_id, of_group)
    dies_behind_the_decision(dying)
    with pytest.raises(OutcomeUnknown):
        await engine.transactions.commit(row.transaction_id, all_allowed)
    objects = dying.store.objects
    staged = sorted(info.key for info in objects.list(STAGED))
    assert len(staged) == 3
    harm(objects, staged[0])
    other = make_gateway(objects=objects, left_alone_ms=-1)
    await other.engine.sweeping.sweep_once()
    with pytest.raises(OutcomeUnknown, match="--repair system/transactions"):
        await other.engine.transactions.commit(row.transaction_id, all_allowed)
    with pytest.raises(BackOff, match="not at its end"):
        await other.engine.transactions.begin("mine", 60_000)
    assert end_without_what_is_lost(objects) == [1]
    await other.engine.sweeping.sweep_once()
    found = await other.engine.transactions.look(row.transaction_id)
    assert (found.state, found.lost) == ("committed", 1)
    assert [values_of(await other.fetch(topic=name)) for name in ("a", "b")] == [[], [b"b"]]
    assert (await other.engine.groups.committed.now("g")).offsets[("a", 0)].offset == 1
    with pytest.raises(TransactionDamaged) as told:
        await other.engine.transactions.commit(row.transaction_id, all_allowed)
    assert (told.value.may_have_happened, told.value.retryable) == (True, False)
    assert (await other.engine.transactions.begin("mine", 60_000)).epoch == 1
    await other.engine.drain()
    assert not list(objects.list(f"{STAGED}{row.transaction_id}/"))


@pytest.mark.parametrize(("what", "lost", "left"), [("a batch", 1, [b"0", b"2"]), ("the index", 1, [])])
async def test_a_large_one_ends_with_what_is_left(what: str, lost: int, left: list[bytes]) -> None:
    """One batch of its index, or the index: the others are committed, and the client's next transaction begins."""
    dying = make_gateway(staged_names_max=1, left_alone_ms=-1, large_pause_ms=0)
    producer = await kafka_transactions.begun(dying)
    for number in range(3):
        assert await kafka_transactions.stage(dying, producer, number, b"%d" % number) is None
    dies_behind_the_decision(dying)
    with pytest.raises(OutcomeUnknown):
        await end(dying, producer)
    await dying.engine.drain()
    objects = dying.store.objects
    part = ".index" if what == "the index" else "-k0.1."
    (key,) = [info.key for info in objects.list(STAGED) if part in info.key]
    objects.delete(key)
    other = make_gateway(objects=objects, left_alone_ms=-1, large_pause_ms=0)
    with pytest.raises(OutcomeUnknown):
        await end(other, producer)
    assert end_without_what_is_lost(objects) == [lost]
    with pytest.raises(TransactionDamaged):
        await end(other, producer)
    with pytest.raises(TransactionDamaged):
        await end(make_gateway(objects=objects), producer)
    assert await kafka_transactions.values(other) == left
    next_one = TransactionalProducer(kafka_transactions.MINE, producer.producer_id, producer.epoch)
    assert (await other.engine.kafka_transactions.begin(next_one)).producer_id == format_number(producer.producer_id)


async def end(gateway: Gateway, producer: TransactionalProducer) -> None:
    await gateway.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)
