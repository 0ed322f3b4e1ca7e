"""One worker and two behind one port under the same load: what the second core brings.

Each connection sends to one topic, and the topics are shared evenly by the workers. Clients that know nothing of owners reach
either worker by the port, so half of what they send arrives at a worker that does not own its topic. Clients that know them go
straight to the topic's worker, as the SDK does.

A connection of eight topics keeps to one; one of a thousand goes through all.

The loop is closed, so once a topic's savings are spent ``CONNECTIONS`` requests are answered once in ``flush.ms``: with the
default of 250 ms that is 256,000 records a second, however many cores work. The first load shows what savings change in that.
The others flush after 20 ms, where the cores are the bound, and beside each row stand the cores that the workers kept busy. A
load of so many topics that they go to journals (``commit.mode`` ``auto``) is measured after they went, and says how many did.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from benchmarks.harness.bodies import json_requests
from benchmarks.harness.load import run_load
from benchmarks.harness.options import Options
from benchmarks.harness.pairs import in_turns, sources
from benchmarks.harness.processes import Server, call, gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import directory
from log_format.cluster.preferred import preferred_gateway

RECORDS: Final = 1_000
VALUE_BYTES: Final = 100
CONNECTIONS: Final = 64
WORKERS: Final = 2
ROUNDS: Final = 3
"""One worker and two take turns, and the best of each counts: other programs may use the cores meanwhile."""
FLUSH_MS: Final = 20
BY_THE_PORT: Final = "by the port"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """Topics of which each worker prefers equally many, and their settings."""

    name: str
    topics: int
    config: Mapping[str, object] = field(default_factory=dict)
    warm_up_seconds: float = 1


LOADS: Final = (
    _Load(name="8, default settings", topics=8),
    _Load(name="8, flush.ms 20", topics=8, config={"flush.ms": FLUSH_MS}),
    _Load(name="8, shared, flush.ms 20", topics=8, config={"flush.ms": FLUSH_MS, "commit.mode": "shared"}),
    _Load(name="1,000, flush.ms 20", topics=1_000, config={"flush.ms": FLUSH_MS}, warm_up_seconds=40),
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _Row:
    """One load's figures; the one with more records a second is the greater."""

    per_second: float
    cpu_us: float
    cores: float
    p99_ms: float
    others: int
    at_journals: int


def measure(options: Options) -> Iterator[Table]:
    """Yield one table: each load at one worker and at two."""
    table = Table(
        f"Workers behind one port, directory store, JSON x {RECORDS:,} of {VALUE_BYTES} B, {CONNECTIONS} connections",
        [
            *("topics", "source", "workers", "clients", "records/s", "of one worker"),
            *("CPU us/record (workers)", "their cores", "p99 ms", "other answers", "topics at journals"),
        ],
        notes=[
            f"The best of {ROUNDS} rounds. The load generator shares the cores. With flush.ms 250 it waits for the timer."
        ],
    )
    for load in LOADS:
        turns = {
            (source, count): partial(_turn, tree, count, load, options.seconds)
            for count, (source, tree) in itertools.product((1, WORKERS), sources(options.beside).items())
        }
        found = in_turns(turns, ROUNDS)
        best = {
            (source, count, clients): max(rows[clients] for rows in each)
            for (source, count), each in found.items()
            for clients in each[0]
        }
        for (source, count, clients), row in best.items():
            alone = best[source, 1, BY_THE_PORT].per_second
            table.add(
                *(load.name, source, count, clients, f"{row.per_second:,.0f}", f"{row.per_second / alone:.2f}"),
                *(f"{row.cpu_us:.2f}", f"{row.cores:.2f}", f"{row.p99_ms:.0f}", row.others, row.at_journals),
            )
    yield table


def _turn(tree: Path, count: int, load: _Load, seconds: float) -> dict[str, _Row]:
    settings = ("--workers", str(count), "--log-level", "warning")
    with directory() as store, gateway(store, None, settings, tree) as server:
        return dict(_rows(server, count, load, seconds))


def _rows(server: Server, count: int, load: _Load, seconds: float) -> Iterator[tuple[str, _Row]]:
    """Measure a load by the worker that clients go to."""
    ports = _ports(server, count)
    topics = _topics(list(ports), load.topics)
    for topic in topics:
        make_topic(server.port, topic, config=load.config)
    yield BY_THE_PORT, _row(server, [server.port], topics, load, seconds)
    if count > 1:
        # Connection i sends to topics i, i + CONNECTIONS, …: all of one owner, as the owners take turns.
        owners = [ports[preferred_gateway(topic, ports) or ""] for topic in topics[:count]]
        yield "straight to the topic's worker", _row(server, owners, topics, load, seconds)


def _row(server: Server, ports: Sequence[int], topics: Sequence[str], load: _Load, seconds: float) -> _Row:
    requests = json_requests(RECORDS, VALUE_BYTES, variants=1, topics=topics)
    if len(ports) == 1:
        # A client that knows nothing of owners sends to each topic in no order that has to do with them.
        random.Random(load.topics).shuffle(requests)
    run_load(list(ports), requests, connections=CONNECTIONS, seconds=load.warm_up_seconds)
    before = server.family_cpu_seconds()
    done = run_load(list(ports), requests, connections=CONNECTIONS, seconds=seconds)
    used = server.family_cpu_seconds() - before
    records = max(1, done.answers * RECORDS)
    return _Row(
        per_second=records / done.seconds,
        cpu_us=used / records * 1e6,
        cores=used / done.seconds,
        p99_ms=done.percentile_ms(0.99),
        others=done.others,
        at_journals=_at_journals(server),
    )


def _at_journals(server: Server) -> int:
    return int(call(server.port, "GET", "/v1/cluster")["journals"]["topics"])


def _ports(server: Server, count: int) -> Mapping[str, int]:
    """Return the port of each worker by its id, once the workers know each other."""
    for _ in range(600):
        gateways = call(server.port, "GET", "/v1/cluster")["gateways"]
        if len(gateways) == count:
            return {one["id"]: urlsplit(one["url"]).port or 0 for one in gateways}
        time.sleep(0.1)
    raise RuntimeError(f"{count} workers did not find each other")


def _topics(workers: Sequence[str], count: int) -> list[str]:
    """Return names of which each worker prefers equally many: the first one, the second one, and so on in turn."""
    found: dict[str, list[str]] = {worker: [] for worker in workers}
    for number in itertools.count():
        if all(len(names) >= count // len(workers) for names in found.values()):
            break
        found[preferred_gateway(f"t{number}", workers) or ""].append(f"t{number}")
    return [
        name for turn in itertools.islice(zip(*found.values(), strict=False), count // len(workers)) for name in turn
    ]
