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
from benchmarks.harness.load import request
from benchmarks.harness.options import Options
from benchmarks.harness.pairs import gateways, in_turns
from benchmarks.harness.percentiles import percentile_text
from benchmarks.harness.processes import Server, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import Store, each
from benchmarks.produce.price import PricedLoad, price_cells, priced

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
            f"Medians of {ROUNDS} alternating rounds of the sources; of the first row: median of the ratios of each round.",
            f"About 100 flushes a second over {TOPICS} topics, on an otherwise idle machine.",
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
    first = [flushes for flushes, _ in next(iter(runs.values()))]
    for name, found in runs.items():
        rounds = [flushes for flushes, _ in found]
        waits = [wait for flushes in rounds for wait in flushes.load.latencies_ms]
        empty = statistics.median(without_records.cpu_us for _, without_records in found)
        table.add(
            *(name, len(waits), *price_cells(rounds, first), f"{empty:,.0f}"),
            *(percentile_text(waits, fraction, 0) for fraction in (0.5, 0.99)),
        )
    return table


def _turn(server: Server, topics: Sequence[str], seconds: float) -> tuple[PricedLoad, PricedLoad]:
    """Measure flushes, and requests without records."""
    load = partial(priced, server, connections=TOPICS, pause_s=PAUSE_S)
    flushes = load(json_requests(1, 100, variants=4, topics=topics), seconds=seconds)
    return flushes, load(_without_records(topics), seconds=seconds / 2)


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
