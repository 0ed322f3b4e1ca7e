"""A worker's task, in this process or in one of Spark's executors: segments in, segments out.

Memory has the encoded new segments (about the target size together, and the columns that they get), one span of row groups, and
at most ``WAITING_BYTES_MAX`` of records that are not encoded yet. Readers see the new segments only after the driver's commit. A
worker that crashes leaves orphans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from compaction.fill_columns import fill_columns, open_readers, typed_names
from compaction.merge_plan import RewriteReason
from log_format.checkpoints.archive_rows import scan_file
from log_format.errors import CorruptData
from log_format.ids import NewId, random_id
from log_format.layout import compacted_path, topic_root
from log_format.records.left_out import are_tombstones
from log_format.records.typed_columns import DATA, KEY_DATA, NO_TYPED_COLUMNS, TypedColumns
from log_format.schemas.columns.subject_readers import judge_for
from log_format.segments.laid_out import LaidOutWriter
from log_format.segments.writer import SegmentWriter
from log_format.store import ObjectStore
from log_format.topic.config import UNTYPED, Subjects
from log_format.topic.erasures import Erasure, erase_records
from log_format.topic.live_segments import LiveSegment
from log_format.topic.rewrite import NewSegment
from log_format.topic.segment_tags import Rewritten

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Most bytes of records, over all partitions, whose row group is not full; above it the largest row group is ended."""

KEYS_SCHEMA: Final = pa.schema([("partition", pa.int32()), ("key", pa.binary()), ("offset", pa.int64())])

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """A rewrite. ``log_starts``: those of the plan. ``tombstones_go``: whether to drop each source's tombstones, only with
    ``RewriteReason.KEYS``."""

    number: int
    topic: str
    reason: RewriteReason
    sources: tuple[LiveSegment, ...]
    log_starts: Mapping[int, int]
    compression: str
    now_ms: int
    tombstones_go: tuple[bool, ...] = ()
    columns: TypedColumns = NO_TYPED_COLUMNS
    """Typed columns of the table, so of the new segments."""
    subjects: Subjects = UNTYPED
    """Subjects by whose schemas records without typed columns are judged; ``UNTYPED``: they stay without."""
    erasures: tuple[Erasure, ...] = ()
    """Requests to carry out, only with ``RewriteReason.ERASE``."""
    judged_by: Subjects = UNTYPED
    """Subjects by whose schemas conditions of requests judge records without typed columns, which they don't get."""
    secret: bytes = field(default=b"", repr=False)
    """The cluster's key, by which they name keys."""
    row_groups: tuple[int, ...] | None = None
    """The row groups of the one source that may have anything to erase; None: any of them."""

    @property
    def record_count(self) -> int:
        """Number of records in the sources, including those below a log start."""
        return sum(run.record_count for source in self.sources for run in source.runs)

    @property
    def partition(self) -> int:
        """The one partition of a key compaction."""
        (partition,) = {run.partition for source in self.sources for run in source.runs}
        return partition

    @property
    def end_offset(self) -> int:
        """Offset after the last record of a key compaction."""
        return max(run.end_offset for source in self.sources for run in source.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The result of a task: the new segments, in the store. ``is_unchanged``: no record had to change, so there are none."""

    number: int
    added: tuple[NewSegment, ...]
    is_unchanged: bool = False
    columns: TypedColumns = NO_TYPED_COLUMNS
    """Typed columns of the new segments."""
    erased: Mapping[str, int] = field(default_factory=dict)
    """How many records each request erased, by its id."""


def rewrite(
    store: ObjectStore, task: RewriteTask, newest: Offsets | None = None, *, new_id: NewId = random_id
) -> TaskResult:
    """Do one task. Records without a key are kept.

    Records without typed columns are judged by ``task.subjects``.

    ``newest``: with ``RewriteReason.KEYS``, the sorted offsets of the records that no later one supersedes. ``new_id``: makes
    names of segments. Raises ``CorruptData`` if a source is missing or damaged, ``StoreUnavailable``, and as ``open_readers``.
    """
    if task.reason is RewriteReason.ERASE and not _has_any(store, task):
        return TaskResult(number=task.number, added=(), is_unchanged=True)
    readers, columns = None, task.columns
    if task.subjects.are_set:
        readers, columns = open_readers(store, task.subjects, task.columns)
    writers: dict[int, SegmentWriter] = {}
    tombstones: dict[int, int] = {}
    kept_count = 0
    erased: Counter[str] = Counter()
    judge = judge_for(task.erasures, store, task.judged_by)
    for source, tombstones_go in zip(task.sources, task.tombstones_go or [False] * len(task.sources), strict=True):
        for table in _scan(store, task, source):
            records = table if newest is None else _drop_older_records(table, newest, tombstones_go=tombstones_go)
            kept_count += records.num_rows
            if task.erasures:
                done = erase_records(records, task.erasures, task.secret, judge)
                records = done.records
                erased.update(done.counts)
            if readers is not None:
                records = fill_columns(records, readers, source.typed)
            for partition, part in _split_by_partition(records) if source.layout is None else [(0, records)]:
                if partition not in writers:
                    kind = SegmentWriter if source.layout is None else LaidOutWriter
                    writers[partition] = kind(compression=task.compression, columns=columns)
                writers[partition].add(part)
                tombstones[partition] = tombstones.get(partition, 0) + (pc.sum(are_tombstones(part)).as_py() or 0)
            _limit_waiting(writers)
    was_clean = all(source.rewritten.keys_compacted_at_ms is not None for source in task.sources)
    if task.reason is RewriteReason.KEYS and was_clean and len(task.sources) == 1 and kept_count == task.record_count:
        return TaskResult(number=task.number, added=(), is_unchanged=True)
    added = tuple(_put(store, task, writers, tombstones, new_id))
    return TaskResult(number=task.number, added=added, columns=columns, erased=dict(erased))


def _has_any(store: ObjectStore, task: RewriteTask) -> bool:
    """Return whether the sources have anything of what is to be erased, also in records below a log start."""
    judge = judge_for(task.erasures, store, task.judged_by)
    return any(
        erase_records(table, task.erasures, task.secret, judge).counts
        for source in task.sources
        for table in scan_file(store, task.topic, source, row_groups=task.row_groups)
    )


def read_keys(store: ObjectStore, task: RewriteTask) -> Iterator[pa.Table]:
    """Yield partition, key and offset (``KEYS_SCHEMA``) of all records of a task with a key. Raises the same errors as
    ``rewrite``."""
    for source in task.sources:
        for table in _scan(store, task, source):
            yield table.select(KEYS_SCHEMA.names).filter(pc.is_valid(table.column("key")))


def _scan(store: ObjectStore, task: RewriteTask, source: LiveSegment) -> Iterator[pa.Table]:
    """Yield the source's records from the log starts on. Raises ``CorruptData`` if their number differs from the log's."""
    count = 0
    for table in scan_file(store, task.topic, source):
        count += table.num_rows
        if any(run.base_offset < task.log_starts.get(run.partition, 0) for run in source.runs):
            starts = np.zeros(1 + max(run.partition for run in source.runs), np.int64)
            for partition, log_start in task.log_starts.items():
                if partition < len(starts):
                    starts[partition] = log_start
            live = table.column("offset").to_numpy() >= starts[table.column("partition").to_numpy()]
            yield table.filter(pa.array(live))
        else:
            yield table
    if count != sum(run.record_count for run in source.runs):
        path = source.segment.path
        raise CorruptData(f"Segment {path} holds {count} records, not as many as the log says.", segment=path)


def _drop_older_records(table: pa.Table, newest: Offsets, *, tombstones_go: bool) -> pa.Table:
    stays = pc.or_(pc.is_null(table.column("key")), pa.array(np.isin(table.column("offset").to_numpy(), newest)))
    if tombstones_go:
        is_tombstone = pc.and_(pc.is_valid(table.column("key")), are_tombstones(table))
        stays = pc.and_(stays, pc.invert(is_tombstone))
    return table.filter(stays)


def _split_by_partition(records: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    partitions = records.column("partition").to_numpy()
    if len(partitions) == 0:
        return
    starts = np.append(0, np.flatnonzero(np.diff(partitions)) + 1)
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(partitions)], strict=True):
        yield int(partitions[start]), records.slice(start, end - start)


def _limit_waiting(writers: Mapping[int, SegmentWriter]) -> None:
    while sum(writer.waiting_bytes for writer in writers.values()) > WAITING_BYTES_MAX:
        max(writers.values(), key=lambda writer: writer.waiting_bytes).flush()


def _put(
    store: ObjectStore,
    task: RewriteTask,
    writers: dict[int, SegmentWriter],
    tombstones: Mapping[int, int],
    new_id: NewId,
) -> Iterator[NewSegment]:
    filled = typed_names(task.subjects)
    for partition in sorted(writers):
        written = writers.pop(partition).finish()
        if written is None:
            continue
        path = compacted_path(new_id())
        store.put(f"{topic_root(task.topic)}{path}", written.data)
        (layout,) = {source.layout for source in task.sources}
        sources = [
            one for one in task.sources if layout is not None or any(run.partition == partition for run in one.runs)
        ]
        judged = {DATA, KEY_DATA}.intersection(*({*source.typed, *filled} for source in sources))
        yield NewSegment(
            segment=written.ref(path),
            run=written.runs[0],
            modification_time_ms=max(source.modification_time_ms for source in sources),
            rewritten=_describe_rewrite(task, sources, tombstones[partition]),
            filters=written.filters,
            columns=replace(written.statistics, judged=tuple(sorted(judged.union(written.statistics.judged)))),
            other_runs=written.runs[1:],
            layout=layout,
        )


def _describe_rewrite(task: RewriteTask, sources: list[LiveSegment], tombstone_count: int) -> Rewritten:
    times = max(source.rewritten.times for source in sources)
    times = times + 1 if task.reason is RewriteReason.MERGE else max(times, 1)
    compacted = [source.rewritten.keys_compacted_at_ms for source in sources]
    if all(time is not None for time in compacted):
        return Rewritten(times, max(time for time in compacted if time is not None), tombstone_count)
    return Rewritten(times, task.now_ms, tombstone_count) if task.reason is RewriteReason.KEYS else Rewritten(times)
