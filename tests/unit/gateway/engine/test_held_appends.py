"""Batches of a topic that moves: they wait, follow it in their order, and no flush of its own begins meanwhile."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gateway.engine.open_topic import OpenTopic
from gateway.engine.topic_appends import PendingBatch
from log_format.errors import BackOff
from log_format.stores.memory import MemoryStore
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.attachment import TopicMove
from log_format.topic.changes import MoveTopic
from tests.support.engine import Gateway, make_gateway, values_of
from tests.support.faulty_store import FaultyStore


async def go_to_journal(topic: OpenTopic) -> None:
    topic_id = topic.log.state.topic_id
    assert topic_id is not None

    def move(to: TopicMove) -> MoveTopic:
        return MoveTopic(topic_id=topic_id, move=to)

    await topic.moving.change(move, joins=0)


def own_segments(gateway: Gateway) -> int:
    return sum("/segments/" in key for operation, key in gateway.store.requests if operation == "put")


async def test_batches_follow_a_topic_that_moves_in_their_order() -> None:
    """Those that waited for their flush, those that came meanwhile, and those behind: all are the journal's."""
    gateway = make_gateway()
    topic = await gateway.topic(flush_ms=60_000)
    pending = [gateway.submit(topic, [b"%d" % number]) for number in range(3)]
    await asyncio.sleep(0)
    async with topic.appending.hold_batches():
        pending += [gateway.submit(topic, [b"%d" % number]) for number in range(3, 6)]
        await go_to_journal(topic)
    pending.append(gateway.submit(topic, [b"6"]))
    await gateway.engine.drain()
    assert [one.settled.result() for one in pending] == [(AppendedRange(0, number, 1),) for number in range(7)]
    assert values_of(await gateway.fetch()) == [b"%d" % number for number in range(7)]
    assert own_segments(gateway) == 1, "of the journal"


async def test_no_flush_begins_while_a_topic_is_held() -> None:
    """Though it is due."""
    gateway = make_gateway()
    topic = await gateway.topic(flush_ms=1)
    async with topic.appending.hold_batches():
        pending = gateway.submit(topic, [b"v"])
        await asyncio.sleep(0.1)
        assert own_segments(gateway) == 0
    assert await topic.appending.await_acknowledgement(pending) == (AppendedRange(0, 0, 1),)
    assert topic.log.state.attachment is None


async def test_a_flush_under_way_ends_before_the_topic_moves() -> None:
    """It keeps its offsets, and neither loses a version to the other."""
    is_open, is_putting, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()

    def slow(operation: str, key: str) -> None:
        if operation == "put" and "/segments/" in key and not is_open.is_set():
            loop.call_soon_threadsafe(is_putting.set)
            is_open.wait(10)

    gateway = make_gateway(FaultyStore(MemoryStore(), before=slow))
    topic = await gateway.topic(flush_ms=1)
    written = gateway.submit(topic, [b"a"])
    await is_putting.wait()
    late = gateway.submit(topic, [b"b"])
    loop.call_later(0.1, is_open.set)
    async with topic.appending.hold_batches():
        assert written.settled.done()
        assert not late.settled.done()
        await go_to_journal(topic)
    assert await topic.appending.await_acknowledgement(late) == (AppendedRange(0, 1, 1),)
    assert written.settled.result() == (AppendedRange(0, 0, 1),)
    assert topic.log.state.version == 2, "made, written to, moved"


async def test_batches_of_a_topic_that_could_not_move_are_written_where_it_is() -> None:
    """The move's error is the mover's."""
    gateway = make_gateway()
    topic = await gateway.topic(flush_ms=1)
    came: list[PendingBatch] = []

    async def try_to_move() -> None:
        async with topic.appending.hold_batches():
            came.append(gateway.submit(topic, [b"v"]))
            raise BackOff("planned")

    with pytest.raises(BackOff):
        await try_to_move()
    (pending,) = came
    assert await topic.appending.await_acknowledgement(pending) == (AppendedRange(0, 0, 1),)


async def test_a_batch_that_waited_too_long_is_taken_back() -> None:
    """Its caller is told that nothing happened, and nothing does."""
    gateway = make_gateway(produce_wait_ms_max=400)
    topic = await gateway.topic(flush_ms=1)
    async with topic.appending.hold_batches():
        waiting = asyncio.create_task(topic.appending.await_acknowledgement(gateway.submit(topic, [b"v"])))
        with pytest.raises(BackOff):
            await asyncio.wait_for(waiting, 5)
    assert await gateway.append(topic, [b"w"]) == (AppendedRange(0, 0, 1),)
    assert topic.appending.is_idle


async def test_a_refused_flush_is_submitted_ahead_of_batches_that_came_later() -> None:
    """Another gateway moved the topic while a flush was under way: its batch goes first all the same."""
    objects, is_open, is_putting = MemoryStore(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(operation: str, key: str) -> None:
        if operation == "put" and "/segments/" in key and key.startswith("topics/") and not is_open.is_set():
            loop.call_soon_threadsafe(is_putting.set)
            is_open.wait(10)

    gateway, other = make_gateway(FaultyStore(objects, before=slow)), make_gateway(objects=objects)
    topic = await gateway.topic(flush_ms=1)
    first = gateway.submit(topic, [b"first"])
    await is_putting.wait()
    await go_to_journal(await other.engine.open_topic("t"))

    async def hold() -> None:
        async with topic.appending.hold_batches():
            await asyncio.sleep(0.1)

    holding = asyncio.create_task(hold())
    await asyncio.sleep(0)
    later = gateway.submit(topic, [b"later"])
    is_open.set()
    await asyncio.wait_for(holding, 5)
    outcomes = [await topic.appending.await_acknowledgement(first), await topic.appending.await_acknowledgement(later)]
    assert outcomes == [(AppendedRange(0, 0, 1),), (AppendedRange(0, 1, 1),)]
