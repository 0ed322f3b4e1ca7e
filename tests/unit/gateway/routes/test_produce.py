"""The memory of a produce request: counted as long as its records are held, however it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from gateway.app import create_app
from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peers
from gateway.engine.bounds import EngineBounds
from gateway.engine.open_topic import OpenTopic
from gateway.engine.request_sequencer import RequestSequencer
from gateway.engine.topic_appends import PendingBatch, TopicAppends
from gateway.engine_parts import EngineParts, EngineSettings
from gateway.gateway import Gateway
from gateway.log_engine import LogEngine
from gateway.memory_budget import MemoryBudget
from gateway.settings.settings import Settings
from log_format.clock import SystemClock
from log_format.errors import BackOff, ErrorCode
from log_format.stores.memory import MemoryStore
from log_format.topic.producers import ProducerStamp, out_of_order_error
from tests.support.lone_gateway import lone_gateway

VALUE = b"x" * 1000


def made_gateway() -> Gateway:
    store, clock = MemoryStore(), SystemClock()
    engine = LogEngine(
        EngineParts(
            store=store,
            cold_store=store,
            ownership=Ownership("a", Peers(clock), "off"),
            clock=clock,
            registry=CollectorRegistry(),
            request_memory=MemoryBudget(1 << 30, "tests"),
        ),
        EngineSettings(bounds=EngineBounds()),
    )
    return lone_gateway(Settings(store="memory://x", log_level="error"), engine)


def client_of(gateway: Gateway) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=create_app(gateway))
    return httpx.AsyncClient(transport=transport, base_url="http://gateway")


@pytest.mark.parametrize("drains_second", [False, True])
async def test_what_waits_again_is_counted_again(drains_second: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first turn to its last a request's records are within the budget, and afterwards nothing is.

    A commit that finds the request ahead of those before it gives its memory back, and so does a gateway that drains.
    """
    gateway = made_gateway()
    engine = gateway.engine
    used_bytes: list[int] = []

    async def turn(_self: RequestSequencer, _stamp: ProducerStamp, _deadline_ms: int) -> None:
        used_bytes.append(gateway.request_memory.used_bytes)
        if drains_second and len(used_bytes) == 2:
            engine.refuse_work()

    real = TopicAppends.await_acknowledgement

    async def acknowledged(self: TopicAppends, pending: PendingBatch) -> Any:
        if len(used_bytes) > 1:
            return await real(self, pending)
        submitted = pending.at
        assert submitted is not None
        assert submitted.commits.withdraw(submitted)
        submitted.settle(out_of_order_error(ProducerStamp("p", 0, 1), 0))
        await asyncio.sleep(0)
        assert gateway.request_memory.used_bytes == 0
        return pending.settled.result()

    monkeypatch.setattr(RequestSequencer, "wait_for_predecessors", turn)
    monkeypatch.setattr(TopicAppends, "await_acknowledgement", acknowledged)
    async with client_of(gateway) as http:
        await http.post("/v1/topics", json={"name": "t", "config": {"flush.ms": 50}})
        producer = (await http.post("/v1/producers")).json()["producer_id"]
        headers = {
            "content-type": "application/octet-stream",
            "tidelog-producer-id": producer,
            "tidelog-producer-epoch": "0",
            "tidelog-producer-sequence": "0",
        }
        answer = await http.post("/v1/topics/t/records", content=VALUE, headers=headers)
        assert answer.status_code == (503 if drains_second else 200)
    assert len(used_bytes) == 2
    assert min(used_bytes) >= len(VALUE)
    assert gateway.request_memory.used_bytes == 0
    await engine.drain()


async def test_a_request_that_is_refused_gives_its_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that does not wait for its records, where the gateway begins to drain before it takes them."""

    def refused(*_: object) -> None:
        raise BackOff("The gateway is shutting down.", code=ErrorCode.DRAINING)

    gateway = made_gateway()
    async with client_of(gateway) as http:
        await http.post("/v1/topics", json={"name": "t"})
        monkeypatch.setattr(OpenTopic, "submit", refused)
        for acks in ("all", "0"):
            answer = await http.post(
                "/v1/topics/t/records",
                params={"acks": acks},
                content=VALUE,
                headers={"content-type": "application/octet-stream"},
            )
            assert answer.status_code == 503
            assert gateway.request_memory.used_bytes == 0
    await gateway.engine.drain()
