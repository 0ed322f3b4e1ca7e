"""Reads over HTTP, from the tail cache and from the store, beside plain pyarrow over the same segments."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bodies import arrow_requests
from benchmarks.load import run_load
from benchmarks.processes import Server, call, gateway
from benchmarks.produce import PARTITIONS, make_topic
from benchmarks.report import Table

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"


def _read_all(port: int, accept: str, seconds: float) -> tuple[int, float]:
    """Records read, and seconds: every partition from its start to its end, in turn, again and again for ``seconds``."""
    topic: Any = call(port, "GET", "/v1/topics/bench")
    read = 0
    started = time.perf_counter()
    for entry in cycle(topic["partitions"]):
        if time.perf_counter() - started >= seconds:
            break
        offset, end = entry["log_start_offset"], entry["high_watermark"]
        while offset < end and time.perf_counter() - started < seconds:
            url = f"http://127.0.0.1:{port}/v1/topics/bench/partitions/{entry['partition']}/records"
            url += f"?offset={offset}&max_records=20000&max_bytes=8388608"
            with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=60) as answer:
                answer.read()
                following = int(answer.headers["Tidelog-Next-Offset"])
            read += following - offset
            offset = following
    return read, time.perf_counter() - started


def measure(store: str, seconds: float) -> Iterator[Table]:
    """Fill a topic in a directory; read it while it is in memory, then through a newly started gateway."""
    table = Table(
        "Fetch by one client, 100 B values, directory store",
        [
            "where from",
            "answer",
            "records/s",
            "CPU us/record (gateway and its reader)",
            "floor records/s (pyarrow over the segments)",
        ],
    )
    with gateway(store) as server:
        make_topic(server.port)
        run_load(server.port, arrow_requests(10_000, 100), connections=4, seconds=min(seconds, 2.0))
        for accept in (ARROW, JSON):
            _row(table, server, "tail cache (what fits) and history's reader", accept, seconds, "")
    floor_rate = _floor(Path(store.removeprefix("file://")) / "topics" / "bench" / "segments")
    for accept in (ARROW, JSON):
        with gateway(store) as server:
            _row(table, server, "history's reader, cold gateway", accept, seconds, f"{floor_rate:,.0f}")
    table.notes.append(f"{PARTITIONS} partitions, 20,000 records or 8 MiB a request, one request at a time.")
    yield table


def _row(table: Table, server: Server, where: str, accept: str, seconds: float, floor: str) -> None:
    before = _cpu_seconds(server)
    read, took = _read_all(server.port, accept, seconds)
    cpu = _cpu_seconds(server) - before
    table.add(where, accept, f"{read / took:,.0f}", f"{cpu / max(read, 1) * 1e6:.2f}", floor)


def _cpu_seconds(server: Server) -> float:
    gateway = psutil.Process(server.pid)
    times = [each.cpu_times() for each in (gateway, *gateway.children())]
    return sum(each.user + each.system for each in times)


def _floor(segments: Path) -> float:
    pa.set_cpu_count(1)
    started = time.perf_counter()
    rows = sum(pq.read_table(path, use_threads=False).num_rows for path in sorted(segments.glob("*.parquet")))
    return rows / (time.perf_counter() - started)
