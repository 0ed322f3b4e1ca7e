"""A topic with a long history, with maintenance and without, written as directories.

1. Each flush is made once. Its commit goes, byte for byte as a gateway writes it, into two logs. (Each build first compares one
   with the committer's own.) One log is that of a maintained topic in memory, on a clock that moves 250 ms with each commit and
   ends now. The other is that of a topic without maintenance, where the commit gets the next version.
2. Of flushes merged long ago only the log is made. Their segments are never read: ``SegmentWriter`` gets their records directly,
   as it would from them. The merge is an ordinary commit of ``log_format.topic.rewrite``. Merges of merges, checkpoints, the last
   merge, clean-up and collection are done by maintenance itself.
3. Everything is written without fsync, each object with the time of its put. Segments that left the table are left out. So are
   those of the topic without maintenance, except in the windows of ``Histories.read_from``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from benchmarks.harness.topic import new_id
from compaction.job import Job
from compaction.report import LogReporter
from compaction.workers import LocalWorkers
from log_format import layout, limits
from log_format.checkpoints import checkpoint
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.actions import CommitInfo, Txn, decode_commit, encode_commit
from log_format.delta.committer import Committer
from log_format.records.schema import BATCH_SCHEMA, RECORD_SCHEMA
from log_format.segments.run import Run, SegmentRef
from log_format.segments.segment import encode_segment
from log_format.segments.writer import SegmentWriter
from log_format.stores.local import LocalStore
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Append, Batch
from log_format.topic.changes import AlterTopic, CreateTopic
from log_format.topic.config import TopicConfig
from log_format.topic.rewrite import NewSegment, Rewrite, RewriteOutcome, UploadedFile
from log_format.topic.segment_tags import (
    TAG_REWRITTEN,
    TAG_RUNS,
    Rewritten,
    add_segment,
    decode_rewritten,
    decode_segment_tags,
)
from log_format.version import __version__

TOPIC: Final = "t"
FLUSH_MS: Final = 250
RECORDS: Final = 20
"""Records of a flush."""
VALUE_BYTES: Final = 100
ROUND_COMMITS: Final = 1_200
"""Commits between two rounds of maintenance: five minutes."""
FRESH_COMMITS: Final = 120
"""Commits since the last round, at the end: half of the minute between two rounds."""
TIER_ROUNDS: Final = 16
"""Rounds until merged segments are merged again."""
CHECKPOINT_AGE_COMMITS: Final = 50
"""The average age of a checkpoint: gateways write one every 100 commits."""
CHECKPOINT_AGE_COMMITS_LARGE: Final = 250
"""The same for a table with many segments, where they write one every 500."""
WINDOW_COMMITS: Final = 30
WINDOWS: Final = 64
HOUR_MS: Final = 3_600_000
_FOOTER_BYTES: Final = 1_100
"""The size of the footer of a segment that is not made: usual for such a flush."""


@dataclass(frozen=True, slots=True)
class Histories:
    """Directories, each a store with one topic ``TOPIC``."""

    few: Path
    an_hour: Path
    """Maintained, with removed files kept for an hour."""
    by_default: Path
    """Maintained by the defaults: of more than 30,000 removed files those, and of more than 10,000 commits those of an hour."""
    files_of_a_day: Path
    """The same with ``deleted.file.retention.count`` -1: every file that left the table in a day is kept."""
    a_day_whole: Path
    """The same with ``commit.retention.count`` -1: every commit of a day is kept, too."""
    unmaintained: Path
    read_from: tuple[int, ...]
    """Offsets that start windows of ``WINDOW_COMMITS`` flushes, readable in all stores except ``few``."""
    few_records: int
    rewrites_per_record: float
    rewrites_max: int
    build_seconds: float


def build(directory: Path, commits: int, few: int, told: Callable[[str], None]) -> Histories:
    """Make six stores.

    Args:
        directory: above them.
        commits: of the long histories; at least a few rounds.
        few: commits of the short one.
        told: called with the progress.
    """
    began = time.monotonic()
    names = ("few", "an_hour", "by_default", "files_of_a_day", "a_day_whole", "unmaintained")
    paths = {name: directory / name for name in names}
    short = _Writer(few, paths["few"], few)
    for _ in range(few):
        short.flush(is_read=True)
    short.checkpoint_twin(CHECKPOINT_AGE_COMMITS)
    long = _Writer(commits, paths["unmaintained"], max(WINDOW_COMMITS, commits // WINDOWS))
    long.check_that_it_writes_as_gateways_do()
    last_round = commits - FRESH_COMMITS
    rounds = 0
    for number in range(1, commits + 1):
        long.flush(is_read=number > last_round)
        if number == last_round or (number % ROUND_COMMITS == 0 and number < last_round):
            long.merge()
            rounds += 1
            if rounds % TIER_ROUNDS == 0:
                long.maintain(collect=False)
        if number == commits - HOUR_MS // FLUSH_MS - CHECKPOINT_AGE_COMMITS:
            long.checkpoint(0)
        if number % 20_000 == 0:
            told(f"{number:,} of {commits:,} commits in {time.monotonic() - began:.0f} s")
    long.maintain(collect=False)
    for _ in range(FRESH_COMMITS):
        long.flush(is_read=True)
    rewrites_per_record, rewrites_max = long.rewrites()
    long.checkpoint(CHECKPOINT_AGE_COMMITS)
    long.lay_down(paths["a_day_whole"])
    for name, retention_ms, files in (
        ("files_of_a_day", limits.DELETED_FILE_RETENTION_MS, -1),
        ("by_default", limits.DELETED_FILE_RETENTION_MS, limits.DELETED_FILES_KEPT),
        ("an_hour", HOUR_MS, limits.DELETED_FILES_KEPT),
    ):
        long.keep_for(retention_ms, commits=limits.COMMITS_KEPT, files=files)
        for _ in range(FRESH_COMMITS):
            long.flush(is_read=True)
        long.checkpoint(CHECKPOINT_AGE_COMMITS)
        long.lay_down(paths[name])
    long.checkpoint_twin(CHECKPOINT_AGE_COMMITS_LARGE)
    return Histories(
        **paths,
        read_from=tuple(range(0, (commits - WINDOW_COMMITS) * RECORDS, long.window_every * RECORDS)),
        few_records=few * RECORDS,
        rewrites_per_record=rewrites_per_record,
        rewrites_max=rewrites_max,
        build_seconds=time.monotonic() - began,
    )


class HistoryClock:
    """A clock that moves with each commit."""

    def __init__(self, now_ms: int) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def sleep_ms(self, duration_ms: int) -> None:
        self.ms += duration_ms


class _Writer:
    """One topic in memory, maintained on request; and its twin below ``twin``, without maintenance."""

    def __init__(self, commits: int, twin: Path, window_every: int) -> None:
        self.window_every = window_every
        self._clock = HistoryClock(int(time.time() * 1000) - (commits + 4 * FRESH_COMMITS) * FLUSH_MS)
        self._store = MemoryStore(clock=self._clock)
        self._log = TopicLog(self._store, TOPIC, self._clock)
        self._committer = Committer(self._log, new_id=new_id, engine="tidelog-gateway")
        self._job = Job(store=self._store, workers=LocalWorkers(self._store), clock=self._clock, report=LogReporter())
        self._twin = twin
        self._twin_version = -1
        self._twin_files: dict[bytes, Path] = {}
        self._next_offset = 0
        self._unmerged: list[SegmentRef] = []
        self._unmerged_times: list[int] = []
        values = [os.urandom(VALUE_BYTES // 2).hex().encode() for _ in range(RECORDS)]
        self._values = pa.array(values, pa.binary())
        for below in ("_delta_log", layout.SEGMENTS):
            (twin / layout.topic_root(TOPIC) / below).mkdir(parents=True)
        everything = {"deleted.file.retention.count": -1, "commit.retention.count": -1}
        config = TopicConfig.parse({"retention.ms": -1, "flush.ms": 0, **everything})
        self._committer.commit(CreateTopic(name=TOPIC, partition_count=1, config=config, topic_id=new_id()))
        self._copy_commit(self._store.get(layout.table_commit_key(layout.topic_root(TOPIC), 0)))

    def flush(self, *, is_read: bool) -> None:
        """Write the next flush; ``is_read``: with its segment, as in a window."""
        self._clock.ms += FLUSH_MS
        segment_data = None
        path = layout.segment_path(new_id())
        if is_read or self._twin_version % self.window_every < WINDOW_COMMITS:
            encoded = encode_segment(self._records([self._clock.ms], self._next_offset), compression="zstd")
            segment, run, segment_data = encoded.ref(path), encoded.runs[0], encoded.data
        else:
            run = Run(0, self._next_offset, self._next_offset + RECORDS, RECORDS, 1_700, self._clock.ms, self._clock.ms)
            segment = SegmentRef(path, 1_704 + _FOOTER_BYTES, 1_704, crc32(path.encode()))
        data = _flush_commit(segment, run, self._clock.ms, new_id())
        version = self._log.state.version + 1
        key = f"{layout.topic_root(TOPIC)}{path}"
        if segment_data is not None:
            self._store.put(key, segment_data)
            _write(self._twin / key, segment_data, self._clock.ms)
        commit_key = layout.table_commit_key(layout.topic_root(TOPIC), version)
        self._store.put_if_absent(commit_key, data)
        self._log.apply(decode_commit(data, commit_key), version)
        self._log.observed(self._clock.ms)
        self._copy_commit(data)
        self._next_offset += RECORDS
        self._unmerged.append(segment)
        self._unmerged_times.append(self._clock.ms)

    def merge(self) -> None:
        """Merge the flushes since the last time as maintenance would: one segment and its commit."""
        writer = SegmentWriter(compression="zstd")
        writer.add(self._records(self._unmerged_times, self._next_offset - RECORDS * len(self._unmerged)))
        written = writer.finish()
        assert written is not None
        path = layout.compacted_path(new_id())
        self._store.put(f"{layout.topic_root(TOPIC)}{path}", written.data)
        added = NewSegment(
            segment=written.ref(path),
            run=written.runs[0],
            modification_time_ms=self._unmerged_times[-1],
            rewritten=Rewritten(1),
        )
        change = Rewrite(
            topic_id=self._log.state.topic_id or "",
            sources=self._unmerged,
            source_record_count=RECORDS * len(self._unmerged),
            added=[added],
            uploaded=UploadedFile(path, self._clock.ms),
        )
        assert self._committer.commit(change).result is RewriteOutcome.COMMITTED
        self._unmerged, self._unmerged_times = [], []

    def maintain(self, *, collect: bool) -> None:
        """Run one round of maintenance itself."""
        totals = self._job.run_round(collect=collect)
        if totals.failed_topics:
            raise RuntimeError("maintenance of the history failed")
        self._log.refresh()

    def checkpoint(self, age: int) -> None:
        """Write the checkpoint that a gateway wrote ``age`` commits ago."""
        checkpoint.write_checkpoint(self._store, TOPIC, self._log.refresh().version - age, self._clock.now_ms())

    def checkpoint_twin(self, age: int) -> None:
        """Write the same checkpoint for the twin."""
        twin = LocalStore(self._twin, fsync=False)
        checkpoint.write_checkpoint(twin, TOPIC, self._twin_version - age, self._clock.now_ms())

    def keep_for(self, retention_ms: int, *, commits: int, files: int) -> None:
        """Keep so many removed files and commits for this long from now on. A round of maintenance deletes older ones, and
        the next one, which finds the files gone, lets go of their tombstones."""
        config = {
            "deleted.file.retention.ms": str(retention_ms),
            "deleted.file.retention.count": str(files),
            "commit.retention.count": str(commits),
        }
        self._committer.commit(AlterTopic(partition_count=None, config=config))
        for _ in range(2):
            self.maintain(collect=True)
        self._unmerged, self._unmerged_times = [], []

    def rewrites(self) -> tuple[float, int]:
        """Return how often a record was rewritten on average, and at most, by the whole log."""
        written, flushed, most = 0, 0, 0
        for version in range(self._log.state.version + 1):
            key = layout.table_commit_key(layout.topic_root(TOPIC), version)
            for add in decode_commit(self._store.get(key), key).adds:
                tags = add.tags or {}
                _, runs = decode_segment_tags(add.path, add.size, tags.get(TAG_RUNS), "[0,0]")
                count = sum(run.record_count for run in runs)
                times = decode_rewritten(add.path, tags.get(TAG_REWRITTEN)).times
                flushed, written = (flushed, written + count) if times else (flushed + count, written)
                most = max(most, times)
        return written / flushed, most

    def lay_down(self, directory: Path) -> None:
        """Write every object as a file, except segments that left the table. Commits shared with the twin are the same file."""
        live = {f"{layout.topic_root(TOPIC)}{segment.path}" for segment in self._log.state.manifest.segments()}
        for info in list(self._store.list("")):
            if info.key.endswith(".parquet") and layout.log_prefix(TOPIC) not in info.key and info.key not in live:
                continue
            data = self._store.get(info.key)
            path, twin = directory / info.key, self._twin_files.get(data)
            path.parent.mkdir(parents=True, exist_ok=True)
            if twin is not None:
                path.hardlink_to(twin)
            else:
                _write(path, data, info.modified_at_ms)

    def check_that_it_writes_as_gateways_do(self) -> None:
        """Compare one of our flushes with the committer's, on a log of its own."""
        clock, ids = HistoryClock(self._clock.ms), ["0" * 32, "1" * 32]
        log = TopicLog(MemoryStore(clock=clock), TOPIC, clock)
        config = TopicConfig.parse({"retention.ms": -1})
        committer = Committer(log, new_id=new_id)
        committer.commit(CreateTopic(name=TOPIC, partition_count=1, config=config, topic_id=new_id()))
        times = pa.array([clock.ms * 1000] * RECORDS, BATCH_SCHEMA.field("timestamp").type)
        columns = [times, *(self._records([clock.ms], 0).column(name) for name in BATCH_SCHEMA.names[1:])]
        batch = Batch(
            topic_id=log.state.topic_id or "",
            records=pa.table(columns, schema=BATCH_SCHEMA),
            partitions=np.zeros(RECORDS, np.int32),
            record_bytes_max=VALUE_BYTES,
        )
        committer = Committer(log, new_id=lambda: ids[0], engine="tidelog-gateway")
        clock.ms += FLUSH_MS
        committer.commit(Append([batch], lambda: ids[1]))
        encoded = encode_segment(self._records([clock.ms - FLUSH_MS], 0), compression="zstd")
        path = layout.segment_path(ids[1])
        ours = _flush_commit(encoded.ref(path), encoded.runs[0], clock.ms, ids[0])
        theirs = log.store.get(layout.table_commit_key(layout.topic_root(TOPIC), 1))
        segment = log.store.get(f"{layout.topic_root(TOPIC)}{path}")
        if (ours, encoded.data) != (theirs, segment):
            raise RuntimeError(f"a flush of the history is not as a gateway writes it:\n{ours!r}\n{theirs!r}")

    def _records(self, times_ms: list[int], base_offset: int) -> pa.Table:
        """Return the records of flushes at these times: ``RECORD_SCHEMA``."""
        count = RECORDS * len(times_ms)
        columns = [
            pa.array(np.zeros(count, np.int32)),
            pa.array(np.arange(base_offset, base_offset + count, dtype=np.int64)),
            pa.array(np.repeat(np.array(times_ms, np.int64), RECORDS) * 1000, pa.int64()),
            pa.nulls(count, pa.binary()),
            pa.chunked_array([self._values] * len(times_ms)),
            pa.nulls(count, RECORD_SCHEMA.field("headers").type),
        ]
        names = RECORD_SCHEMA.names
        return pa.table(dict(zip(names, columns, strict=True))).cast(RECORD_SCHEMA).combine_chunks()

    def _copy_commit(self, data: bytes) -> None:
        self._twin_version += 1
        path = self._twin / layout.table_commit_key(layout.topic_root(TOPIC), self._twin_version)
        self._twin_files[data] = path
        _write(path, data, self._clock.ms)


def _flush_commit(segment: SegmentRef, run: Run, now_ms: int, commit_id: str) -> bytes:
    info = CommitInfo(
        timestamp=now_ms,
        operation="WRITE",
        operation_parameters={},
        engine_info=f"tidelog-gateway/{__version__}",
        txn_id=commit_id,
    )
    add = add_segment(segment, [run], modification_time_ms=now_ms, data_change=True)
    return encode_commit(info, [add, Txn(app_id="0", version=run.end_offset, last_updated=now_ms)])


def _write(path: Path, data: bytes, modified_at_ms: int) -> None:
    with path.open("wb") as file:
        file.write(data)
    os.utime(path, ns=(modified_at_ms * 1_000_000, modified_at_ms * 1_000_000))


def describe(path: Path) -> dict[str, str]:
    """Return facts about a store's topic: segments in the table, objects in the log, bytes of the newest checkpoint."""
    store = LocalStore(path, fsync=False)
    log = list(store.list(layout.log_prefix(TOPIC)))
    sizes = [info.size_bytes for info in log if layout.checkpoint_version(info.key) is not None]
    state = TopicLog(store, TOPIC, HistoryClock(0)).refresh()
    return {
        "segments in the table": f"{state.manifest.segment_count():,}",
        "objects in the log": f"{len(log):,}",
        "newest checkpoint, KiB": f"{sizes[-1] / 1024:,.0f}",
    }
