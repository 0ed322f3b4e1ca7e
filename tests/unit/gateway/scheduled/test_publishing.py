"""Delayed records are of the topic that they wait for, whatever has its name when they are due."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pyarrow as pa
import pytest

from gateway.app import create_app
from gateway.settings.settings import Settings
from tests.support.engine import Gateway, values_of
from tests.support.lone_gateway import lone_gateway


async def test_a_topic_that_is_made_anew_in_the_moment_gets_nothing(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is deleted and made anew when the records have just been read, and nothing of the old one is cleared away yet."""
    engine = gateway.engine
    publishing = engine.delayed.publishing
    read, tended, ended = publishing._run_blocking, publishing._tend, asyncio.Event()
    is_remade = False

    async def read_and_then_made_anew(works: Any) -> Any:
        nonlocal is_remade
        found = await read(works)
        if not is_remade and any(isinstance(one, pa.Table) for one in found):
            is_remade = True
            await engine.administration.delete("t")
            await gateway.append(await gateway.topic("t", flush_ms=0), [b"new"])
        return found

    async def tend(*arguments: Any) -> None:
        try:
            await tended(*arguments)
        finally:
            if is_remade:
                ended.set()

    monkeypatch.setattr(publishing, "_run_blocking", read_and_then_made_anew)
    monkeypatch.setattr(publishing, "_tend", tend)
    await gateway.topic("t", flush_ms=0)
    app = create_app(lone_gateway(Settings(store="memory://x", log_level="error"), engine))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://gateway") as http:
        late = {"records": [{"value": "old", "deliver_after_ms": 50}]}
        assert len((await http.post("/v1/topics/t/records", json=late)).json()["scheduled"]) == 1
    publishing.start()
    await asyncio.wait_for(ended.wait(), 30)
    await publishing.stop()
    assert is_remade
    assert values_of(await gateway.fetch()) == [b"new"]
