"""Whether maintenance keeps up with a gateway at full speed on the same cores."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.harness.bodies import arrow_requests
from benchmarks.harness.load import run_load
from benchmarks.harness.options import Options
from benchmarks.harness.processes import Server, gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import directory
from benchmarks.maintenance.process import Maintenance
from compaction.policy import Policy
from log_format import layout
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.stores import open_store

MEBIBYTE: Final = 1024**2
LOAD_SECONDS: Final = 90.0
LOAD_CONNECTIONS: Final = 16
LOAD_RECORDS: Final = 10_000
LOAD_VALUE_BYTES: Final = 100
EVERY: Final = "10s"
BARE_SECONDS: Final = 15
WARM_UP_SECONDS: Final = 5
LAST_ROUNDS_SECONDS_MAX: Final = 120


@dataclass(slots=True)
class _Backlog:
    """Flushes waiting to be merged: the most in each half of the load, and the number at the end."""

    most: list[int]
    now: int = 0


def measure(_options: Options) -> Iterator[Table]:
    """Yield one table: a producer at full speed, first without maintenance, then beside it."""
    seconds = LOAD_SECONDS
    table = Table(
        f"A gateway at full speed beside maintenance --every {EVERY}, one producer, Arrow x {LOAD_RECORDS:,} of "
        f"{LOAD_VALUE_BYTES} B, {LOAD_CONNECTIONS} connections, directory store",
        ["", "without maintenance", "with maintenance"],
    )
    requests = arrow_requests(LOAD_RECORDS, LOAD_VALUE_BYTES)
    with directory() as bare, gateway(bare) as server:
        make_topic(server.port)
        alone, alone_cpu, _ = _loaded(server, requests, min(seconds, BARE_SECONDS), bare)
    with directory() as store, gateway(store) as server:
        make_topic(server.port)
        # Its first round has something to merge, so that Java is started before the measurement.
        log = TopicLog(open_store(store), "bench", SystemClock())
        while _waiting(log) < Policy().flushed_min:
            run_load(server.port, requests, connections=LOAD_CONNECTIONS, seconds=WARM_UP_SECONDS)
        maintenance = Maintenance(store, ["--every", EVERY])
        try:
            _wait_for_round(maintenance)
            before, cpu_before = len(maintenance.events("rewrite")), maintenance.cpu_seconds
            beside, beside_cpu, backlog = _loaded(server, requests, seconds, store)
            rewrites = maintenance.events("rewrite")[before:]
            cpu_seconds = maintenance.cpu_seconds - cpu_before
            left = _drained(store)
        finally:
            maintenance.stop()
    merged = sum(each["bytes_in"] for each in rewrites if each["outcome"] == "committed")
    in_flushes = sum(each["segments_in"] for each in rewrites if each["outcome"] == "committed")
    for what, one, other in (
        ("records/s", f"{alone:,.0f}", f"{beside:,.0f}"),
        ("CPU us/record, gateway", f"{alone_cpu:.2f}", f"{beside_cpu:.2f}"),
        ("segments merged", "", f"{in_flushes:,}"),
        ("MiB/s merged (stored)", "", f"{merged / MEBIBYTE / seconds:.1f}"),
        ("CPU of maintenance, of one core", "", f"{cpu_seconds / seconds:.0%}"),
        ("flushes that waited at most, first half", "", f"{backlog.most[0]:,}"),
        ("flushes that waited at most, second half", "", f"{backlog.most[1]:,}"),
        ("flushes that waited at the end, and after the next round", "", f"{backlog.now:,}, {left:,}"),
    ):
        table.add(what, one, other)
    table.notes.append(f"{seconds:.0f} s of load; the producer, the gateway, Spark and its workers share the cores.")
    yield table


def _loaded(server: Server, requests: list[bytes], seconds: float, store: str) -> tuple[float, float, _Backlog]:
    """Measure records/s, the gateway's CPU us/record, and the backlog meanwhile."""
    backlog = _Backlog([0, 0])
    ended = threading.Event()

    def watch() -> None:
        log = TopicLog(open_store(store), "bench", SystemClock())
        began = time.monotonic()
        while not ended.wait(1):
            backlog.now = _waiting(log)
            half = int(time.monotonic() - began > seconds / 2)
            backlog.most[half] = max(backlog.most[half], backlog.now)

    watching = threading.Thread(target=watch, daemon=True)
    cpu_seconds = server.cpu_seconds()
    watching.start()
    done = run_load(server.port, requests, connections=LOAD_CONNECTIONS, seconds=seconds)
    ended.set()
    watching.join()
    records = done.answers * LOAD_RECORDS
    return records / done.seconds, (server.cpu_seconds() - cpu_seconds) / records * 1e6, backlog


def _waiting(log: TopicLog) -> int:
    return sum(segment.path.startswith(layout.SEGMENTS) for segment in log.refresh().manifest.segments())


def _wait_for_round(maintenance: Maintenance) -> None:
    deadline = time.monotonic() + LAST_ROUNDS_SECONDS_MAX
    while not maintenance.events("round"):
        if time.monotonic() > deadline:
            raise RuntimeError("maintenance did not finish its first round")
        time.sleep(0.2)


def _drained(store: str) -> int:
    """Wait for further rounds, and return the flushes that still wait: fewer than justify a merge."""
    log = TopicLog(open_store(store), "bench", SystemClock())
    deadline = time.monotonic() + LAST_ROUNDS_SECONDS_MAX
    while (left := _waiting(log)) >= Policy().flushed_min:
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
    return left
