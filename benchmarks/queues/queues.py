"""Queues: receive and settle in batches, one record at a time, and ten thousand queues that are not called.

Beside each figure is its floor of the same run: a commit of the table as raw PUTs to the same store.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness.bodies import json_requests
from benchmarks.harness.json_calls import Gateway
from benchmarks.harness.load import run_load
from benchmarks.harness.metrics import STORE_REQUESTS, metrics
from benchmarks.harness.options import Options
from benchmarks.harness.pairs import sources
from benchmarks.harness.percentiles import percentile_text
from benchmarks.harness.processes import Server, call, gateway, make_topic
from benchmarks.harness.raw_puts import two_puts_ms
from benchmarks.harness.report import Table
from benchmarks.harness.scenario import Running
from benchmarks.harness.stores import directory
from benchmarks.queues import rabbitmq
from benchmarks.queues.callers import work
from log_format.stores import open_store

BATCH = 100
LOADS = ((100, 64), (100, 128), (1_000, 64))
"""Bytes of a value, callers."""
RABBITMQ_MESSAGES = 60_000
BACKLOG_BYTES = 100_000
"""The size of a request that fills the topic."""
PARTITIONS = 16
BACKLOG_S = 3
SINGLES = 100
SINGLE_PAUSE_S = 0.1
QUEUES = (10, 10_000)
IDLE_S = 20
REST_S = 65
"""After the last queue is made: until a gateway that is alone looks at things as rarely as it does."""
SETTINGS = ("--queues-bytes-max", str(64 * 1024 * 1024), "--tail-cache-bytes-max", str(512 * 1024 * 1024))
"""Room for the backlog of the first figure, so that it measures queues and not old segments."""


def measure(options: Options) -> Iterator[Table]:
    """Yield three tables, each of a gateway on a store of its own. Only batches are measured at another source, too."""
    yield _batches(options.seconds, options.beside, beside_rabbitmq=options.beside_rabbitmq)
    for one in (_singles, _idle):
        with directory() as store, gateway(store, settings=SETTINGS) as server:
            yield one(server, store)


def _batches(seconds: float, beside: Path | None, *, beside_rabbitmq: bool) -> Table:
    table = Table(
        f"A queue in batches of {BATCH}: {PARTITIONS} partitions, each caller receives and accepts in turn",
        [
            *("source", "bytes of a value", "callers", "records/s", "CPU us/record (gateway)"),
            *("records/s of one gateway core", "CPU us/record (clients)", "receive p50 / p99 ms"),
            *("settle p50 / p99 ms", "refused", "floor ms (a commit as raw PUTs)"),
        ],
        notes=["Goals: 50,000 records/s on one worker, settle p99 at most 300 ms."],
    )
    for value_bytes, callers in LOADS:
        for source, tree in sources(beside).items():
            with directory() as store, gateway(store, settings=SETTINGS, directory=tree) as server:
                cells = _batch_row(server, value_bytes, callers, seconds)
                floor_ms = statistics.median(two_puts_ms(open_store(store)))
                table.add(source, *cells, f"{floor_ms:.1f}")
    if beside_rabbitmq:
        table.add(*_rabbitmq_row(seconds))
    return table


def _rabbitmq_row(seconds: float) -> list[str]:
    with rabbitmq.node() as running:
        rabbitmq.fill(running, RABBITMQ_MESSAGES, b"v" * LOADS[0][0])
        before = running.cpu_seconds()
        count, took_s, clients_cpu_s = rabbitmq.work(running, consumers=2, batch=BATCH, seconds=seconds * 2)
        cpu_us = (running.cpu_seconds() - before) / max(1, count) * 1e6
    rate, clients_us = count / max(took_s, 0.01), clients_cpu_s / max(1, count) * 1e6
    measured = [f"{rate:,.0f}", f"{cpu_us:.1f}", f"{1e6 / max(cpu_us, 0.01):,.0f}", f"{clients_us:.1f}"]
    return ["RabbitMQ, quorum queue", str(LOADS[0][0]), "2", *measured, "-", "-", "0", "-"]


def _batch_row(server: Server, value_bytes: int, callers: int, seconds: float) -> list[str]:
    _make(server, "work", PARTITIONS)
    requests = json_requests(BACKLOG_BYTES // value_bytes, value_bytes, topics=["work"])
    run_load(server.port, requests, connections=8, seconds=BACKLOG_S, pause_s=0.0)
    before = server.cpu_seconds()
    found = work(server.port, "work", processes=2, callers=callers, batch=BATCH, seconds=seconds * 2)
    cpu_us = (server.cpu_seconds() - before) / max(1, found.records) * 1e6
    return [
        f"{value_bytes:,}",
        str(callers),
        f"{found.records / found.took_s:,.0f}",
        f"{cpu_us:.1f}",
        f"{1e6 / max(cpu_us, 0.01):,.0f}",
        f"{found.cpu_s / max(1, found.records) * 1e6:.1f}",
        f"{percentile_text(found.receive_ms, 0.5)} / {percentile_text(found.receive_ms, 0.99)}",
        f"{percentile_text(found.settle_ms, 0.5)} / {percentile_text(found.settle_ms, 0.99)}",
        str(found.refused),
    ]


def _singles(server: Server, store: str) -> Table:
    table = Table(
        "A queue one record at a time: one caller, received and accepted",
        ["pause between records", "receive + settle p50 ms", "p99 ms", "floor ms (a commit as raw PUTs)"],
        notes=[
            "Goal: p50 at most 50 ms above one commit. Commits of the table are paced to 16 a second in the long run."
        ],
    )
    floor_ms = statistics.median(two_puts_ms(open_store(store)))
    _make(server, "work", 1)
    for pause_s in (SINGLE_PAUSE_S, 0.0):
        records = [{"value": "x" * 100} for _ in range(SINGLES)]
        call(server.port, "POST", "/v1/topics/work/records", {"records": records})
        took = Running(_single, server.port, pause_s=pause_s).result()["took_ms"]
        table.add(
            f"{pause_s * 1000:.0f} ms", percentile_text(took, 0.5), percentile_text(took, 0.99), f"{floor_ms:.1f}"
        )
    return table


async def _single(_channel: Any, port: int, pause_s: float) -> dict[str, Any]:
    connections = Gateway(port, 1)
    took = []
    for _ in range(SINGLES):
        began = time.perf_counter()
        found = await connections.call("receive", "POST", "/v1/queues/work:receive", {"max_records": 1})
        assert found is not None, "a receive failed"
        (record,) = found["records"]
        settlement = {name: record[name] for name in ("topic", "partition", "lease")} | {"action": "accept"}
        settlement |= {"first_offset": record["offset"], "last_offset": record["offset"]}
        await connections.call("settle", "POST", "/v1/queues/work:settle", {"settlements": [settlement]})
        took.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(pause_s)
    await connections.close()
    return {"took_ms": took}


def _idle(server: Server, _store: str) -> Table:
    table = Table(
        f"Queues that are not called, over {IDLE_S} s",
        ["queues", "CPU seconds", "requests to the store a second", "resident MB, at most"],
        notes=[
            "Goal: no cost. Measured right after the queues' creation: ten minutes later their gateway forgets them."
        ],
    )
    _make(server, "work", 1)
    made = 0
    for count in QUEUES:
        made += Running(_many, server.port, first=made, end=count).result()["made"]
        assert made == count, f"{made} of {count} queues were made"
        time.sleep(REST_S)
        cpu_s, requests = server.cpu_seconds(), metrics(server.port).total(STORE_REQUESTS)
        time.sleep(IDLE_S)
        spent_s = server.cpu_seconds() - cpu_s
        requests = metrics(server.port).total(STORE_REQUESTS) - requests
        table.add(f"{count:,}", f"{spent_s:.2f}", f"{requests / IDLE_S:.2f}", f"{server.rss_peak_bytes() / 1e6:.0f}")
    return table


async def _many(_channel: Any, port: int, first: int, end: int) -> dict[str, Any]:
    connections = Gateway(port, 64)
    names = iter(range(first, end))
    made = 0

    async def make() -> None:
        nonlocal made
        for number in names:
            body = {"topics": ["work"], "start": "earliest"}
            if await connections.call("put", "PUT", f"/v1/queues/idle-{number}", body) is not None:
                made += 1

    await asyncio.gather(*(make() for _ in range(64)))
    await connections.close()
    return {"made": made}


def _make(server: Server, topic: str, partitions: int) -> None:
    make_topic(server.port, topic, partitions, config={"flush.ms": 20})
    call(server.port, "PUT", f"/v1/queues/{topic}", {"topics": [topic], "start": "earliest", "max_in_flight": 100_000})
