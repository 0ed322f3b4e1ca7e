"""Ids of topics that another gateway told: known here at once, and no load where no topic has them."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

from gateway.kafka.known_topics import LOOKUPS_MAX, KnownTopics
from tests.support.engine import Gateway, make_gateway


async def id_of(gateway: Gateway, name: str) -> UUID:
    return UUID((await gateway.topic(name)).state.topic_id)


def listings(gateway: Gateway) -> int:
    return gateway.store.calls["list_directories"]


async def test_ids_that_another_gateway_told_are_known_at_once() -> None:
    """Of a new topic, of one more right behind it, and of one that was made anew under its name; all asked for side by side by
    one look."""
    other = make_gateway()
    known = KnownTopics(make_gateway(objects=other.store.objects).engine)
    for name in ("a", "b", "c"):
        assert await known.look_up(await id_of(other, name)) == name
    await other.engine.administration.delete("b")
    renewed = await id_of(other, "b")
    assert await known.look_up(renewed) == "b"
    new = await id_of(other, "d")
    assert await asyncio.gather(*(known.look_up(new) for _ in range(20))) == ["d"] * 20


async def test_ids_that_no_topic_has_are_no_load() -> None:
    """Of one that is asked for again and again the store hears once in a while; of ever new ones no more often, but for a few."""
    other = make_gateway()
    asked = make_gateway(objects=other.store.objects)
    await id_of(other, "a")
    known, before = KnownTopics(asked.engine), listings(asked)
    gone = uuid4()
    for _ in range(50):
        assert await known.look_up(gone) is None
    a_look = listings(asked) - before
    assert a_look > 0
    for _ in range(200):
        assert await known.look_up(uuid4()) is None
    assert listings(asked) - before <= a_look * (LOOKUPS_MAX + 2)
