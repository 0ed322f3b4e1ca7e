"""``python -m benchmarks.maintenance [COMMITS]``: what a long history costs, looked after and not; how fast segments are merged.

Everything runs in this process over a store in memory, on a clock that moves 250 ms with each commit: so what is measured is
the number of requests and the processor's time, and neither network nor disk. Beside it, how long deltalake takes to open
the table and to name its files.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import deltalake
import numpy as np
import pyarrow as pa

from benchmarks.report import Table
from compaction.job import Job
from compaction.report import CollectedEvents, Totals
from compaction.workers import InThisProcess
from log_format import checkpoint, layout
from log_format.append import Append, Batch
from log_format.committer import Committer
from log_format.records import BATCH_SCHEMA
from log_format.segment_reader import SegmentReader
from log_format.store import ObjectInfo
from log_format.stores.memory import MemoryStore
from log_format.topic_changes import CreateTopic
from log_format.topic_config import TopicConfig
from log_format.topic_log import TopicLog

COMMITS: Final = 200_000
FEW: Final = 100
ROUND_COMMITS: Final = 1_200
"""Commits between two rounds of maintenance: five minutes."""
RECORDS: Final = 20
REPEATS: Final = 5
MEBIBYTE: Final = 1024 * 1024


class BenchClock:
    """Moves with each commit."""

    def __init__(self) -> None:
        self.ms = 1_763_683_200_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def sleep_ms(self, duration_ms: int) -> None:
        self.ms += duration_ms


class CountingStore(MemoryStore):
    """Counts requests; a listing is one for each thousand keys."""

    def __init__(self, clock: BenchClock) -> None:
        super().__init__(clock=clock)
        self.requests: Counter[str] = Counter()

    def get(self, key: str) -> bytes:
        self.requests["GET"] += 1
        return super().get(key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self.requests["GET"] += 1
        return super().get_range(key, start, end)

    def put(self, key: str, data: bytes) -> None:
        self.requests["PUT"] += 1
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        self.requests["PUT"] += 1
        super().put_if_absent(key, data)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        self.requests["LIST"] += 1
        for number, info in enumerate(super().list(prefix, start_after=start_after)):
            if number and number % 1000 == 0:
                self.requests["LIST"] += 1
            yield info


def _new_id() -> str:
    return uuid.uuid4().hex


class History:
    """A topic with so many commits, of which the newest checkpoint is as old as the gateway would have it."""

    def __init__(self, commits: int, *, maintained: bool) -> None:
        self.clock = BenchClock()
        self.store = CountingStore(self.clock)
        self.log = TopicLog(self.store, "t", self.clock)
        self.committer = Committer(self.log, new_id=_new_id)
        self.report = CollectedEvents()
        self.maintenance_seconds = 0.0
        self.flushed_bytes = 0
        self.totals: list[Totals] = []
        config = TopicConfig.parse({"deleted.file.retention.ms": 3_600_000, "retention.ms": -1})
        self.committer.commit(CreateTopic(name="t", partition_count=1, config=config, topic_id=_new_id()))
        job = Job(
            store=self.store,
            workers=InThisProcess(self.store),
            clock=self.clock,
            report=self.report,
        )
        for number in range(1, commits + 1):
            self.append()
            if maintained and number % ROUND_COMMITS == 0:
                started = time.process_time()
                self.totals.append(job.run_round(collect=True))
                self.maintenance_seconds += time.process_time() - started
                self.report.events.clear()
        checkpoint.write_checkpoint(self.store, "t", max(0, self.log.state.version - 50), self.clock.now_ms())

    def append(self) -> None:
        """One flush of one request."""
        self.clock.ms += 250
        assert self.log.state.topic_id is not None
        batch = Batch(
            topic_id=self.log.state.topic_id,
            records=pa.table(
                {
                    "timestamp": pa.array([self.clock.ms * 1000] * RECORDS, BATCH_SCHEMA.field("timestamp").type),
                    "key": pa.nulls(RECORDS, pa.binary()),
                    "value": pa.array([b"x" * 100] * RECORDS, pa.binary()),
                    "headers": pa.nulls(RECORDS, BATCH_SCHEMA.field("headers").type),
                },
                schema=BATCH_SCHEMA,
            ),
            partitions=np.zeros(RECORDS, np.int32),
            record_bytes_max=100,
        )
        self.committer.commit(Append([batch], _new_id))

    def measured(self, act: Callable[[], Any]) -> tuple[float, int]:
        """The fastest of some runs in ms, and the requests of one."""
        fastest = float("inf")
        for _ in range(REPEATS):
            self.store.requests.clear()
            started = time.perf_counter()
            act()
            fastest = min(fastest, time.perf_counter() - started)
        return fastest * 1000, self.store.requests.total()

    def operations(self) -> dict[str, tuple[float, int]]:
        """Name -> ms and requests."""
        state = TopicLog(self.store, "t", self.clock).refresh()
        middle = state.high_watermark(0) // 2

        def read(offset: int) -> None:
            at = state.manifest.find(0, offset)
            assert at is not None
            reader = SegmentReader(self.store)
            assert reader.read("t", at.segment, 0, offset, bytes_max=MEBIBYTE, records_max=500).num_rows

        def by_time() -> None:
            started_ms = self.clock.ms - (state.version * 250) // 2
            at = state.manifest.find_timestamp(0, 0, started_ms)
            assert at is not None
            reader = SegmentReader(self.store)
            found = reader.find_timestamp("t", at.segment, 0, at.base_offset, started_ms)
            assert found is not None

        return {
            "load the topic (gateway start, takeover)": self.measured(
                lambda: TopicLog(self.store, "t", self.clock).refresh()
            ),
            "produce: encode, put, commit": self.measured(self.append),
            "look for news (tail fetch)": self.measured(self.log.refresh),
            "read 500 records at the middle": self.measured(lambda: read(middle)),
            "find a time at the middle": self.measured(by_time),
            "deltalake: open, name the files": (self.planning_ms(), 0),
        }

    def planning_ms(self) -> float:
        """How long deltalake takes with the log in a directory."""
        with tempfile.TemporaryDirectory() as directory:
            for info in self.store.list(layout.log_prefix("t")):
                path = Path(directory) / info.key
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.store.get(info.key))
            fastest = float("inf")
            for _ in range(2):
                started = time.perf_counter()
                deltalake.DeltaTable(str(Path(directory) / "topics" / "t")).file_uris()
                fastest = min(fastest, time.perf_counter() - started)
        return fastest * 1000


def flat_cost(commits: int) -> Iterator[Table]:
    """A short history, a long one that is looked after, and one that is not."""
    kinds = {
        f"{FEW} commits": History(FEW, maintained=False),
        f"{commits:,}, maintained": History(commits, maintained=True),
        f"{commits:,}, not": History(commits, maintained=False),
    }
    found = {name: history.operations() for name, history in kinds.items()}
    rows = []
    for operation in next(iter(found.values())):
        cells = [f"{found[name][operation][0]:,.2f} ms, {found[name][operation][1]}" for name in kinds]
        rows.append([operation, *cells])
    for what, count in (
        ("segments in the table", lambda each: each.log.state.manifest.segment_count()),
        ("objects in the log", lambda each: sum(1 for _ in each.store.list(layout.log_prefix("t")))),
        ("objects in the topic", lambda each: sum(1 for _ in each.store.list(layout.topic_root("t")))),
    ):
        rows.append([what, *(f"{count(history):,}" for history in kinds.values())])
    yield Table("Cost of a long history: ms of one core, requests", ["", *kinds], rows)
    maintained = kinds[f"{commits:,}, maintained"]
    bytes_in = sum(totals.bytes_in for totals in maintained.totals)
    bytes_out = sum(totals.bytes_out for totals in maintained.totals)
    rewrites = sum(totals.rewrites for totals in maintained.totals)
    rows = [
        ["rewrites", f"{rewrites:,}"],
        ["bytes read by them", f"{bytes_in / MEBIBYTE:,.1f} MiB"],
        ["bytes written by them", f"{bytes_out / MEBIBYTE:,.1f} MiB"],
        ["processor time of all rounds", f"{maintained.maintenance_seconds:,.1f} s"],
    ]
    yield Table(f"Looking after {commits:,} flushes of {RECORDS} records", ["", ""], rows)


def throughput() -> Iterator[Table]:
    """One merge of a quarter of a GiB that hardly compresses."""
    history = History(1, maintained=False)
    rng = np.random.default_rng(1)
    for _ in range(64):
        values = rng.integers(0, 256, (4 * 1024, 1024), np.uint8)
        batch = Batch(
            topic_id=history.log.state.topic_id or "",
            records=pa.table(
                {
                    "timestamp": pa.array(
                        [history.clock.ms * 1000] * len(values), BATCH_SCHEMA.field("timestamp").type
                    ),
                    "key": pa.nulls(len(values), pa.binary()),
                    "value": pa.array([row.tobytes() for row in values], pa.binary()),
                    "headers": pa.nulls(len(values), BATCH_SCHEMA.field("headers").type),
                },
                schema=BATCH_SCHEMA,
            ),
            partitions=np.zeros(len(values), np.int32),
            record_bytes_max=1024,
        )
        history.committer.commit(Append([batch], _new_id))
    history.clock.ms += 3_600_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    job = Job(
        store=history.store,
        workers=InThisProcess(history.store),
        clock=history.clock,
        report=history.report,
    )
    started = time.process_time()
    totals = job.run_round(collect=False)
    seconds = time.process_time() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    rows = [
        ["read", f"{totals.bytes_in / MEBIBYTE:,.0f} MiB in {totals.segments_in} segments"],
        ["MiB per second of one core", f"{totals.bytes_in / MEBIBYTE / seconds:,.0f}"],
        ["memory that it took at most, with what the store in memory got", f"{grown:,.0f} MiB"],
    ]
    yield Table("Merging", ["", ""], rows)


def main() -> None:
    """Print the tables."""
    commits = int(sys.argv[1].replace("_", "")) if len(sys.argv) > 1 else COMMITS
    for table in (*throughput(), *flat_cost(commits)):
        print(table.markdown())


if __name__ == "__main__":
    main()
