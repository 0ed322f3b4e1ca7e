"""Without Describe a name costs the store nothing: rights come before looks."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.access.rights import Unauthorized
from gateway.engine.fetch_answer import FetchFrom
from gateway.kafka.calls import group_offsets, metadata, offsets
from gateway.kafka.known_topics import KnownTopics
from log_format.errors import TidelogError, UnknownTopic


class Asked:
    """A caller with Describe on ``mine``, and the names that the store was asked for."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.engine = SimpleNamespace(start_resolver=self, clock=SimpleNamespace(monotonic_ms=lambda: 0))

    async def fresh(self, wanted: Sequence[FetchFrom], _arrival_ms: int) -> dict[str, TidelogError]:
        self.names += [one.topic for one in wanted]
        return {one.topic: UnknownTopic(one.topic) for one in wanted}

    def require(self, operation: Any, kind: Any, name: str) -> None:
        if name != "mine":
            raise Unauthorized(operation, kind, name)

    def answer(self, **members: Any) -> dict[str, Any]:
        return members


@pytest.mark.parametrize("call", ["offset_for_leader_epoch", "list_offsets", "metadata"])
async def test_the_store_is_asked_for_what_may_be_described(call: str) -> None:
    """Of many names only the caller's own is looked at, each once."""
    asked: Any = Asked()
    names = ["mine", *(f"not-mine-{number}" for number in range(100)), "mine"]
    if call == "metadata":
        told = await metadata._named(asked, [(None, name) for name in names], asked, operations=False)
        assert len(told) == len(names)
    elif call == "list_offsets":
        assert set(await offsets._look_up(asked, names)) == set(names)
    else:
        topics = [SimpleNamespace(topic=name, partitions=()) for name in names]
        await offsets.offset_for_leader_epoch(asked, SimpleNamespace(topics=topics))
    assert asked.names == ["mine"]


@pytest.mark.parametrize("may", [True, False])
async def test_a_topic_named_by_its_id_is_looked_at_by_rights(may: bool) -> None:
    """Whether the id is the present one is a look at the topic, which needs the right."""
    asked: list[str] = []
    topic_id = uuid.uuid4()

    async def fresh(name: str, _arrival_ms: int) -> Any:
        asked.append(name)
        return SimpleNamespace(state=SimpleNamespace(topic_id=str(topic_id)))

    engine: Any = SimpleNamespace(clock=SimpleNamespace(monotonic_ms=lambda: 0), topics=SimpleNamespace(fresh=fresh))
    known_topics = KnownTopics(engine)
    known_topics.learn(topic_id, "t")
    call: Any = SimpleNamespace(known_topics=known_topics, allows=lambda *_: may)
    topics = [SimpleNamespace(topic_id=topic_id, partitions=[SimpleNamespace()])]
    (found,) = await group_offsets._requested_partitions(call, topics)
    assert (found.topic, asked) == ("t", ["t"] if may else [])
