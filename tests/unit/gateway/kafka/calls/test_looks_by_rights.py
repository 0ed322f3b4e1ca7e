"""Without Describe a name costs the store nothing: rights come before looks."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.access.rights import Unauthorized
from gateway.engine.fetch_answer import FetchFrom
from gateway.kafka.calls import metadata, offsets
from log_format.errors import TidelogError, UnknownTopic


class Asked:
    """A caller with Describe on ``mine``, and the names that the store was asked for."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.engine = SimpleNamespace(locating=self, clock=SimpleNamespace(monotonic_ms=lambda: 0))

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
        assert set(await offsets._looked_at(asked, names)) == set(names)
    else:
        topics = [SimpleNamespace(topic=name, partitions=()) for name in names]
        await offsets.offset_for_leader_epoch(asked, SimpleNamespace(topics=topics))
    assert asked.names == ["mine"]
