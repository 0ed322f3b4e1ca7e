"""A dead letter is the record that was given up, whatever has its place meanwhile."""

from __future__ import annotations

from typing import Any

import httpx

from gateway.app import create_app
from gateway.settings.settings import Settings
from tests.support.engine import Gateway, values_of
from tests.support.lone_gateway import lone_gateway

QUEUE = {"topics": ["t"], "start": "earliest", "dead_letter_topic": "dead"}


class Remade:
    """The topics of a gateway. ``t`` is deleted, and made anew with a record, when the dead letter topic is first looked at."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._topics = gateway.engine.topics
        self._is_remade = False

    async def fresh(self, name: str, arrival_ms: int) -> Any:
        if name == "dead" and not self._is_remade:
            self._is_remade = True
            await self._gateway.engine.administration.delete("t")
            await self._gateway.append(await self._gateway.topic("t", flush_ms=0), [b"new"])
        return await self._topics.fresh(name, arrival_ms)


async def test_no_record_of_a_topic_that_was_made_anew_becomes_a_dead_letter(gateway: Gateway) -> None:
    """It has the offset of one that was rejected in the former topic."""
    engine = gateway.engine
    await gateway.append(await gateway.topic("t", flush_ms=0), [b"old"])
    await gateway.topic("dead", flush_ms=0)
    dead_letters = engine.queues.upkeep._dead_letters
    dead_letters._topics = Remade(gateway)  # type: ignore[assignment]
    app = create_app(lone_gateway(Settings(store="memory://x", log_level="error"), engine))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://gateway") as http:
        assert (await http.put("/v1/queues/q", json=QUEUE)).status_code == 201
        (record,) = (await http.post("/v1/queues/q:receive", json={})).json()["records"]
        settled = {name: record[name] for name in ("topic", "partition", "offset", "lease")} | {"action": "reject"}
        answer = await http.post("/v1/queues/q:settle", json={"settlements": [settled]})
        assert answer.json()["results"][0]["settled"], answer.text
    while await dead_letters.move(await engine.queues.coordinator.live("q")):
        pass
    assert b"new" not in values_of(await gateway.fetch(topic="dead"))
