"""Records of several topics that share a journal: one object, one commit, all or nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from log_format.journal.entries import Close
from log_format.stores.memory import MemoryStore
from log_format.topic.append_outcome import AppendedRange
from tests.support.engine import Gateway, batch_of, make_gateway, values_of
from tests.support.faulty_store import Gate

SHARED: dict[str, Any] = {"commit_mode": "shared", "flush_ms": 0}


def puts(gateway: Gateway) -> int:
    return sum(operation.startswith("put") for operation, _ in gateway.store.requests)


async def test_one_object_and_one_commit_place_all() -> None:
    """Also where a topic is named twice, and when another gateway committed meanwhile; readers have the records at once."""
    objects = MemoryStore()
    gateway, other = make_gateway(objects=objects), make_gateway(objects=objects)
    topics = [await gateway.topic(f"t{number}", 2, **SHARED) for number in range(3)]
    theirs = await other.engine.open_topic("t0")
    for turn in range(3):
        await other.append(theirs, [b"theirs"])
        parts = [(topic, batch_of(topic, [b"a", b"b"], [0, 1])) for topic in (*topics, topics[1])]
        places = await gateway.engine.single_journal_append.append(parts)
        assert places is not None
        assert places["t0"] == (AppendedRange(0, 2 * turn + 1, 1), AppendedRange(1, turn, 1))
        assert places["t1"] == (AppendedRange(0, 2 * turn, 2), AppendedRange(1, 2 * turn, 2))
        assert values_of(await gateway.fetch(topic="t2", offset=turn)) == [b"a"]
    before = puts(gateway)
    parts = [(topic, batch_of(topic, [b"a"])) for topic in topics]
    assert await gateway.engine.single_journal_append.append(parts) is not None
    assert puts(gateway) - before == 2


async def test_a_topic_that_can_not_take_them_keeps_all_out() -> None:
    """Its journal has closed it, it has its own commits, or it was made anew: nothing happened, and the caller stages them."""
    gateway = make_gateway()
    topics = [await gateway.topic(f"t{number}", **SHARED) for number in range(2)]
    await asyncio.gather(*(gateway.append(topic, [b"first"]) for topic in topics))
    append = gateway.engine.single_journal_append.append
    alone = await gateway.topic("alone", commit_mode="own")
    assert await append([(topic, batch_of(topic, [b"x"])) for topic in (*topics, alone)]) is None
    made_anew = batch_of(topics[1], [b"x"])
    made_anew.topic_id = "another"
    assert await append([(topics[0], batch_of(topics[0], [b"x"])), (topics[1], made_anew)]) is None
    journal = topics[1].journal
    assert journal is not None
    here = topics[1].log.state.attachment
    assert here is not None
    await journal.commit_entries(Close(str(topics[1].log.state.topic_id), here.number))
    assert await append([(topic, batch_of(topic, [b"x"])) for topic in topics]) is None
    for topic in topics:
        assert values_of(await gateway.fetch(topic=topic.name)) == [b"first"]


async def test_what_lost_its_race_and_is_refused_then_is_not_read() -> None:
    """Another gateway closes one topic while the commit is on its way: readers of the others see nothing of the request."""
    objects = MemoryStore()
    gateway, other = make_gateway(objects=objects), make_gateway(objects=objects)
    topics = [await gateway.topic(f"t{number}", **SHARED) for number in range(2)]
    await asyncio.gather(*(gateway.append(topic, [b"first"]) for topic in topics))
    theirs = await other.engine.open_topic("t1")
    here = theirs.log.state.attachment
    assert here is not None
    with Gate(gateway.store, "put_if_absent") as gate:
        parts = [(topic, batch_of(topic, [b"x"])) for topic in topics]
        append = asyncio.create_task(gateway.engine.single_journal_append.append(parts))
        await gate.wait_until_reached()
        await other.engine.journals.get(0).commit_entries(Close(str(theirs.log.state.topic_id), here.number))
    assert await append is None
    elsewhere = await other.engine.open_topic("t0")
    assert await other.append(elsewhere, [b"second"]) == (AppendedRange(0, 1, 1),)
    assert values_of(await gateway.fetch(topic="t0")) == [b"first", b"second"]
