"""Long polls: when they end, what wakes them, what they cost."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest

from gateway.engine.bounds import FETCH_PARTITION_BYTES, SMALL_ANSWER_BYTES
from gateway.engine.fetch_answer import FetchAnswer, Fetched, FetchFrom
from gateway.memory_budget import MemoryBudget
from log_format.errors import BackOff, ErrorCode, UnknownTopic
from tests.support.engine import Gateway, make_gateway, offsets_of, values_of


def counts_of(answer: FetchAnswer) -> list[tuple[int, int]]:
    """How many records of which partition, where none was refused."""
    return [(part.partition, part.records.record_count) for part in answer.parts if isinstance(part, Fetched)]


async def test_a_commit_wakes_who_waits_for_it(gateway: Gateway) -> None:
    """The moment the commit stands, well before the time is over; a poll of another partition sleeps on."""
    topic = await gateway.topic(flush_ms=0, partition_count=2)
    poll = asyncio.create_task(gateway.fetch(0, wait_ms=10_000))
    other = asyncio.create_task(gateway.fetch(0, partition=1, wait_ms=4_000))
    await asyncio.sleep(0.05)
    started = time.monotonic()
    await gateway.append(topic, [b"a"])
    assert values_of(await poll) == [b"a"]
    assert time.monotonic() - started < 8
    assert not other.done()
    assert values_of(await other) == []


async def test_a_commit_of_another_gateway_wakes_too() -> None:
    """While a fetch waits the gateway looks at the log: it sees others' commits within about half a second."""
    one = make_gateway(log_poll_ms=50)
    await one.topic(flush_ms=0)
    other = make_gateway(objects=one.store.objects)
    poll = asyncio.create_task(one.fetch(0, wait_ms=10_000))
    await asyncio.sleep(0.05)
    await other.append(await other.engine.open_topic("t"), [b"a"])
    async with asyncio.timeout(8):
        assert values_of(await poll) == [b"a"]
    for gateway in (one, other):
        await gateway.engine.drain()


async def test_many_who_wait_cost_one_look_at_a_time() -> None:
    """The requests to the store do not grow with the number of waiting fetches, and end with the last of them."""
    gateway = make_gateway(log_poll_ms=50)
    await gateway.topic(flush_ms=0)
    polls = [asyncio.create_task(gateway.fetch(0, wait_ms=3_000)) for _ in range(200)]
    await asyncio.sleep(0.1)
    gateway.store.calls.clear()
    await asyncio.gather(*polls)
    assert 2 <= gateway.store.calls["get"] <= 75
    await asyncio.sleep(0.15)
    gateway.store.calls.clear()
    await asyncio.sleep(0.2)
    assert not gateway.store.calls, "the log is looked at though nobody waits"
    await gateway.engine.drain()


async def test_min_bytes_are_waited_for(gateway: Gateway) -> None:
    """Woken as soon as ``min_bytes`` are committed; without them the poll answers at its end what there is."""
    topic = await gateway.topic(flush_ms=0)
    poll = asyncio.create_task(gateway.fetch(0, bytes_min=250, wait_ms=10_000))
    for _ in range(2):
        await gateway.append(topic, [b"x" * 100])
    await asyncio.sleep(0.05)
    assert not poll.done()
    await gateway.append(topic, [b"x" * 100])
    assert len(values_of(await poll)) == 3
    assert len(values_of(await gateway.fetch(0, bytes_min=1000, wait_ms=100))) == 3
    assert len(values_of(await gateway.fetch(0, bytes_min=1000, bytes_max=150, wait_ms=10_000))) == 1


async def test_a_record_without_bytes_ends_the_wait(gateway: Gateway) -> None:
    """A tombstone without a key has no bytes, but it is a record; a poll for the least must not sleep over it."""
    topic = await gateway.topic(flush_ms=0)
    poll = asyncio.create_task(gateway.fetch(0, wait_ms=10_000))
    await asyncio.sleep(0.02)
    await gateway.append(topic, [b""])
    async with asyncio.timeout(8):
        assert offsets_of(await poll) == [0]


async def test_deleting_the_topic_ends_the_wait(gateway: Gateway) -> None:
    """404 at once, also when the topic is made anew right away; the new one's records are not shown to the old poll."""
    topic = await gateway.topic(flush_ms=0)
    await gateway.append(topic, [b"old"])
    poll = asyncio.create_task(gateway.fetch(1, wait_ms=10_000))
    await asyncio.sleep(0.05)
    await gateway.engine.administration.delete("t")
    await gateway.topic(flush_ms=0)
    with pytest.raises(UnknownTopic):
        await poll
    assert values_of(await gateway.fetch(0)) == []


async def test_polls_beyond_the_bound_are_refused() -> None:
    """503 ``OVERLOADED``; a poll frees its slot when it ends, also when its client went away."""
    gateway = make_gateway(waiting_polls_max=2)
    await gateway.topic(flush_ms=0)
    polls = [asyncio.create_task(gateway.fetch(0, wait_ms=10_000)) for _ in range(2)]
    await asyncio.sleep(0.05)
    with pytest.raises(BackOff) as caught:
        await gateway.fetch(0, wait_ms=1000)
    assert caught.value.code is ErrorCode.OVERLOADED
    for poll in polls:
        poll.cancel()
    await asyncio.wait(polls)
    assert values_of(await gateway.fetch(0, wait_ms=20)) == []
    assert not (await gateway.engine.open_topic("t")).waiters
    await gateway.engine.drain()


async def test_totals_go_over_partitions_in_the_order_asked_for(gateway: Gateway) -> None:
    """Limits of several partitions are totals; answers, errors among them, come in the order of the request."""
    topic = await gateway.topic(flush_ms=0, partition_count=3)
    await gateway.append(topic, [b"x" * 10] * 9, [0, 1, 2] * 3)
    wanted = [FetchFrom(topic="t", partition=partition, offset=0) for partition in (2, 0, 1)]
    answer = await gateway.fetch_all(wanted, records=4)
    assert counts_of(answer) == [(2, 3), (0, 1), (1, 0)]
    answer = await gateway.fetch_all(wanted, bytes_max=45)
    assert [count for _, count in counts_of(answer)] == [3, 1, 0]
    answer = await gateway.fetch_all(wanted, bytes_max=5)
    assert [count for _, count in counts_of(answer)] == [1, 0, 0]
    wrong = [wanted[0], FetchFrom(topic="none", partition=0, offset=0), FetchFrom(topic="t", partition=9, offset=0)]
    answer = await gateway.fetch_all(wrong, bytes_min=1 << 20, wait_ms=10_000)
    assert [getattr(part, "code", None) for part in answer.parts] == [None, "UNKNOWN_TOPIC", "UNKNOWN_PARTITION"]
    assert isinstance(answer.parts[0], Fetched)


async def test_draining_ends_every_wait(gateway: Gateway) -> None:
    """Long polls answer what there is instead of holding the process up."""
    await gateway.topic(flush_ms=0)
    polls = [asyncio.create_task(gateway.fetch(0, wait_ms=60_000)) for _ in range(20)]
    await asyncio.sleep(0.05)
    await gateway.engine.drain()
    async with asyncio.timeout(8):
        for fetched in await asyncio.gather(*polls):
            assert values_of(fetched) == []


async def test_waiting_holds_no_memory(gateway: Gateway) -> None:
    """Memory for answers is held while they are made and sent, never while a poll sleeps."""
    topic = await gateway.topic(flush_ms=0)
    await gateway.append(topic, [b"x" * 100])
    gateway.forget_tail()
    poll = asyncio.create_task(gateway.fetch(0, bytes_min=1000, wait_ms=500))
    await asyncio.sleep(0.1)
    assert gateway.memory.used_bytes == 0
    await poll
    assert gateway.memory.used_bytes == 0


async def test_waiting_holds_no_records(gateway: Gateway) -> None:
    """What was read and is not enough is let go of while the poll waits for more."""
    topic = await gateway.topic(flush_ms=0)
    await gateway.append(topic, [b"x" * 1_000])
    poll = asyncio.create_task(gateway.fetch(0, bytes_min=1 << 30, wait_ms=500))
    await asyncio.sleep(0.2)
    gc.collect()
    # By type, not isinstance: a dead weak proxy among the objects would raise.
    assert not [one for one in gc.get_objects() if type(one) in {FetchAnswer, Fetched}]
    assert len(values_of(await poll)) == 1


@pytest.mark.parametrize("from_store", [True, False])
async def test_an_answer_is_small_where_memory_is_short(gateway: Gateway, from_store: bool) -> None:
    """A fetch that waits for others' answers makes do with less, of old records and of new ones; the rest is for the next."""
    topic = await gateway.topic(flush_ms=0)
    await gateway.append(topic, [b"x" * 1_000] * 900)
    if from_store:
        gateway.forget_tail()
    budget = MemoryBudget(64 << 20, "answers", kept_bytes=24 << 20)
    memory = budget.of("balancer")
    unread = await memory.reserve_in_turn(40 << 20, wait_ms=10)
    part = await gateway.fetch(records=900, memory=memory)
    assert 0 < part.records.size_bytes <= SMALL_ANSWER_BYTES
    assert part.records.next_offset == part.records.record_count
    unread.release()
    assert (await gateway.fetch(records=900, memory=memory)).records.record_count == 900
    assert budget.used_bytes == 0


async def test_a_long_list_waits_for_others_to_end() -> None:
    """Fetches of many partitions share a bounded memory; short ones pass. One more than may wait is refused."""
    gateway = make_gateway(fetch_lists_waiting_max=1, fetch_lists_bytes_max=100 * FETCH_PARTITION_BYTES)
    topic = await gateway.topic(partition_count=70)
    wanted = [FetchFrom(topic="t", partition=number, offset=0) for number in range(70)]
    first = asyncio.create_task(gateway.fetch_all(wanted, wait_ms=30_000))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(gateway.fetch_all(wanted))
    await asyncio.sleep(0.05)
    with pytest.raises(BackOff, match="lists of partitions"):
        await gateway.fetch_all(wanted)
    assert values_of(await gateway.fetch(0)) == []
    assert not second.done()
    await gateway.append(topic, [b"ends the first"])
    for task in (first, second):
        answer = await task
        assert len(answer.parts) == 70
        answer.reservation.release()
    assert gateway.memory.used_bytes == 0
    await gateway.engine.drain()


async def test_another_gateways_acknowledgement_is_seen_by_the_next_read() -> None:
    """G4: reads, topics and their deletion, at once and without waiting, through a gateway that had seen the old state."""
    one = make_gateway()
    other = make_gateway(objects=one.store.objects)
    topic = await one.topic(flush_ms=0)
    assert values_of(await other.fetch(0)) == []
    for number in range(10):
        await one.append(topic, [b"%d" % number])
        assert values_of(await other.fetch(number)) == [b"%d" % number]
    await one.engine.administration.delete("t")
    with pytest.raises(UnknownTopic):
        await other.fetch(0)
    topic = await one.topic(flush_ms=0)
    await one.append(topic, [b"anew"])
    assert values_of(await other.fetch(0)) == [b"anew"]
    for gateway in (one, other):
        await gateway.engine.drain()
