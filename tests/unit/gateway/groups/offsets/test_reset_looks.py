"""What moving a group's offsets asks of the store."""

from __future__ import annotations

import httpx

from gateway.app import create_app
from gateway.settings import Settings
from tests.support.engine import make_gateway
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
