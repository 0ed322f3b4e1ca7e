"""One gateway re-creates a topic at a journal while another changes it: the change is for the topic that it closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from log_format.errors import RequestRefused, UnknownTopic
from log_format.stores.memory import MemoryStore
from tests.support.engine import make_gateway, values_of
from tests.support.faulty_store import Gate

SHARED: dict[str, Any] = {"commit_mode": "shared", "flush_ms": 5}


async def test_a_delete_that_meets_the_next_topic_closes_that_one_too() -> None:
    """Both topics are at the journal under the same number. What comes after the delete is acknowledged is not appended."""
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
    await deleted
    with pytest.raises(UnknownTopic):
        await one.append(new, [b"late"])


async def test_an_alteration_that_meets_the_next_topic_holds_for_its_records() -> None:
    """A request that is acknowledged behind it obeys it."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects)
    await one.append(await one.topic("t", **SHARED), [b"old"])
    await other.fetch()
    with Gate(other.store, "put_if_absent", "topics/t/_delta_log/00000000000000000001.json") as gate:
        altered = asyncio.create_task(other.engine.administration.alter("t", None, {"max.message.bytes": 50}))
        await gate.wait_until_reached()
        await one.engine.administration.delete("t")
        new = await one.topic("t", **SHARED)
    await altered
    await one.append(new, [b"short"])
    with pytest.raises(RequestRefused):
        await one.append(new, [b"x" * 100])
    assert values_of(await one.fetch()) == [b"short"]
