"""Time to an acknowledgement at low load, beside its floor: two raw PUTs of the same sizes. Who sends waits for the answer, so
no flush waits for ``flush.ms``."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Iterator

from benchmarks.bodies import json_requests
from benchmarks.load import run_load
from benchmarks.processes import Server, call
from benchmarks.produce import make_topic
from benchmarks.report import Table
from log_format.store import ObjectStore

SEGMENT_BYTES = 3_000
COMMIT_BYTES = 900
FLUSH_MS = (0, 10, 50, 250)


def two_puts_ms(store: ObjectStore, rounds: int) -> list[float]:
    """The time of two raw PUTs, of a small segment and its commit, in each round."""
    took = []
    for number in range(rounds):
        started = time.perf_counter()
        store.put(f"floor/segments/{uuid.uuid4()}", b"s" * SEGMENT_BYTES)
        store.put_if_absent(f"floor/log/{uuid.uuid4()}-{number}", b"c" * COMMIT_BYTES)
        took.append((time.perf_counter() - started) * 1000)
    return took


def measure(gateway: Server, raw: ObjectStore, seconds: float, store: str) -> Iterator[Table]:
    """Low load: 4 connections, one record a request, 20 ms between requests."""
    table = Table(
        f"Acknowledgement at low load, {store}",
        [
            "flush.ms",
            "p50 ms",
            "p99 ms",
            "floor p50 ms (two raw PUTs)",
            "floor p99 ms",
            "p99 above floor, ms",
        ],
    )
    for flush_ms in FLUSH_MS:
        name = f"ack-{flush_ms}"
        make_topic(gateway.port, name, **{"flush.ms": flush_ms})
        requests = [text.replace(b"/topics/bench/", f"/topics/{name}/".encode(), 1) for text in json_requests(1, 100)]
        puts = two_puts_ms(raw, 50)
        done = run_load(gateway.port, requests, connections=4, seconds=seconds, pause_s=0.02)
        puts += two_puts_ms(raw, 50)
        floor_50, floor_99 = statistics.median(puts), sorted(puts)[98]
        p50, p99 = done.percentile_ms(0.5), done.percentile_ms(0.99)
        cells = [f"{value:.1f}" for value in (p50, p99, floor_50, floor_99, p99 - floor_99)]
        table.add(flush_ms, *cells)
        call(gateway.port, "GET", f"/v1/topics/{name}")
    yield table
