"""One gateway re-creates a topic at a journal while another changes it: the change is for the topic that was there, and ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from log_format.errors import UnknownTopic
from log_format.stores.memory import MemoryStore
from tests.support.engine import make_gateway, values_of
from tests.support.faulty_store import Gate

SHARED: dict[str, Any] = {"commit_mode": "shared", "flush_ms": 5}


async def test_a_delete_that_meets_the_next_topic_spares_it() -> None:
    """Both topics are at the journal under the same number. The delete is refused, and the next topic takes records."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects)
    await one.append(await one.topic("t", **SHARED), [b"old"])
    await other.fetch()
    with Gate(other.store, "put_if_absent", "topics/t/_delta_log/00000000000000000001.json") as gate:
        deleted = asyncio.create_task(other.engine.administration.delete("t"))
        await gate.wait_until_reached()
        await one.engine.administration.delete("t")
        new = await one.topic("t", **SHARED)
        assert new.log.state.attachment is not None
        assert new.log.state.attachment.number == 1
    with pytest.raises(UnknownTopic):
        await deleted
    await one.append(new, [b"new"])
    assert values_of(await one.fetch()) == [b"new"]


async def test_an_alteration_that_meets_the_next_topic_leaves_it_as_it_was_made() -> None:
    """It is refused, and a record that it would forbid is taken."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects)
    await one.append(await one.topic("t", **SHARED), [b"old"])
    await other.fetch()
    with Gate(other.store, "put_if_absent", "topics/t/_delta_log/00000000000000000001.json") as gate:
        altered = asyncio.create_task(other.engine.administration.alter("t", None, {"max.message.bytes": 50}))
        await gate.wait_until_reached()
        await one.engine.administration.delete("t")
        new = await one.topic("t", **SHARED)
    with pytest.raises(UnknownTopic):
        await altered
    await one.append(new, [b"x" * 100])
    assert values_of(await one.fetch()) == [b"x" * 100]
