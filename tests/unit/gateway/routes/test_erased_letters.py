"""A request to erase reaches the topic's dead letters in other topics: by a request there, about letters of this topic only."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from compaction.job import Job
from compaction.workers import LocalWorkers
from gateway.app import create_app
from gateway.settings.settings import Settings
from log_format.clock import SystemClock
from log_format.inspection.erased import verify_erased
from log_format.records.condition import parse_condition
from tests.support.collected_events import CollectedEvents
from tests.support.engine import Gateway, values_of
from tests.support.lone_gateway import lone_gateway
from tests.support.registry import record
from tests.support.typed_topic import register_in

MARKED = {"data.on.error": "mark"}


async def letter(http: httpx.AsyncClient, topic: str, header: str, source: str) -> None:
    """Put what a letter of ``anna``'s looks like."""
    record = {"key": "anna", "value": f"{topic} of {source}", "headers": {header: source}}
    answer = await http.post(f"/v1/topics/{topic}/records", json={"records": [record]})
    assert answer.status_code == 200, answer.text


async def values(gateway: Gateway, topic: str) -> list[Any]:
    return values_of(await gateway.fetch(topic=topic))


async def maintain(gateway: Gateway) -> None:
    """One round of maintenance, without deletions."""
    objects = gateway.store.objects
    job = Job(
        store=objects,
        workers=LocalWorkers(objects),
        clock=SystemClock(),
        report=CollectedEvents(),
        new_id=lambda: uuid.uuid4().hex,
    )
    assert not (await asyncio.to_thread(lambda: job.run_round(collect=False))).failed_topics


@asynccontextmanager
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway with the topic ``t``, its letters of both kinds, and those of others."""
    for name in ("t", "t.dead-letters", "dead", "other.dead-letters"):
        await gateway.topic(name, flush_ms=0)
    app = create_app(lone_gateway(Settings(store="memory://x", log_level="error"), gateway.engine))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://gateway") as made:
        queue = {"topics": ["t"], "dead_letter_topic": "dead"}
        assert (await made.put("/v1/queues/q", json=queue)).status_code in {200, 201}
        await letter(made, "t.dead-letters", "tidelog.topic", "t")
        await letter(made, "dead", "tidelog-dlq-topic", "t")
        await letter(made, "dead", "tidelog-dlq-topic", "u")
        await letter(made, "other.dead-letters", "tidelog.topic", "other")
        yield made


async def test_letters_of_this_topic_and_no_others(gateway: Gateway) -> None:
    """Each kind in its topic, by a request of its own that the answer names."""
    async with client(gateway) as http:
        asked = await http.post("/v1/topics/t/erasures", json={"keys": ["anna"]})
        assert asked.status_code == 202, asked.text
        made = {one["topic"]: one["erasure_id"] for one in asked.json()["dead_letters"]}
        assert set(made) == {"dead", "t.dead-letters"}
        for topic, erasure_id in made.items():
            assert (await http.get(f"/v1/topics/{topic}/erasures/{erasure_id}")).json()["status"] == "requested"
    await maintain(gateway)
    assert await values(gateway, "t.dead-letters") == [None]
    assert await values(gateway, "dead") == [None, b"dead of u"]
    assert await values(gateway, "other.dead-letters") == [b"other.dead-letters of other"]


async def test_a_refused_request_asks_for_nothing(gateway: Gateway) -> None:
    """Nothing named, or no such topic: no topic of letters has a request."""
    async with client(gateway) as http:
        assert (await http.post("/v1/topics/t/erasures", json={})).status_code == 400
        assert (await http.post("/v1/topics/other/erasures", json={"keys": ["anna"]})).status_code == 404
        for topic in ("dead", "t.dead-letters", "other.dead-letters"):
            assert (await http.get(f"/v1/topics/{topic}/erasures")).json() == {"erasures": []}


async def test_letters_by_a_condition(gateway: Gateway) -> None:
    """The schemas are those of the topic that they came from, whatever schemas the topic of letters has; where a condition is
    refused, nothing is asked for."""
    register_in(gateway.store, "people", record("Person", who="string"))
    register_in(gateway.store, "letters", record("Letter", note="string"))
    async with client(gateway) as http:
        for name, config in (("t", {"value.schema": "people"}), ("dead", {"value.schema": "letters", **MARKED})):
            assert (await http.patch(f"/v1/topics/{name}", json={"config": config})).status_code == 200
        for who, source in (("anna", "t"), ("bo", "t"), ("anna", "u")):
            headers = {"tidelog-dlq-topic": source}
            sent = {"records": [{"value": {"who": who}, "headers": headers}]}
            assert (await http.post("/v1/topics/dead/records", json=sent)).status_code == 200
        refused = await http.post("/v1/topics/t/erasures", json={"where": "data.nobody = 'anna'"})
        assert (refused.status_code, (await http.get("/v1/topics/dead/erasures")).json()) == (400, {"erasures": []})
        asked = await http.post("/v1/topics/t/erasures", json={"where": "data.who = 'anna'"})
        assert {one["topic"] for one in asked.json()["dead_letters"]} == {"dead", "t.dead-letters"}
    await maintain(gateway)
    of_t, of_u, *others = await values(gateway, "dead")
    assert (of_t, of_u) == (b"dead of t", b"dead of u")
    assert [json.loads(value or b"null") for value in others] == [None, {"who": "bo"}, {"who": "anna"}]
    report = await asyncio.to_thread(verify_erased, gateway.store.objects, "dead", parse_condition("data.who = 'anna'"))
    assert [(one.record_count, "/segments/" in one.key) for one in report.left] == [(1, True)], "until it is deleted"
