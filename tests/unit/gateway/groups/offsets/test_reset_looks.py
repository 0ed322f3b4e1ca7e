"""What moving a group's offsets asks of the store, and for which topic it is."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from gateway.app import create_app
from gateway.groups.offsets.committed import NextOffset
from gateway.groups.offsets.reset import ResetTo
from gateway.settings.settings import Settings
from tests.support.engine import Gateway, make_gateway
from tests.support.faulty_store import FaultyStore
from tests.support.lone_gateway import lone_gateway

OFFSETS = {"offsets": [{"topic": "t", "partition": 0, "offset": 0}]}


async def test_a_reset_looks_at_the_group_once() -> None:
    """Room for the answer and the reset itself go by one look; no request more than the commit needs."""
    store = FaultyStore()
    engine = make_gateway(store).engine
    gateway = lone_gateway(Settings(store="memory://x", log_level="error"), engine)
    await engine.warm_up()
    transport = httpx.ASGITransport(app=create_app(gateway))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        assert (await http.post("/v1/topics", json={"name": "t"})).status_code == 201
        assert (await http.put("/v1/groups/g/offsets", json=OFFSETS)).status_code == 200
        store.requests.clear()
        answer = await http.post("/v1/groups/g/offsets:reset", json={"topics": ["t"], "to": "latest"})
        assert answer.status_code == 200
    await engine.drain()
    log = "system/consumer_offsets/_delta_log/"
    assert sum(operation == "get" and key.startswith(log) for operation, key in store.requests) == 1


async def test_a_reset_of_a_topic_that_is_made_anew_meanwhile_moves_nothing(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end that it was to go to was the old topic's: the first records of the new one are not skipped."""
    await gateway.append(await gateway.topic(flush_ms=0), [b"old 0", b"old 1"])
    groups = gateway.engine.groups
    await groups.committed.commit("g", [NextOffset(topic="t", partition=0, offset=1)], None, None)
    commit = groups.committed.commit

    async def made_anew_before(*arguments: Any) -> Any:
        await gateway.engine.administration.delete("t")
        await gateway.append(await gateway.topic(flush_ms=0), [b"new 0", b"new 1"])
        return await commit(*arguments)

    monkeypatch.setattr(groups.committed, "commit", made_anew_before)
    group = await groups.committed.group("g")
    await groups.reset.move(group, "g", ["t"], None, ResetTo(word="latest"))
    assert await groups.committed.offsets("g") == []
