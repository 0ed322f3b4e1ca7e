"""Time to an acknowledgement at low load, beside its floor: two raw PUTs of the same sizes. Each client waits for its answer, so
no flush waits for ``flush.ms``."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.harness.bodies import json_requests
from benchmarks.harness.load import run_load
from benchmarks.harness.options import Options
from benchmarks.harness.percentiles import percentile
from benchmarks.harness.processes import gateway, make_topic
from benchmarks.harness.raw_puts import two_puts_ms
from benchmarks.harness.report import Table
from benchmarks.harness.stores import Store, each

FLUSH_MS = (0, 10, 50, 250)


def measure(options: Options) -> Iterator[Table]:
    """Yield one table for each store: 4 connections, one record a request, 20 ms between requests."""
    for place in each(options.store):
        yield _measured(place, options.seconds)


def _measured(place: Store, seconds: float) -> Table:
    table = Table(
        f"Acknowledgement at low load, {place.label}",
        ["flush.ms", "p50 ms", "p99 ms", "floor p50 ms (two raw PUTs)", "floor p99 ms", "p99 above floor, ms"],
    )
    raw = place.opened()
    with gateway(place.uri, place.environment) as server:
        for flush_ms in FLUSH_MS:
            topic = f"ack-{flush_ms}"
            make_topic(server.port, topic, config={"flush.ms": flush_ms})
            puts = two_puts_ms(raw)
            requests = json_requests(1, 100, topics=[topic])
            done = run_load(server.port, requests, connections=4, seconds=seconds, pause_s=0.02)
            puts += two_puts_ms(raw)
            floor_50, floor_99 = statistics.median(puts), percentile(puts, 0.99)
            p50, p99 = done.percentile_ms(0.5), done.percentile_ms(0.99)
            table.add(flush_ms, *(f"{value:.1f}" for value in (p50, p99, floor_50, floor_99, p99 - floor_99)))
    return table
