"""What a gateway shows of a topic while its look at the topic's own log is slow, and the topic leaves its journal meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from gateway.engine.open_topic import OpenTopic
from log_format.journal.entries import Close
from log_format.stores.memory import MemoryStore
from tests.support.engine import Gateway, make_gateway, values_of

SHARED: dict[str, Any] = {"commit_mode": "shared", "flush_ms": 5}


class LateAnswer:
    """What is asked of the store is answered as of now, and the answer comes when ``come`` is set."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.come = threading.Event()

    def __call__(self, real: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return real(*arguments)
        finally:
            self.asked.set()
            assert self.come.wait(20), "the answer was never let go"


async def closed(gateway: Gateway, topic: OpenTopic) -> None:
    """The topic's number is closed, as by a gateway that begins to change the topic."""
    here, journal = topic.log.state.attachment, topic.journal
    assert here is not None
    assert journal is not None
    await journal.commit_entries(Close(str(topic.log.state.topic_id), here.number))


async def test_a_look_that_the_topic_has_overtaken_is_made_again() -> None:
    """The look finds the topic at its journal. Before its answer comes the topic has left, and the journal has forgotten it. So
    the journal does not have the records any more, and the look does not have them yet."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects)
    topic = await one.topic("t", **SHARED)
    await one.append(topic, [b"0", b"1"])
    theirs = await other.engine.open_topic("t")
    assert values_of(await other.fetch()) == [b"0", b"1"]
    await closed(one, topic)
    journal = other.engine.journals.get(0)
    await journal.fresh()
    late = LateAnswer()
    other.store.script["get"] = [None, late]  # the journal's head, then the topic's
    fetched = asyncio.create_task(other.fetch(offset=2))
    assert await asyncio.to_thread(late.asked.wait, 10)
    await one.engine.administration.alter("t", None, {"commit.mode": "own"})
    await one.engine.journals.get(0).commit_entries()
    await journal.fresh()
    assert not journal.state.topics.by_id, "the journal has forgotten the topic"
    assert theirs.state.next_offsets.tolist() == [2], "what was known once stays known"
    late.come.set()
    part = await fetched
    assert (part.high_watermark, values_of(part)) == (2, [])
    assert values_of(await other.fetch()) == [b"0", b"1"]


async def test_a_number_that_was_closed_before_it_was_attached_holds_no_reader_up() -> None:
    """The journal never knew the topic, and says that its number is closed: the topic's own log has all that there is."""
    gateway = make_gateway()
    topic = await gateway.topic("t", commit_mode="own", flush_ms=5)
    await gateway.append(topic, [b"0"])
    await gateway.engine.administration.alter("t", None, {"commit.mode": "shared"})
    await closed(gateway, topic)
    for _ in range(2):
        part = await gateway.fetch()
        assert (part.high_watermark, values_of(part)) == (1, [b"0"])
