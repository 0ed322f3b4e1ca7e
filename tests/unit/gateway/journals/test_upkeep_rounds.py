"""Rounds of the upkeep in a gateway: what can't be read stops no other, and no clock delays a drain."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.engine.open_topic import OpenTopic
from log_format.errors import BackOff
from log_format.stores.memory import MemoryStore
from tests.support.clocks import LaterClock
from tests.support.engine import make_gateway

SHARED: dict[str, Any] = {"commit_mode": "shared", "flush_ms": 5}


def own_offsets(topic: OpenTopic) -> list[int]:
    """What the topic's own table has."""
    offsets: list[int] = topic.log.state.next_offsets.tolist()
    return offsets


async def test_a_journal_that_can_not_be_read_stops_no_other() -> None:
    """The round goes on with those behind it."""
    gateway = make_gateway()
    topic = await gateway.topic("t", **SHARED, drain_ms=1000)
    await gateway.append(topic, [b"v"])
    journals, upkeep = gateway.engine.journals, gateway.engine.journal_upkeep
    await upkeep.keep_once()
    read, broken = journals.get(0), journals.get(7)

    async def unreadable(age_ms_max: int) -> Any:
        raise BackOff("planted")

    broken.recent = unreadable  # type: ignore[method-assign]
    journals._open = {7: broken, 0: read}  # the broken one first
    await asyncio.sleep(0.8)
    await upkeep.keep_once()
    assert own_offsets(topic) == [1]


async def test_a_topic_whose_time_is_ahead_is_drained_in_time() -> None:
    """The clock of the gateway that appended is an hour ahead: what counts is how long this gateway has seen its records."""
    objects, ahead = MemoryStore(), LaterClock()
    ahead.ahead_ms = 3_600_000
    writer, owner = make_gateway(objects=objects, clock=ahead), make_gateway(objects=objects)
    topic = await writer.topic("t", **SHARED, drain_ms=1000)
    await writer.append(topic, [b"v"])
    upkeep = owner.engine.journal_upkeep
    await upkeep.keep_once()
    await owner.engine.journals.get(0).look()
    await upkeep.keep_once()
    assert own_offsets(topic) == [0]
    await asyncio.sleep(0.8)
    await upkeep.keep_once()
    await topic.look()
    assert own_offsets(topic) == [1]
