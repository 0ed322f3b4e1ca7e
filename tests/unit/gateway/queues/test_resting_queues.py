"""Queues that rest cost their gateway nothing that grows with their number, and are taken over up to a bound."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.queues.bounds import QueueBounds
from gateway.queues.upkeep import Upkeep
from gateway.queues.watch import TopicWatch
from log_format.queues.row import QueueSettings
from tests.support.engine import Gateway, make_gateway

SETTINGS = QueueSettings(topics=("t",), start="earliest", lock_ms=30_000, max_deliveries=5, max_in_flight=100)
QUEUES = 200


async def queues(gateway: Gateway, count: int) -> Upkeep:
    """So many queues of one topic with records, each coordinated here."""
    topic = await gateway.topic("t", 2)
    await gateway.append(topic, [b"a", b"b"], [0, 1])
    names = [f"queue-{number}" for number in range(count)]
    await asyncio.gather(*(gateway.engine.queues.put(name, SETTINGS, has_start=True) for name in names))
    await asyncio.gather(*map(gateway.engine.queues.coordinator.live, names))
    return gateway.engine.queues.upkeep


async def test_a_round_without_news_looks_at_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round looks at each queue. Later ones look at the topic, once, until something is appended to it."""
    looks: list[str] = []
    look = TopicWatch.look

    async def counted(watch: TopicWatch, queue: Any, arrival_ms: int) -> None:
        looks.append(queue.name)
        await look(watch, queue, arrival_ms)

    monkeypatch.setattr(TopicWatch, "look", counted)
    gateway = make_gateway()
    upkeep = await queues(gateway, QUEUES)
    await upkeep._watch_topics()
    assert len(looks) == QUEUES
    looks.clear()
    requests = gateway.store.calls.total()
    for _ in range(5):
        await upkeep._watch_topics()
        await upkeep._tick()
        await upkeep._follow()
    assert looks == []
    assert gateway.store.calls.total() - requests <= 10
    await gateway.append(await gateway.engine.open_topic("t"), [b"c"])
    await upkeep._watch_topics()
    assert len(looks) == QUEUES


async def test_queues_are_taken_over_up_to_a_bound() -> None:
    """Of many queues that were made lately some are taken over; those with dead records always are."""
    gateway = make_gateway(queue_bounds=QueueBounds(adopted_max=7))
    upkeep = await queues(gateway, 20)
    for queue in list(gateway.engine.queues.coordinator):
        gateway.engine.queues.coordinator.forget(queue)
    await upkeep._adopt()
    assert len(list(gateway.engine.queues.coordinator)) == 7
