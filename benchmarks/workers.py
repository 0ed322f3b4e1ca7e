"""One worker and two behind one port under the same load: what the second core brings.

Each connection sends to one topic, and the topics are shared evenly by the workers. Clients that know nothing of owners reach
either worker by the port, so half of what they send is passed on. Clients that know them go straight to the topic's worker, as
the SDK does.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import psutil

from benchmarks import processes
from benchmarks.bodies import json_requests
from benchmarks.load import run_load
from benchmarks.processes import Server, call
from benchmarks.produce import make_topic
from benchmarks.report import Table
from log_format.cluster.preferred import preferred

RECORDS: Final = 1_000
VALUE_BYTES: Final = 100
CONNECTIONS: Final = 64
WORKERS: Final = 2
TOPICS: Final = 8
"""Of which each of two workers prefers four."""
ROUNDS: Final = 3
"""One worker and two take turns, and the best of each counts: other programs may use the cores meanwhile."""


def measure(seconds: float) -> Iterator[Table]:
    """One table."""
    table = Table(
        f"Workers behind one port, directory store, JSON x {RECORDS:,} of {VALUE_BYTES} B, {CONNECTIONS} connections",
        ["workers", "clients", "records/s", "of one worker", "CPU us/record (workers)", "p99 ms", "other answers"],
        notes=[
            f"{TOPICS} topics, the best of {ROUNDS} rounds. The load generator shares this machine's cores with the workers."
        ],
    )
    best: dict[tuple[int, str], list[float]] = {}
    for _ in range(ROUNDS):
        for count in (1, WORKERS):
            with processes.directory() as store, processes.gateway(store, settings=("--workers", str(count))) as server:
                for clients, row in _rows(server, count, seconds).items():
                    best[count, clients] = max(best.get((count, clients), row), row)
    alone = max(row[0] for (count, _), row in best.items() if count == 1)
    for (count, clients), (rate, cpu_us, p99_ms, others) in best.items():
        table.add(
            count, clients, f"{rate:,.0f}", f"{rate / alone:.2f}", f"{cpu_us:.2f}", f"{p99_ms:.0f}", f"{others:.0f}"
        )
    yield table


def _rows(server: Server, count: int, seconds: float) -> dict[str, list[float]]:
    """By which worker clients go to."""
    ports = _ports(server, count)
    topics = _topics(list(ports))
    for topic in topics:
        make_topic(server.port, topic)
    rows = {"by the port": _row(server, [server.port], topics, seconds)}
    if count > 1:
        owners = [ports[preferred(topic, ports) or ""] for topic in topics]
        rows["straight to the topic's worker"] = _row(server, owners, topics, seconds)
    return rows


def _row(server: Server, ports: Sequence[int], topics: Sequence[str], seconds: float) -> list[float]:
    """Records a second, CPU for each, the answers' 99th percentile, answers other than 200."""
    requests = json_requests(RECORDS, VALUE_BYTES, variants=1, topics=topics)
    before = _cpu_seconds(server)
    done = run_load(list(ports), requests, connections=CONNECTIONS, seconds=seconds)
    records = max(1, done.answers * RECORDS)
    others = sum(count for status, count in done.statuses.items() if status != 200)
    return [
        records / done.seconds,
        (_cpu_seconds(server) - before) / records * 1e6,
        done.percentile_ms(0.99),
        others,
    ]


def _ports(server: Server, count: int) -> Mapping[str, int]:
    """Of each worker by its id, once the workers know each other."""
    for _ in range(600):
        gateways = call(server.port, "GET", "/v1/cluster")["gateways"]
        assert isinstance(gateways, list)
        if len(gateways) == count:
            return {one["id"]: urlsplit(one["url"]).port or 0 for one in gateways}
        time.sleep(0.1)
    raise RuntimeError(f"{count} workers did not find each other")


def _topics(workers: Sequence[str]) -> list[str]:
    """Names of which each worker prefers equally many."""
    left = dict.fromkeys(workers, TOPICS // len(workers))
    found = []
    for number in itertools.count():
        owner = preferred(f"t{number}", workers) or ""
        if left[owner]:
            left[owner] -= 1
            found.append(f"t{number}")
        if not any(left.values()):
            return found
    raise AssertionError


def _cpu_seconds(server: Server) -> float:
    """Of the workers and their supervisor."""
    parent = psutil.Process(server.pid)
    times = [each.cpu_times() for each in (parent, *parent.children(recursive=True))]
    return sum(each.user + each.system for each in times)
