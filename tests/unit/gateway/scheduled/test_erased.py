"""What a request to erase means is not published from delayed records that were there before it, whatever was under way."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from compaction.job import Job
from compaction.workers import LocalWorkers
from gateway.app import create_app
from gateway.settings.settings import Settings
from log_format.clock import SystemClock
from log_format.inspection.erased import verify_erased
from log_format.layout import scheduled_root
from log_format.records.condition import Condition, parse_condition
from log_format.scheduled.publication import publication_batch
from log_format.scheduled.scheduled_object import open_object
from tests.support.collected_events import CollectedEvents
from tests.support.engine import Gateway, make_gateway, values_of
from tests.support.lone_gateway import lone_gateway
from tests.support.registry import record
from tests.support.typed_topic import register_in

SUBJECT = "t-value"


@asynccontextmanager
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(lone_gateway(Settings(store="memory://x", log_level="error"), gateway.engine))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://gateway") as http:
        yield http


KINDS = pytest.mark.parametrize("is_typed", [False, True], ids=["by key", "by columns"])


async def make_topic(gateway: Gateway, **config: Any) -> None:
    """Topic ``t``, whose values are JSON documents by a schema if ``value_schema`` is given."""
    if "value_schema" in config:
        register_in(gateway.store, SUBJECT, record("Person", who="string"))
    await gateway.topic("t", flush_ms=0, **config)


async def ask(gateway: Gateway, *, is_typed: bool) -> None:
    """Ask to erase what is anna's, by the key or by a condition."""
    where = parse_condition("data.who = 'anna'") if is_typed else None
    await gateway.engine.erasures.request("t", [] if is_typed else [b"anna"], [], None, where=where)


async def delay(http: httpx.AsyncClient, after_ms: int, *keys: str) -> list[str]:
    """Send a delayed record for each key; return their ids."""
    records = [{"key": key, "value": {"who": key}, "deliver_after_ms": after_ms} for key in keys]
    answer = (await http.post("/v1/topics/t/records", json={"records": records})).json()
    return [one["id"] for one in answer["scheduled"]]


@KINDS
@pytest.mark.parametrize("mode", ["own", "shared"])
async def test_a_request_in_the_moment_of_the_publication(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, mode: str, *, is_typed: bool
) -> None:
    """The batch is made, and then the request is recorded: the batch is refused and made anew, without what the request means."""
    publishing = gateway.engine.delayed.publishing
    run, is_asked = publishing._pool.run, False

    async def run_and_then_ask(work: Any, *arguments: Any) -> Any:
        nonlocal is_asked
        made = await run(work, *arguments)
        if getattr(work, "func", None) is publication_batch and not is_asked:
            is_asked = True
            await ask(gateway, is_typed=is_typed)
        return made

    monkeypatch.setattr(publishing._pool, "run", run_and_then_ask)
    await make_topic(gateway, commit_mode=mode, **({"value_schema": SUBJECT} if is_typed else {}))
    async with client(gateway) as http:
        await delay(http, 50, "anna", "bo")
    publishing.start()
    for _ in range(600):
        if found := values_of(await gateway.fetch()):
            break
        await asyncio.sleep(0.05)
    await publishing.stop()
    assert is_asked
    assert [json.loads(value or b"null") for value in found] == [{"who": "bo"}]


@KINDS
async def test_maintenance_cancels_what_waits(gateway: Gateway, *, is_typed: bool) -> None:
    """It is no longer there to be found, and the proof reads the objects; what comes after the request waits on."""
    await make_topic(gateway, **({"value_schema": SUBJECT} if is_typed else {}))
    named: bytes | Condition = parse_condition("data.who = 'anna'") if is_typed else b"anna"
    objects = gateway.store.objects
    async with client(gateway) as http:
        mine, other = await delay(http, 3_600_000, "anna", "bo")
        await ask(gateway, is_typed=is_typed)
        (later,) = await delay(http, 3_600_000, "anna")
        report = await asyncio.to_thread(verify_erased, objects, "t", named)
        assert [(one.record_count, "/scheduled/" in one.key) for one in report.left] == [(1, True)]
        job = Job(
            store=objects,
            workers=LocalWorkers(objects),
            clock=SystemClock(),
            report=CollectedEvents(),
            new_id=lambda: uuid.uuid4().hex,
        )
        assert not (await asyncio.to_thread(lambda: job.run_round(collect=True))).failed_topics
        codes = [(await http.get(f"/v1/topics/t/scheduled/{one}")).status_code for one in (mine, other, later)]
        assert codes == [404, 200, 200]
        assert (await asyncio.to_thread(verify_erased, objects, "t", named)).ok


async def test_another_gateway_has_not_seen_the_request(gateway: Gateway) -> None:
    """What it stores after the answer came later, though it knew the topic as it was before; what it stored before is meant."""
    await make_topic(gateway)
    objects = gateway.store.objects
    other = make_gateway(objects=objects)
    async with client(other) as http:
        (before,) = await delay(http, 3_600_000, "anna")
        await ask(gateway, is_typed=False)
        (after,) = await delay(http, 3_600_000, "anna")
    state = (await gateway.engine.open_topic("t")).state
    (erasure,) = state.erasures
    found = [
        open_object(objects, f"{scheduled_root('t', state.existing_id)}objects/{one.rpartition('-')[0]}")
        for one in (before, after)
    ]
    assert erasure.version is not None
    known = [None if one is None else one.index.known_version for one in found]
    assert known == [erasure.version - 1, erasure.version]
    await other.engine.drain()
