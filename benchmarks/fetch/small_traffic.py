"""The small traffic beside readers of history, by one process: producing, a reader at the tail, heartbeats of a group's member.

Each request is due at a time that is fixed before. Latencies count from then, in ms; a tail's from sending to a waiting fetch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import uvloop

from benchmarks.groups.members import Member
from benchmarks.harness.json_calls import Gateway
from benchmarks.harness.scenario import Standing

PAUSE_S: Final = 0.02
"""Between two small requests of a kind."""
KINDS: Final = ("produce", "tail", "heartbeat")
TOPIC: Final = "live"

Latencies = Mapping[str, list[float]]
"""Milliseconds by kind."""


@dataclass(frozen=True)
class Span:
    """What is due in ``[counted_from, until)`` counts. The system's monotonic clock, which all processes share, in seconds."""

    begin: float
    counted_from: float
    until: float


def small_traffic(port: int) -> Standing:
    """Start the process of clients at a gateway that has ``TOPIC``; it takes spans, and gives ``Latencies``."""
    return Standing(_in_span, port)


def _in_span(port: int, span: Span) -> Latencies:
    return uvloop.run(_traffic(port, span))


async def _traffic(port: int, span: Span) -> Latencies:
    gateway, tail = Gateway(port, 32), Gateway(port, 1)
    member = Member(gateway, "watchers", TOPIC)
    await member.join()
    while not await member.beat():
        pass
    path = f"/v1/topics/{TOPIC}/partitions/0/records"
    first = await gateway.call("look", "GET", f"{path}?offset=latest")
    assert first is not None
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}

    async def follow() -> None:
        offset = first["next_offset"]
        while time.monotonic() < span.until:
            answer = await tail.call("tail", "GET", f"{path}?offset={offset}&max_wait_ms=1000")
            if answer is not None and answer["records"]:
                offset = answer["next_offset"]
                arrived = time.monotonic()
                sent = [float(record["value"]) for record in answer["records"]]
                found["tail"].extend((arrived - due) * 1000 for due in sent if span.counted_from <= due < span.until)

    async def paced(kind: str, act: Callable[[float], Any]) -> None:
        async def one(due: float) -> None:
            await act(due)
            if due >= span.counted_from:
                found[kind].append((time.monotonic() - due) * 1000)

        due = span.begin
        pending: set[asyncio.Task[Any]] = set()
        while due < span.until:
            await asyncio.sleep(due - time.monotonic())
            pending.add(asyncio.create_task(one(due)))
            due += PAUSE_S
        await asyncio.gather(*pending)

    async def produce(due: float) -> None:
        body = {"records": [{"value": repr(due)} for _ in range(10)]}
        answer = await gateway.call("produce", "POST", path, body)
        assert answer is not None

    await asyncio.gather(follow(), paced("produce", produce), paced("heartbeat", lambda _: member.beat()))
    await member.leave()
    for connections in (gateway, tail):
        await connections.close()
    return found
