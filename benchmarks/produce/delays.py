"""Delayed records: how long they take to be stored, and how late they appear while many others wait.

``--waiting`` records wait at last. A part of them is due at ``--rate`` a second for the measured seconds. The others are due an
hour to thirty days later. A reader follows the topic. A record is late by the time between its due time, which is its timestamp,
and its arrival at the reader.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.harness.bodies import ARROW, arrow_body
from benchmarks.harness.options import Options
from benchmarks.harness.percentiles import percentile_text
from benchmarks.harness.processes import Server, gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import directory

REQUEST_RECORDS = 20_000
VALUE_BYTES = 100
HOUR_MS = 3_600_000
LONGEST_MS = 30 * 24 * HOUR_MS - HOUR_MS

Times = npt.NDArray[np.int64]


def measure(options: Options) -> Iterator[Table]:
    """Yield one table: storing, and the lateness of what is due."""
    with directory() as store, gateway(store) as server:
        yield _measured(server, options.waiting, options.rate, options.seconds)


def _measured(server: Server, waiting: int, rate: int, seconds: float) -> Table:
    table = Table(
        "Delayed records, directory store",
        [
            "waiting",
            "stored/s",
            "published/s",
            "records",
            "p50 late ms",
            "p99 late ms",
            "most late ms",
            "early",
            "resident MB, at most",
            "CPU s, storing / publishing",
        ],
        notes=["Goal: 10,000,000 waiting, p99 at most 1 s late at 5,000 due a second."],
    )
    due_count = min(waiting, int(rate * seconds))
    make_topic(server.port, "delays", config={"flush.ms": 50})
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=120, trust_env=False) as http:
        rng = np.random.default_rng(1)
        began = time.perf_counter()
        later = _now_ms() + rng.integers(HOUR_MS, LONGEST_MS, waiting - due_count)
        _schedule(http, later)
        took_s = max(time.perf_counter() - began, 1e-9)
        stored = f"{(waiting - due_count) / took_s:,.0f}" if waiting > due_count else "-"
        # Stored before the first is due: as fast as the others, with as much again to spare.
        first_ms = _now_ms() + 3_000 + int(2_000 * due_count / max(1, (waiting - due_count) / took_s))
        _schedule(http, first_ms + (np.arange(due_count) * 1_000) // rate)
        stored_cpu_s = server.cpu_seconds()
        late = _lateness(http, due_count, first_ms + int(seconds * 1_000) + 30_000)
    cells = [percentile_text(late, share, 0) or "-" for share in (0.5, 0.99, 1)]
    cpu = f"{stored_cpu_s:.1f} / {server.cpu_seconds() - stored_cpu_s:.1f}"
    memory = f"{server.rss_peak_bytes() / 1e6:.0f}"
    table.add(f"{waiting:,}", stored, f"{rate:,}", f"{len(late):,}", *cells, int((late < 0).sum()), memory, cpu)
    return table


def _schedule(http: httpx.Client, deliver_at: Times) -> None:
    value = b"v" * VALUE_BYTES
    for first in range(0, len(deliver_at), REQUEST_RECORDS):
        times = deliver_at[first : first + REQUEST_RECORDS]
        rows = pa.table(
            {"value": pa.array([value] * len(times), pa.binary()), "deliver_at": pa.array(times, pa.int64())}
        )
        answer = http.post("/v1/topics/delays/records", content=arrow_body(rows), headers={"content-type": ARROW})
        answer.raise_for_status()


def _lateness(http: httpx.Client, count: int, until_ms: int) -> Times:
    """Return the lateness of each record that appears, until all have or ``until_ms``."""
    late: list[Times] = []
    seen, positions = 0, [0] * _partition_count(http)
    while seen < count and _now_ms() < until_ms:
        parts = [
            {"topic": "delays", "partition": partition, "offset": offset} for partition, offset in enumerate(positions)
        ]
        body = {"partitions": parts, "max_records": 20_000, "max_bytes": 16 << 20, "max_wait_ms": 500}
        answer = http.post("/v1/fetch", json=body).raise_for_status().json()
        now_ms = _now_ms()
        for partition, part in enumerate(answer["partitions"]):
            positions[partition] = part["next_offset"]
            due = np.array([record["timestamp"] for record in part["records"]], np.int64)
            late.append(now_ms - due)
            seen += len(due)
    return np.concatenate(late) if late else np.zeros(0, np.int64)


def _partition_count(http: httpx.Client) -> int:
    count: int = http.get("/v1/topics/delays").raise_for_status().json()["partition_count"]
    return count


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
