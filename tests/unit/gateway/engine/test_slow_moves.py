"""A gateway that moves a topic and is slow, while another one moves it, too."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial

from gateway.engine.open_topic import OpenTopic
from log_format.stores.memory import MemoryStore
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.attachment import TopicMove
from log_format.topic.changes import MoveTopic
from tests.support.clocks import ManualClock
from tests.support.engine import make_gateway, values_of
from tests.support.faulty_store import FaultyStore


def moved(topic_id: str, move: TopicMove) -> MoveTopic:
    return MoveTopic(topic_id=topic_id, move=move)


async def go(topic: OpenTopic, *, joins: int | None = None) -> None:
    """To this journal, or back to its own commits."""
    make = partial(moved, str(topic.log.state.topic_id))
    await topic.moving.change(make, joins=joins, leaves=joins is None)


async def test_a_slow_join_does_not_take_the_number_of_a_stay_that_has_ended() -> None:
    """Its commit comes after the topic was at the journal under that number, left, and got records of its own (G1)."""
    objects = MemoryStore()
    is_open, is_putting, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()

    def slow(operation: str, key: str) -> None:
        if operation == "put_if_absent" and key.startswith("topics/t/_delta_log/") and not is_open.is_set():
            loop.call_soon_threadsafe(is_putting.set)
            is_open.wait(10)

    one, other = make_gateway(objects=objects), make_gateway(FaultyStore(objects, before=slow))
    topic = await one.topic("t", flush_ms=1)
    joining = asyncio.create_task(go(await other.engine.open_topic("t"), joins=0))
    await is_putting.wait()
    await go(topic, joins=0)
    await one.append(topic, [b"0"])
    await go(topic)
    assert await one.append(topic, [b"1", b"2"]) == (AppendedRange(0, 1, 2),)
    is_open.set()
    await joining
    theirs = await other.engine.open_topic("t")
    assert theirs.log.state.attachment == (0, 2, 2)
    assert await other.append(theirs, [b"3"]) == (AppendedRange(0, 3, 1),)
    assert values_of(await one.fetch()) == [b"0", b"1", b"2", b"3"]
    await theirs.moving.drain_all()
    assert theirs.log.state.next_offsets.tolist() == [4]


async def test_a_topic_that_leaves_a_journal_is_closed_for_the_rest_of_its_drains_only() -> None:
    """What the journal alone has takes longer to drain than another gateway waits before it overtakes a change. Most of it is
    drained ahead, so nobody overtakes it, and an append that comes meanwhile waits for the rest."""
    objects, clock = MemoryStore(), ManualClock()
    is_slow = threading.Event()

    def slow(operation: str, key: str) -> None:
        """Each drain takes 60 ms by the other gateway's clock, and long enough for this gateway to look."""
        if operation == "put_if_absent" and key.startswith("topics/t/_delta_log/") and is_slow.is_set():
            clock.pass_ms(60)
            time.sleep(0.01)

    one = make_gateway(FaultyStore(objects, before=slow), drain_bytes_max=1)
    other = make_gateway(objects=objects, overtake_ms=800, clock=clock)
    topic = await one.topic("t", commit_mode="shared", flush_ms=1, drain_ms=600_000)
    for number in range(30):
        await one.append(topic, [b"%d" % number])
    theirs = await other.engine.open_topic("t")
    await other.append(theirs, [b"30"])
    is_slow.set()
    leaving = asyncio.create_task(go(topic))
    number, next_ms = 31, 0
    while not leaving.done():
        if clock.monotonic_ms() >= next_ms:
            await other.append(theirs, [b"%d" % number])
            number, next_ms = number + 1, clock.monotonic_ms() + 200
        await asyncio.sleep(0.001)
    await leaving
    is_slow.clear()
    keys = [info.key for info in objects.list("topics/t/_delta_log/")]
    moves = [key for key in keys if b'"operation":"MOVE TOPIC"' in objects.get(key)]
    assert len(moves) == 1
    assert topic.log.state.attachment is None
    one.forget_tail()
    assert values_of(await one.fetch()) == [b"%d" % each for each in range(number)]
    for gateway in (one, other):
        await gateway.engine.drain()
