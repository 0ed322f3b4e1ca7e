"""How fast one core merges segments, by CPU time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.harness.bodies import log_lines
from benchmarks.harness.options import Options
from benchmarks.harness.report import Table
from benchmarks.harness.topic import WrittenTopic, records_of
from benchmarks.maintenance.histories import HOUR_MS, HistoryClock
from compaction.job import Job
from compaction.report import LogReporter, Totals
from compaction.workers import LocalWorkers
from log_format.stores.memory import MemoryStore

MEBIBYTE: Final = 1024**2
LINE_BYTES: Final = 100


@dataclass(frozen=True, slots=True)
class Flushes:
    """Flushes to merge: their number, and the values of each one's records."""

    name: str
    count: int
    values: list[bytes]


def measure(_options: Options) -> Iterator[Table]:
    """Yield one table: merges in this process, from memory to memory."""
    table = Table(
        "Merging, one core, by CPU time",
        [
            *("flushes", "stored MiB read", "stored MiB/s per core", "records' MiB/s per core"),
            *("CPU us/flush", "CPU us/record"),
        ],
    )
    rng = np.random.default_rng(1)
    noise = rng.bytes(8 * 1024 * 1024)
    lines = [line.encode() for line in log_lines(100_000, LINE_BYTES, 1)]
    for flushes in (
        Flushes(
            "30 of 8 MiB, random values of 1 KiB", 30, [noise[at : at + 1024] for at in range(0, len(noise), 1024)]
        ),
        Flushes("32 of 100,000 records, log lines of 100 B", 32, lines),
        Flushes("1,200 of 20 records, log lines of 100 B", 1_200, lines[:20]),
    ):
        totals, seconds = _merged(flushes)
        records = flushes.count * len(flushes.values)
        table.add(
            flushes.name,
            f"{totals.bytes_in / MEBIBYTE:,.1f}",
            f"{totals.bytes_in / MEBIBYTE / seconds:,.0f}",
            f"{records * len(flushes.values[0]) / MEBIBYTE / seconds:,.0f}",
            f"{seconds / flushes.count * 1e6:,.0f}",
            f"{seconds / records * 1e6:,.2f}",
        )
    yield table


def _merged(flushes: Flushes) -> tuple[Totals, float]:
    """Merge flushes, and return what was merged and CPU seconds."""
    clock = HistoryClock(int(time.time() * 1000))
    store = MemoryStore(clock=clock)
    topic = WrittenTopic(store, "t", partitions=1, clock=clock, config={"retention.ms": -1})
    records = records_of(flushes.values, timestamp_ms=clock.ms)
    for _ in range(flushes.count):
        topic.append(records, np.zeros(len(flushes.values), np.int32), max(map(len, flushes.values)))
    clock.ms += HOUR_MS
    job = Job(store=store, workers=LocalWorkers(store), clock=clock, report=LogReporter())
    started = time.process_time()
    totals = job.run_round(collect=False)
    seconds = time.process_time() - started
    if totals.segments_in < flushes.count:
        raise RuntimeError(f"not everything was merged: {totals}")
    return totals, seconds
