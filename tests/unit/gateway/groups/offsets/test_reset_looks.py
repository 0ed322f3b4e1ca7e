"""What moving a group's offsets asks of the store."""

from __future__ import annotations

import asyncio

import httpx
from prometheus_client import CollectorRegistry

from gateway.app import create_app
from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peers
from gateway.engine.bounds import EngineBounds
from gateway.log_engine import LogEngine
from gateway.memory_budget import MemoryBudget
from gateway.settings import Settings
from log_format.clock import SystemClock
from log_format.stores.memory import MemoryStore
from tests.support.lone_gateway import lone_gateway

OFFSETS = {"offsets": [{"topic": "t", "partition": 0, "offset": 0}]}


class CountedStore(MemoryStore):
    """Remembers what was read of the table of groups."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[str] = []

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        if key.startswith("system/consumer_offsets/_delta_log/"):
            self.looks.append(key)
        return super().get(key, bytes_max=bytes_max)


def test_a_reset_looks_at_the_group_once() -> None:
    """Room for the answer and the reset itself go by one look; no request more than the commit needs."""

    async def scenario() -> None:
        store = CountedStore()
        clock = SystemClock()
        engine = LogEngine(
            store,
            store,
            bounds=EngineBounds(),
            ownership=Ownership("a", Peers(clock), "off"),
            clock=clock,
            registry=CollectorRegistry(),
            request_memory=MemoryBudget(1 << 30, "tests"),
        )
        gateway = lone_gateway(Settings(store="memory://x", log_level="error"), engine)
        await engine.warm_up()
        transport = httpx.ASGITransport(app=create_app(gateway))
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            assert (await http.post("/v1/topics", json={"name": "t"})).status_code == 201
            assert (await http.put("/v1/groups/g/offsets", json=OFFSETS)).status_code == 200
            store.looks.clear()
            answer = await http.post("/v1/groups/g/offsets:reset", json={"topics": ["t"], "to": "latest"})
            assert answer.status_code == 200
        await engine.drain()
        assert len(store.looks) == 1

    asyncio.run(scenario())
