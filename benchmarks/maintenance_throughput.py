"""How fast segments are merged, and whether maintenance keeps up with a gateway at full speed on the same cores."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.bodies import arrow_requests, log_lines
from benchmarks.load import run_load
from benchmarks.maintenance_history import HistoryClock
from benchmarks.maintenance_process import Maintenance
from benchmarks.processes import Server, directory, gateway
from benchmarks.produce import make_topic
from benchmarks.report import Table
from compaction.job import Job
from compaction.policy import Policy
from compaction.report import LogReporter, Totals
from compaction.workers import InThisProcess
from log_format import layout
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.records.schema import BATCH_SCHEMA
from log_format.stores import open_store
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Append, Batch
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig

MEBIBYTE: Final = 1024**2
HOUR_MS: Final = 3_600_000
LOAD_CONNECTIONS: Final = 16
LOAD_RECORDS: Final = 10_000
LOAD_VALUE_BYTES: Final = 100
EVERY: Final = "10s"
BARE_SECONDS: Final = 15
WARM_UP_SECONDS: Final = 5
LAST_ROUNDS_SECONDS_MAX: Final = 120


@dataclass(frozen=True, slots=True)
class Flushes:
    """Flushes to merge: their number, and the values of each one's records."""

    name: str
    count: int
    values: list[bytes]


def merging() -> Iterator[Table]:
    """Merges in this process, from memory to memory: CPU time alone."""
    table = Table(
        "Merging, one core, by CPU time",
        [
            "flushes",
            "stored MiB read",
            "stored MiB/s per core",
            "records' MiB/s per core",
            "CPU us/flush",
            "CPU us/record",
        ],
    )
    rng = np.random.default_rng(1)
    noise = rng.bytes(8 * 1024 * 1024)
    lines = [line.encode() for line in log_lines(100_000, LOAD_VALUE_BYTES, 1)]
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
    clock = HistoryClock(int(time.time() * 1000))
    store = MemoryStore(clock=clock)
    log = TopicLog(store, "t", clock)
    committer = Committer(log, new_id=_new_id)
    config = TopicConfig.parse({"retention.ms": -1})
    committer.commit(CreateTopic(name="t", partition_count=1, config=config, topic_id=_new_id()))
    count = len(flushes.values)
    columns = {
        "timestamp": pa.array([clock.ms * 1000] * count, BATCH_SCHEMA.field("timestamp").type),
        "key": pa.nulls(count, pa.binary()),
        "value": pa.array(flushes.values, pa.binary()),
        "headers": pa.nulls(count, BATCH_SCHEMA.field("headers").type),
    }
    batch = Batch(
        topic_id=log.state.topic_id or "",
        records=pa.table(columns, schema=BATCH_SCHEMA),
        partitions=np.zeros(count, np.int32),
        record_bytes_max=max(map(len, flushes.values)),
    )
    for _ in range(flushes.count):
        committer.commit(Append([batch], _new_id))
    clock.ms += HOUR_MS
    job = Job(store=store, workers=InThisProcess(store), clock=clock, report=LogReporter())
    started = time.process_time()
    totals = job.run_round(collect=False)
    seconds = time.process_time() - started
    if totals.segments_in < flushes.count:
        raise RuntimeError(f"not everything was merged: {totals}")
    return totals, seconds


@dataclass(slots=True)
class _Backlog:
    """Flushes waiting to be merged: the most in each half of the load, and the number at the end."""

    most: list[int]
    now: int = 0


def keeping_up(seconds: float) -> Iterator[Table]:
    """One producer at full speed for ``seconds``, first without maintenance, then beside it."""
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
    """Records/s, the gateway's CPU us/record, and the backlog meanwhile."""
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
    """The flushes still waiting after further rounds of maintenance: fewer than justify a merge."""
    log = TopicLog(open_store(store), "bench", SystemClock())
    deadline = time.monotonic() + LAST_ROUNDS_SECONDS_MAX
    while (left := _waiting(log)) >= Policy().flushed_min:
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
    return left


def _new_id() -> str:
    return uuid.uuid4().hex
