"""Rounds of the upkeep in a gateway: what can't be read stops no other, and no clock delays a drain."""

from __future__ import annotations

from typing import Any

from gateway.engine.open_topic import OpenTopic
from log_format import layout
from log_format.errors import BackOff
from log_format.journal.entries import Close
from log_format.stores.memory import MemoryStore
from log_format.topic.attachment import TopicMove
from log_format.topic.changes import MoveTopic
from tests.support.clocks import ManualClock
from tests.support.engine import make_gateway

SHARED: dict[str, Any] = {"commit_mode": "shared", "flush_ms": 5}


def own_offsets(topic: OpenTopic) -> list[int]:
    """What the topic's own table has."""
    offsets: list[int] = topic.log.state.next_offsets.tolist()
    return offsets


async def test_a_journal_that_can_not_be_read_stops_no_other() -> None:
    """The round goes on with those behind it."""
    clock = ManualClock()
    gateway = make_gateway(clock=clock)
    topic = await gateway.topic("t", **SHARED, drain_ms=1000)
    await gateway.append(topic, [b"v"])
    journals, upkeep = gateway.engine.journals, gateway.engine.journal_upkeep
    await upkeep.run_once()
    read, broken = journals.get(0), journals.get(7)

    async def unreadable(age_ms_max: int) -> Any:
        raise BackOff("planted")

    broken.recent = unreadable  # type: ignore[method-assign]
    journals._open = {7: broken, 0: read}  # the broken one first
    clock.pass_ms(800)
    await upkeep.run_once()
    assert own_offsets(topic) == [1]


async def test_a_topic_whose_time_is_ahead_is_drained_in_time() -> None:
    """The clock of the gateway that appended is an hour ahead: what counts is how long this gateway has seen its records."""
    objects, ahead, clock = MemoryStore(), ManualClock(), ManualClock()
    ahead.pass_ms(3_600_000)
    writer, owner = make_gateway(objects=objects, clock=ahead), make_gateway(objects=objects, clock=clock)
    topic = await writer.topic("t", **SHARED, drain_ms=1000)
    await writer.append(topic, [b"v"])
    upkeep = owner.engine.journal_upkeep
    await upkeep.run_once()
    await owner.engine.journals.get(0).look()
    await upkeep.run_once()
    assert own_offsets(topic) == [0]
    clock.pass_ms(800)
    await upkeep.run_once()
    await topic.look()
    assert own_offsets(topic) == [1]


async def test_a_closed_topic_that_can_not_be_read_stops_no_other() -> None:
    """Those behind it that have left are let go; it stays until it can be read."""
    objects = MemoryStore()
    one = make_gateway(objects=objects)
    ids = []
    for name in ("a", "b"):
        topic = await one.topic(name, **SHARED)
        await one.append(topic, [b"v"])
        here, topic_id = topic.log.state.attachment, topic.log.state.topic_id
        assert here is not None
        assert topic_id is not None
        journal = one.engine.journals.get(here.journal)
        await journal.commit_entries(Close(topic_id, here.number))
        await topic.moving.drain_all()
        await topic.commit(MoveTopic(topic_id=topic_id, move=TopicMove(here, topic_id=topic_id)))
        ids.append(topic_id)
    objects.put(layout.commit_key("a", 1), b"damaged")
    other = make_gateway(objects=objects)
    journal = other.engine.journals.get(0)
    await journal.look()
    closed = [journal.state.topics.by_id[topic_id] for topic_id in ids]
    assert not any(topic.is_open for topic in closed)
    await other.engine.journal_upkeep._release(journal, closed)
    await journal.commit_entries()
    assert [topic_id in journal.state.topics.by_id for topic_id in ids] == [True, False]
    for gateway in (one, other):
        await gateway.engine.drain()
