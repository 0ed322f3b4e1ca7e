"""Dead letters and what happens between them and the other records of their request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from prometheus_client import CollectorRegistry

from gateway.app import create_app
from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peers
from gateway.engine.bounds import EngineBounds
from gateway.engine_parts import EngineParts, EngineSettings
from gateway.log_engine import LogEngine
from gateway.memory_budget import MemoryBudget
from gateway.settings.settings import Settings
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.errors import StoreUnavailable
from log_format.stores.memory import MemoryStore
from log_format.topic.changes import AlterTopic
from tests.support.lone_gateway import lone_gateway
from tests.support.registry import record
from tests.support.topic_writer import new_id
from tests.support.typed_topic import register_in

RECORDS = {"records": [{"value": {"id": 1}}, {"value": "x"}, {"value": {"id": 2}}]}


class BrokenStore(MemoryStore):
    """Refuses what is put below ``broken``."""

    broken = ""

    def put(self, key: str, data: bytes) -> None:
        self._check(key)
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        self._check(key)
        super().put_if_absent(key, data)

    def _check(self, key: str) -> None:
        if self.broken and key.startswith(self.broken):
            raise StoreUnavailable(key, "the store is away", may_have_happened=False)


class Lettered:
    """A gateway in this process with a topic ``t`` whose wrong records become dead letters."""

    def __init__(self) -> None:
        self.store = BrokenStore()
        register_in(self.store, "t-value", record("Order", id="long"))
        clock = SystemClock()
        self.engine = LogEngine(
            EngineParts(
                store=self.store,
                cold_store=self.store,
                ownership=Ownership("a", Peers(clock), "off"),
                clock=clock,
                registry=CollectorRegistry(),
                request_memory=MemoryBudget(1 << 30, "tests"),
            ),
            EngineSettings(bounds=EngineBounds()),
        )
        self.gateway = lone_gateway(Settings(store="memory://x", log_level="error"), self.engine)
        transport = httpx.ASGITransport(app=create_app(self.gateway))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://gateway", timeout=60)

    async def create(self) -> None:
        """Create the topic."""
        config = {"value.schema": "t-value", "data.on.error": "dead-letter", "flush.ms": 0}
        answer = await self.http.post("/v1/topics", json={"name": "t", "config": config})
        assert answer.status_code == 201, answer.text

    async def produce(self, **headers: str) -> httpx.Response:
        """Send two right records and a wrong one."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return await self.http.post("/v1/topics/t/records", json=RECORDS, headers=named)

    async def numbered(self) -> dict[str, str]:
        """The headers of an idempotent request."""
        made = (await self.http.post("/v1/producers", json={})).json()
        return {
            "Tidelog_Producer_Id": made["producer_id"],
            "Tidelog_Producer_Epoch": str(made["epoch"]),
            "Tidelog_Producer_Sequence": "0",
        }

    async def values(self, topic: str) -> list[Any]:
        """The values of a topic's records."""
        answer = await self.http.get(f"/v1/topics/{topic}/partitions/0/records", params={"offset": 0})
        return [one["value"] for one in answer.json().get("records", [])]


@asynccontextmanager
async def running() -> AsyncIterator[Lettered]:
    """A gateway and its topic."""
    made = Lettered()
    await made.create()
    try:
        yield made
    finally:
        await made.http.aclose()
        await made.engine.drain()


async def test_without_its_letters_nothing_of_a_request_is_stored() -> None:
    """While the topic of dead letters can't be written the request is refused, and a repeat is stored whole."""
    async with running() as lettered:
        lettered.store.broken = "topics/t.dead-letters/"
        stamp = await lettered.numbered()
        assert (await lettered.produce(**stamp)).status_code == 503
        assert await lettered.values("t") == []
        lettered.store.broken = ""
        assert (await lettered.produce(**stamp)).json()["duplicate"] is False
        assert await lettered.values("t") == ['{"id":1}', '{"id":2}']
        assert await lettered.values("t.dead-letters") == ["x"]


async def test_a_request_that_ends_between_its_letters_and_the_rest_loses_none() -> None:
    """The letters are there first: a repeat may put them again, stores the rest once, and a further one puts nothing."""
    async with running() as lettered:
        lettered.store.broken = "topics/t/"
        stamp = await lettered.numbered()
        assert (await lettered.produce(**stamp)).status_code == 503
        assert await lettered.values("t.dead-letters") == ["x"]
        lettered.store.broken = ""
        assert (await lettered.produce(**stamp)).status_code == 200
        again = (await lettered.produce(**stamp)).json()
        assert (again["duplicate"], again["dead_letters"][0]["index"], "offset" in again["dead_letters"][0]) == (
            True,
            1,
            False,
        )
        assert await lettered.values("t") == ['{"id":1}', '{"id":2}']
        assert await lettered.values("t.dead-letters") == ["x", "x"]


async def test_a_request_that_is_routed_twice_puts_its_letters_once() -> None:
    """The topic gets partitions while a request is on its way: the rest is routed again."""
    async with running() as lettered:
        put = lettered.store.put
        raised: list[str] = []

        def grow(key: str, data: bytes) -> None:
            put(key, data)
            if key.startswith("topics/t.dead-letters/segments/") and not raised:
                raised.append(key)
                log = TopicLog(lettered.store, "t", SystemClock())
                log.refresh()
                Committer(log, new_id=new_id).commit(AlterTopic(partition_count=2, config={}))

        lettered.store.put = grow  # type: ignore[method-assign]
        answer = await lettered.produce()
        assert (answer.status_code, len(raised)) == (200, 1), answer.text
        assert sum(one["count"] for one in answer.json()["partitions"]) == 2
        assert [one["offset"] for one in answer.json()["dead_letters"]] == [0]
        assert await lettered.values("t.dead-letters") == ["x"]
