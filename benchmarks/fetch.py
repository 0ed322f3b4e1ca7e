"""Reads over HTTP, from the tail cache and from the store, beside plain pyarrow over the same segments."""

from __future__ import annotations

import contextlib
import itertools
import statistics
import time
import urllib.request
from collections.abc import Iterator
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
TAIL = "tail cache (what fits) and history's reader"
COLD = "history's reader, cold gateway"
ROUNDS = 3
"""Beside another source."""


def _read_all(port: int, accept: str, seconds: float) -> tuple[int, float]:
    """Records read, and seconds: every partition from its start to its end, in turn, again and again for ``seconds``."""
    topic: Any = call(port, "GET", "/v1/topics/bench")
    read = 0
    started = time.perf_counter()
    for entry in itertools.cycle(topic["partitions"]):
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


def measure(store: str, seconds: float, beside: Path | None = None) -> Iterator[Table]:
    """Fill a topic in a directory; read it while it is in memory, then through a newly started gateway.

    ``beside``: gateways of the source there take turns with this one's, each on a topic of its own.
    """
    trees = ([("before", beside)] if beside is not None else []) + [("this tree", None)]
    rounds = ROUNDS if beside is not None else 1
    table = Table(
        "Fetch by one client, 100 B values, directory store",
        [
            "where from",
            "answer",
            *(["source"] if beside is not None else []),
            "records/s",
            *(["least", "most"] if beside is not None else []),
            "CPU us/record (gateway and its reader)",
            "floor records/s (pyarrow over the segments)",
        ],
        notes=[f"{PARTITIONS} partitions, 20,000 records or 8 MiB a request, one request at a time."],
    )
    stores = {name: f"{store}/{name.replace(' ', '-')}" for name, _ in trees}
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    with contextlib.ExitStack() as running:
        servers = {name: running.enter_context(gateway(stores[name], directory=directory)) for name, directory in trees}
        for server in servers.values():
            make_topic(server.port)
            run_load(server.port, arrow_requests(10_000, 100), connections=4, seconds=min(seconds, 2.0))
        for accept, _, name in itertools.product((ARROW, JSON), range(rounds), servers):
            found.setdefault((TAIL, accept, name), []).append(_read_by(servers[name], accept, seconds))
    floor = _floor(Path(stores["this tree"].removeprefix("file://")) / "topics" / "bench" / "segments")
    for accept, _, (name, directory) in itertools.product((ARROW, JSON), range(rounds), trees):
        with gateway(stores[name], directory=directory) as server:
            found.setdefault((COLD, accept, name), []).append(_read_by(server, accept, seconds))
    for (where, accept, name), figures in found.items():
        rates = [rate for rate, _ in figures]
        table.add(
            *(where, accept, *([name] if beside is not None else [])),
            f"{statistics.median(rates):,.0f}",
            *([f"{min(rates):,.0f}", f"{max(rates):,.0f}"] if beside is not None else []),
            f"{statistics.median(cost for _, cost in figures):.2f}",
            f"{floor:,.0f}" if where == COLD else "",
        )
    if beside is not None:
        table.notes.append(f"Medians of {rounds} rounds, which the sources take in turns.")
    yield table


def _read_by(server: Server, accept: str, seconds: float) -> tuple[float, float]:
    """Records a second, and µs of CPU for each."""
    before = _cpu_seconds(server)
    read, took = _read_all(server.port, accept, seconds)
    return read / took, (_cpu_seconds(server) - before) / max(read, 1) * 1e6


def _cpu_seconds(server: Server) -> float:
    gateway = psutil.Process(server.pid)
    times = [each.cpu_times() for each in (gateway, *gateway.children())]
    return sum(each.user + each.system for each in times)


def _floor(segments: Path) -> float:
    pa.set_cpu_count(1)
    started = time.perf_counter()
    rows = sum(pq.read_table(path, use_threads=False).num_rows for path in sorted(segments.glob("*.parquet")))
    return rows / (time.perf_counter() - started)
