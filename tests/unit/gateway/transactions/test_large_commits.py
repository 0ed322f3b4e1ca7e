"""A Kafka client's transaction that no memory holds: an index, pieces, one commit in each topic (decision 081)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from gateway.transactions.kafka_transactions import TransactionalProducer
from log_format.errors import ErrorCode, OutcomeUnknown, StoreUnavailable, TidelogError
from log_format.store import ObjectStore
from log_format.topic.attachment import TopicMove
from log_format.topic.changes import MoveTopic
from log_format.topic.producer_id import format_number
from log_format.topic.producers import ProducerStamp
from log_format.transactions.staged_offsets import StagedOffset, StagedOffsets
from tests.support.all_allowed import all_allowed
from tests.support.engine import Gateway, make_gateway, values_of
from tests.support.faulty_store import FaultyStore
from tests.support.kafka_transactions import begun, stage, values
from tests.support.records import batch_of

BOUNDS: Final[dict[str, Any]] = {
    "transaction_bytes_max": 20_000,
    "transaction_piece_bytes": 16_000,
    "left_alone_ms": -1,
    "large_pause_ms": 0,
}
COUNT: Final = 12
"""Batches of each of two partitions, of some 4 KB."""


def value(partition: int, number: int) -> bytes:
    return b"%d-%d-" % (partition, number) + b"x" * 4_000


WANTED: Final = {partition: [value(partition, number) for number in range(COUNT)] for partition in (0, 1)}


async def staged(gateway: Gateway, count: int = COUNT) -> TransactionalProducer:
    producer = await begun(gateway)
    for number in range(count):
        for partition in (0, 1):
            assert await stage(gateway, producer, number, value(partition, number), partition=partition) is None
    return producer


async def end(gateway: Gateway, producer: TransactionalProducer) -> None:
    await gateway.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)


async def found(gateway: Gateway) -> dict[int, list[bytes]]:
    return {partition: await values(gateway, partition) for partition in (0, 1)}


def own_commits(objects: ObjectStore) -> list[dict[str, Any]]:
    """The actions of the topic's commits, each with the number of its commit."""
    keys = [info.key for info in objects.list("topics/t/_delta_log/") if info.key.endswith(".json")]
    return [
        {"commit": number, **msgspec.json.decode(line)}
        for number, key in enumerate(sorted(keys))
        for line in objects.get(key).splitlines()
    ]


async def test_many_segments_enter_the_topic_in_one_commit() -> None:
    """Behind what was there, in the order of their sequences, readable from the store, with nothing staged left."""
    gateway = make_gateway(**BOUNDS)
    producer = await staged(gateway)
    await gateway.append(await gateway.engine.open_topic("t"), [b"before"])
    assert await found(gateway) == {0: [b"before"], 1: []}
    await end(gateway, producer)
    await end(gateway, producer)
    gateway.forget_tail()
    assert await found(gateway) == {0: [b"before", *WANTED[0]], 1: WANTED[1]}
    adds = [action for action in own_commits(gateway.store.objects) if "add" in action]
    commits = [action["commit"] for action in adds]
    assert len(commits) > 5
    assert len(set(commits)) == 2, "the transaction's segments are not in one commit"
    times = [action["add"]["modificationTime"] for action in adds]
    assert times == sorted(set(times))
    await gateway.engine.drain()
    assert not list(gateway.store.objects.list("system/transactions/staged/"))
    other = make_gateway(objects=gateway.store.objects)
    assert await found(other) == {0: [b"before", *WANTED[0]], 1: WANTED[1]}


async def test_the_next_transaction_follows() -> None:
    """Its sequences go on behind those of the large one."""
    gateway = make_gateway(**BOUNDS)
    producer = await staged(gateway)
    await end(gateway, producer)
    await gateway.engine.kafka_transactions.begin(producer)
    assert await stage(gateway, producer, COUNT, b"next") is None
    await end(gateway, producer)
    assert await values(gateway) == [*WANTED[0], b"next"]


async def test_a_large_transaction_may_have_several_topics() -> None:
    """Each has its records by one commit."""
    gateway = make_gateway(**BOUNDS)
    producer = await staged(gateway)
    other = await gateway.topic("u", 1, flush_ms=0)
    for number in range(COUNT):
        stamp = ProducerStamp(format_number(producer.producer_id, 0), producer.epoch, number)
        batch = batch_of(other.state.topic_id, [value(7, number)], 0, stamp=stamp)
        assert await gateway.engine.kafka_transactions.stage(producer, [("u", batch)]) == [None]
    await end(gateway, producer)
    assert await found(gateway) == WANTED
    fetched = await gateway.fetch(topic="u")
    assert values_of(fetched) == [value(7, number) for number in range(COUNT)]
    assert other.state.version == 1


async def test_many_small_batches_are_indexed_too() -> None:
    """What a row can't name is as large as what memory can't hold. Offsets come with it, however many batches there are."""
    gateway = make_gateway(staged_names_max=10)
    producer = await begun(gateway)
    for number in range(30):
        assert await stage(gateway, producer, number, b"%d" % number) is None
    offsets = (StagedOffset(topic="t", partition=0, offset=7),)
    of_group = StagedOffsets(group="g", member_id=None, generation=None, offsets=offsets)
    await gateway.engine.kafka_transactions.stage_offsets(producer, of_group)
    await end(gateway, producer)
    assert await values(gateway) == [b"%d" % number for number in range(30)]
    offsets_of_group = (await gateway.engine.groups.committed.now("g")).offsets
    assert [one.offset for one in offsets_of_group.values()] == [7]


class Dying:
    """A store's hook: from the operation on that is ``last`` of those that change something, nothing works any more."""

    def __init__(self, last: int, *, is_done: bool) -> None:
        self.count = 0
        self.last = last
        self.is_done = is_done
        """Whether the last one still reaches the store."""

    def before(self, operation: str, key: str) -> None:
        is_change = operation in ("put", "put_if_absent", "delete")
        if self.count > self.last or (is_change and self.count == self.last and not self.is_done):
            raise StoreUnavailable(key, "it is dead", may_have_happened=is_change)

    def after(self, operation: str, key: str) -> None:
        if operation in ("put", "put_if_absent", "delete"):
            self.count += 1
            if self.count > self.last:
                raise StoreUnavailable(key, "it died", may_have_happened=True)


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_crash_at_each_change_of_the_store_leaves_all_or_nothing(is_done: bool) -> None:
    """Another gateway finds it undecided, with nothing visible, and commits it; or brings it to its end."""
    undecided = finished = 0
    for last in range(100):
        gateway = make_gateway(**BOUNDS)
        producer = await staged(gateway)
        dying = Dying(last, is_done=is_done)
        gateway.store.before, gateway.store.after = dying.before, dying.after
        has_failed = False
        try:
            await end(gateway, producer)
        except TidelogError:
            has_failed = True
        await gateway.engine._finishing.staging.drain()
        other = make_gateway(objects=gateway.store.objects, **BOUNDS)
        is_decided = (await other.engine.kafka_transactions.newest(producer)).state != "open"
        if not is_decided:
            undecided += 1
            assert has_failed
            assert await found(other) == {0: [], 1: []}
            await end(other, producer)
        elif has_failed:
            finished += 1
            await other.engine.sweeping.sweep_once()
        assert await found(other) == WANTED, f"after change {last}"
        if not has_failed:
            break  # what is left is deleted behind the answer
    else:
        raise AssertionError("the commit never ended")
    assert undecided >= 2
    assert finished >= 5


def appending_before_the_commit(gateway: Gateway, other: Gateway, times: int) -> Callable[[str, str], None]:
    """A hook that has another gateway append to partition 0 right before the topic's commit, so often."""
    loop, left = asyncio.get_running_loop(), [times]

    def before(operation: str, key: str) -> None:
        if operation == "put_if_absent" and key.startswith("topics/t/_delta_log/") and left[0]:
            left[0] -= 1

            async def append() -> None:
                await other.append(await other.engine.open_topic("t"), [b"other"])

            asyncio.run_coroutine_threadsafe(append(), loop).result()

    return before


async def test_what_is_overtaken_is_written_anew() -> None:
    """Only the pieces of the partition that another gateway has appended to; the others stay as they are."""
    gateway = make_gateway(**BOUNDS)
    producer = await staged(gateway)
    other = make_gateway(objects=gateway.store.objects)
    await other.engine.open_topic("t")
    gateway.store.before = appending_before_the_commit(gateway, other, times=2)
    await end(gateway, producer)
    assert await found(gateway) == {0: [b"other"] * 2 + WANTED[0], 1: WANTED[1]}
    puts = sum(operation == "put" and "/segments/" in key for operation, key in gateway.store.requests)
    segments = sum("add" in action for action in own_commits(gateway.store.objects)) - 2
    assert segments < puts < 3 * segments


async def test_what_is_overtaken_all_the_time_is_left_to_others() -> None:
    """The answer is that it is not known; the sweep of a gateway that is not overtaken brings it to its end."""
    gateway = make_gateway(**BOUNDS)
    producer = await staged(gateway)
    other = make_gateway(objects=gateway.store.objects, **BOUNDS)
    gateway.store.before = appending_before_the_commit(gateway, other, times=1_000)
    with pytest.raises(TidelogError) as caught:
        await end(gateway, producer)
    assert caught.value.code is ErrorCode.OUTCOME_UNKNOWN
    assert set((await found(other))[0]) == {b"other"}
    await other.engine.sweeping.sweep_once()
    assert [one for one in (await found(other))[0] if one != b"other"] == WANTED[0]


async def test_appends_of_this_gateway_wait_for_the_commit() -> None:
    """Those that come while the transaction is committed come behind it, or before its pieces are placed: nothing is lost."""
    gateway = make_gateway(**BOUNDS)
    producer = await staged(gateway)
    topic = await gateway.engine.open_topic("t")
    ending = asyncio.create_task(end(gateway, producer))
    sent = 0
    while not ending.done():
        await gateway.append(topic, [b"own-%d" % sent])
        sent += 1
    await ending
    in_topic = await found(gateway)
    own = [one for one in in_topic[0] if one.startswith(b"own-")]
    assert own == [b"own-%d" % number for number in range(sent)]
    assert [one for one in in_topic[0] if one not in own] == WANTED[0]
    first = in_topic[0].index(WANTED[0][0])
    assert in_topic[0][first : first + COUNT] == WANTED[0]


async def test_a_topic_at_a_journal_leaves_it_for_the_commit() -> None:
    """With what only the journal had before it. Then it is back, and later records come behind."""
    gateway = make_gateway(**BOUNDS)
    producer = await staged(gateway)
    topic = await gateway.engine.open_topic("t")
    topic_id = topic.log.state.topic_id
    assert topic_id is not None

    def move(to: TopicMove) -> MoveTopic:
        return MoveTopic(topic_id=topic_id, move=to)

    await topic.moving.change(move, joins=0)
    await gateway.append(topic, [b"before"])
    assert topic.journal is not None
    await end(gateway, producer)
    assert await found(gateway) == {0: [b"before", *WANTED[0]], 1: WANTED[1]}
    assert topic.log.state.next_offsets.tolist() == [COUNT + 1, COUNT]
    assert topic.journal is not None
    await gateway.append(topic, [b"behind"])
    assert await found(gateway) == {0: [b"before", *WANTED[0], b"behind"], 1: WANTED[1]}
    assert topic.log.state.next_offsets.tolist() == [COUNT + 1, COUNT]
    await gateway.engine.drain()


async def test_a_topic_made_anew_meanwhile_gets_nothing() -> None:
    """Where it was before the decision the transaction is aborted, also if some of its batches are of the new topic."""
    gateway = make_gateway(**BOUNDS)
    producer = await staged(gateway)
    await gateway.engine.administration.delete("t")
    await gateway.topic("t", 2, flush_ms=0)
    assert await stage(gateway, producer, COUNT, b"new", partition=1) is None
    with pytest.raises(TidelogError) as caught:
        await end(gateway, producer)
    assert caught.value.fields.get("reason") == "topic"
    assert await found(gateway) == {0: [], 1: []}


async def test_a_topic_deleted_behind_the_decision_takes_its_records_with_it() -> None:
    """The transaction is at its end without them."""
    gateway = make_gateway(**BOUNDS)
    producer = await staged(gateway)
    dead = FaultyStore(gateway.store.objects)
    dying = make_gateway(dead, **BOUNDS)

    def before(operation: str, key: str) -> None:
        if operation == "put" and "/segments/" in key:
            raise StoreUnavailable(key, "it is dead", may_have_happened=False)

    dead.before = before
    with pytest.raises(TidelogError):
        await end(dying, producer)
    await gateway.engine.administration.delete("t")
    await gateway.engine.sweeping.sweep_once()
    assert (await gateway.engine.kafka_transactions.newest(producer)).state == "committed"


async def test_a_call_that_waits_too_long_is_told_so_and_the_work_goes_on() -> None:
    """The client asks again, and joins what is under way instead of beginning it a second time."""
    gateway = make_gateway(**BOUNDS, large_wait_ms_max=0)
    producer = await staged(gateway)
    told = 0
    while True:
        asked = await asyncio.gather(end(gateway, producer), end(gateway, producer), return_exceptions=True)
        if not any(asked):
            break
        told += sum(isinstance(error, OutcomeUnknown) for error in asked)
        await asyncio.sleep(0.01)
    assert told
    assert await found(gateway) == WANTED
    puts = sum(operation == "put" and "/segments/" in key for operation, key in gateway.store.requests)
    assert puts == sum("add" in action for action in own_commits(gateway.store.objects))


async def test_log_append_time_is_one_for_all_and_never_goes_back() -> None:
    """Also where another gateway has appended between."""
    gateway = make_gateway(**BOUNDS)
    producer = await begun(gateway)
    await gateway.engine.administration.alter("t", None, {"message.timestamp.type": "LogAppendTime"})
    for number in range(COUNT):
        assert await stage(gateway, producer, number, value(0, number)) is None
    other = make_gateway(objects=gateway.store.objects)
    await other.engine.open_topic("t")
    gateway.store.before = appending_before_the_commit(gateway, other, times=1)
    await end(gateway, producer)
    fetched = await gateway.fetch(bytes_max=1 << 20)
    times = [time for table in fetched.records.tables for time in table.column("timestamp").to_pylist()]
    assert len(times) == COUNT + 1
    assert times == sorted(times)
    assert len(set(times[1:])) == 1


async def test_a_batch_may_be_staged_by_two_versions() -> None:
    """A name without the incarnation is an older gateway's, and counts."""
    gateway = make_gateway(**BOUNDS)
    producer = await staged(gateway)
    objects = gateway.store.objects
    for info in list(objects.list("system/transactions/staged/"))[::2]:
        number, topic, lane, incarnation, unique = info.key.split("-", 4)
        assert incarnation.startswith("i")
        objects.put("-".join((number, topic, lane, unique)), objects.get(info.key))
        objects.delete(info.key)
    await end(gateway, producer)
    assert await found(gateway) == WANTED


async def test_a_staged_batch_that_is_not_what_its_name_says_is_never_applied() -> None:
    """Put there by hand for another topic than its name's hash says, it is refused, and so is one with other records."""
    gateway = make_gateway(**BOUNDS)
    producer = await staged(gateway)
    objects = gateway.store.objects
    keys = [info.key for info in objects.list("system/transactions/staged/")]
    state = (await gateway.engine.open_topic("t")).state
    stamp = ProducerStamp(format_number(producer.producer_id, 0), producer.epoch, COUNT)
    two = batch_of(state.topic_id, [b"a", b"b"], 0, stamp=stamp)
    await gateway.engine.kafka_transactions.stage(producer, [("t", two)])
    (forged,) = {info.key for info in objects.list("system/transactions/staged/")} - set(keys)
    objects.put(keys[3], objects.get(forged))
    with pytest.raises(TidelogError):
        await end(gateway, producer)
    assert await found(gateway) == {0: [], 1: []}
