"""Reads over HTTP, from the tail cache and from the store, beside plain pyarrow over the same segments.

``--beside DIRECTORY``: gateways of the source there take turns with this one's, each on a topic of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.bodies import ARROW, arrow_requests
from benchmarks.harness.load import run_load
from benchmarks.harness.options import Options
from benchmarks.harness.pairs import THIS, Spread, gateways, in_turns, sources, store_of
from benchmarks.harness.processes import PARTITIONS, Server, call, gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import Store, store

JSON = "application/json"
TAIL = "tail cache (what fits) and history's reader"
COLD = "history's reader, cold gateway"
ROUNDS = 3
"""Beside another source."""


def measure(options: Options) -> Iterator[Table]:
    """Fill a topic in a directory; read it while it is in memory, then through a newly started gateway."""
    with store("directory") as place:
        yield _measured(place, options.seconds * 2, options.beside)


def _measured(place: Store, seconds: float, beside: Path | None) -> Table:
    is_pair = beside is not None
    rounds = ROUNDS if is_pair else 1
    table = Table(
        "Fetch by one client, 100 B values, directory store",
        [
            *(
                "where from",
                "answer",
                *(["source"] if is_pair else []),
                "records/s",
                *(["least", "most"] if is_pair else []),
            ),
            *("CPU us/record (gateway and its reader)", "floor records/s (pyarrow over the segments)"),
        ],
        notes=[f"{PARTITIONS} partitions, 20,000 records or 8 MiB a request, one request at a time."],
    )
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    with contextlib.ExitStack() as running:
        servers = gateways(running, place, beside)
        for server in servers.values():
            make_topic(server.port)
            run_load(server.port, arrow_requests(10_000, 100), connections=4, seconds=min(seconds, 2.0))
        for accept in (ARROW, JSON):
            warm = {
                (TAIL, accept, name): partial(_read_by, server, accept, seconds) for name, server in servers.items()
            }
            found |= in_turns(warm, rounds)
    floor = _floor(Path(store_of(place, THIS).removeprefix("file://")) / "topics" / "bench" / "segments")
    for accept in (ARROW, JSON):
        cold = {
            (COLD, accept, name): partial(_read_cold, store_of(place, name), tree, accept, seconds)
            for name, tree in sources(beside).items()
        }
        found |= in_turns(cold, rounds)
    for (where, accept, name), figures in found.items():
        least, middle, most = Spread([rate for rate, _ in figures]).cells(0)
        table.add(
            *(where, accept, *([name] if is_pair else []), middle, *([least, most] if is_pair else [])),
            f"{statistics.median(cost for _, cost in figures):.2f}",
            f"{floor:,.0f}" if where == COLD else "",
        )
    if is_pair:
        table.notes.append(f"Medians of {rounds} alternating rounds of the sources.")
    return table


def _read_cold(uri: str, tree: Path, accept: str, seconds: float) -> tuple[float, float]:
    with gateway(uri, directory=tree) as server:
        return _read_by(server, accept, seconds)


def _read_by(server: Server, accept: str, seconds: float) -> tuple[float, float]:
    """Measure records a second, and µs of CPU for each, of the gateway and its readers of history."""
    before = server.family_cpu_seconds()
    read, took = _read_all(server.port, accept, seconds)
    return read / took, (server.family_cpu_seconds() - before) / max(read, 1) * 1e6


def _read_all(port: int, accept: str, seconds: float) -> tuple[int, float]:
    """Read every partition from its start to its end, again and again for ``seconds``; return records, and seconds."""
    topic = call(port, "GET", "/v1/topics/bench")
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


def _floor(segments: Path) -> float:
    pa.set_cpu_count(1)
    started = time.perf_counter()
    rows = sum(pq.read_table(path, use_threads=False).num_rows for path in sorted(segments.glob("*.parquet")))
    return rows / (time.perf_counter() - started)
