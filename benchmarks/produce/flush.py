"""The price of one small own flush: CPU of the gateway for one request of one record, one segment and one commit of its topic.

Each topic has one connection, which waits for its acknowledgement, so every request is a flush of its own. The gateway is far
from busy: contention of its threads is no part of the price. The price is the CPU of the gateway's process alone.

``--beside DIRECTORY`` measures another tree of the source in the same run, turn by turn.
"""

from __future__ import annotations

import contextlib
import statistics
import urllib.error
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.harness.bodies import json_requests
from benchmarks.harness.load import request, run_load
from benchmarks.harness.options import Options
from benchmarks.harness.pairs import Spread, gateways, in_turns, ratio
from benchmarks.harness.percentiles import percentile_text
from benchmarks.harness.processes import Server, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import Store, each

TOPICS = 40
PAUSE_S = 0.35
"""About 100 flushes a second."""
FLUSH_MS = 50
ROUNDS = 8


def measure(options: Options) -> Iterator[Table]:
    """Yield one table for each store."""
    for place in each(options.store):
        yield _measured(place, options.seconds, options.beside)


def _measured(place: Store, seconds: float, beside: Path | None) -> Table:
    table = Table(
        f"One small own flush, {place.label}",
        [
            *("source", "flushes", "CPU us/flush", "least", "most", "of the first row"),
            *("a request without records", "p50 ms", "p99 ms"),
        ],
        notes=[
            f"Medians of {ROUNDS} rounds, which the sources take in turns; of the first row: of the ratios of each round.",
            f"About 100 flushes a second over {TOPICS} topics, where the machine has nothing else to do.",
        ],
    )
    topics = [f"flush-{number}" for number in range(TOPICS)]
    with contextlib.ExitStack() as running:
        servers = gateways(running, place, beside)
        for server in servers.values():
            for topic in topics:
                _make_own(server.port, topic)
        turns = {name: partial(_turn, server, topics, seconds) for name, server in servers.items()}
        runs = in_turns(turns, ROUNDS, warms_up=True)
    first = [cost for cost, _, _ in next(iter(runs.values()))]
    for name, found in runs.items():
        whole = [cost for cost, _, _ in found]
        waits = [wait for _, each, _ in found for wait in each]
        least, middle, most = Spread(whole).cells(0)
        empty = statistics.median(cost for _, _, cost in found)
        table.add(
            *(name, len(waits), middle, least, most, f"{ratio(whole, first):.0%}", f"{empty:,.0f}"),
            *(percentile_text(waits, fraction, 0) for fraction in (0.5, 0.99)),
        )
    return table


def _turn(server: Server, topics: Sequence[str], seconds: float) -> tuple[float, list[float], float]:
    """Measure the CPU of a flush in µs, how long each took in ms, and the CPU of a request without records."""
    cost, waits = _cost(server, json_requests(1, 100, variants=4, topics=topics), seconds)
    empty, _ = _cost(server, _without_records(topics), seconds / 2)
    return cost, waits, empty


def _cost(server: Server, requests: Sequence[bytes], seconds: float) -> tuple[float, list[float]]:
    """Measure the CPU of the server for each request in µs, and how long each took in ms."""
    before = server.cpu_seconds()
    done = run_load(server.port, requests, connections=TOPICS, seconds=seconds, pause_s=PAUSE_S)
    if done.others:
        raise RuntimeError(f"not every request was acknowledged: {done.statuses}")
    return (server.cpu_seconds() - before) / done.answers * 1e6, done.latencies_ms


def _make_own(port: int, topic: str) -> None:
    """Create a topic that keeps its own commits.

    So many topics that flush so often would go to a journal, and share their flushes. A source from before journals does
    not know the setting, and needs none.
    """
    try:
        make_topic(port, topic, config={"flush.ms": FLUSH_MS, "commit.mode": "own"})
    except urllib.error.HTTPError as error:
        if error.code != 400:
            raise
        make_topic(port, topic, config={"flush.ms": FLUSH_MS})


def _without_records(topics: Sequence[str]) -> list[bytes]:
    return [
        request("POST", f"/v1/topics/{topic}/records", b'{"records":[]}', {"Content-Type": "application/json"})
        for topic in topics
    ]
