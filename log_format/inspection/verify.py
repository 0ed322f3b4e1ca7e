"""Verifying a topic by reading all of it: its objects must have what its log says.

1. Each partition has every offset from the log start to the next offset, once. Gaps are allowed only below the offset up to which
   keys were compacted.
2. Each segment in the table is in the store, with the size, footer, filters and checksums in its commit and its footer. Its
   records are those of its runs: partition, offsets, count, stored bytes, smallest and largest timestamp.
3. What each ``add`` says to other readers is right: its ``stats``, and a ``modificationTime`` that grows with the offsets.
4. Tidelog's commits have unique ids, back to the newest checkpoint: a committer recognizes its own commit by its id.
5. What only the topic's journal has continues where its own table ends, and is there (``inspection.journal``).
6. Objects under ``segments/`` and ``compacted/`` that no commit names are counted. They are no damage: a flush or rewrite that
   failed leaves one, and one may be about to be committed.

Memory is limited to the table's list of segments, one row group, and a bit for each record of the archive's laid out files.
Gateways may write the topic concurrently: the report is about one version of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from log_format import layout, limits
from log_format.checkpoints.repair import stored_paths
from log_format.clock import Clock, SystemClock
from log_format.errors import CorruptData, ObjectMissing
from log_format.inspection.add_checks import check_statistics, find_times_going_back
from log_format.inspection.journal import VerifiedTail, verify_tail
from log_format.inspection.key_filters import CheckedFilters
from log_format.inspection.laid_out import LaidOutFiles
from log_format.inspection.pins import verify_pins
from log_format.inspection.replayed_log import listed_paths, read_logs
from log_format.segments.footer import Footer, check_magic, decode_footer
from log_format.segments.key_filters import KeyFilters
from log_format.segments.run import Run, SegmentRef
from log_format.segments.segment import decode_row_group
from log_format.store import ObjectStore
from log_format.topic.state import TopicState

Progress = Callable[[int, int], None]
"""Callback with the number of segments read, and the total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPartition:
    """A partition: its offsets ``[log_start_offset, next_offset)``, and how many of their records were found."""

    partition: int
    log_start_offset: int
    next_offset: int
    record_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The result. ``problems`` has a sentence for each problem, at most ``problems_max``."""

    ok: bool
    problems: tuple[str, ...]
    segment_count: int
    record_count: int
    """Number of records from the log starts on."""
    size_bytes: int
    """Size of all segments, by the log."""
    orphan_count: int
    """Number of objects under ``segments/`` and ``compacted/`` that no commit names."""
    partitions: tuple[VerifiedPartition, ...]


def verify_topic(
    store: ObjectStore,
    topic: str,
    *,
    clock: Clock | None = None,
    progress: Progress | None = None,
    problems_max: int = limits.VERIFY_PROBLEMS_MAX,
) -> VerifyReport:
    """Read all of a topic and report. Damage is in the report, never raised.

    Args:
        store: where the topic is.
        topic: its name.
        clock: source of time; None for the machine's.
        progress: callback after each segment.
        problems_max: most problems in the report.

    Requests: those of loading the log twice, two for each segment and one for each row group. Raises ``UnknownTopic``, and
    ``StoreUnavailable`` if the store fails.
    """
    clock = SystemClock() if clock is None else clock
    # Listed before the log is read, so that a segment committed concurrently is no orphan.
    stored = stored_paths(store, topic)
    try:
        log, journal = read_logs(store, topic, clock)
    except CorruptData as problem:
        return VerifyReport(
            ok=False,
            problems=(problem.detail,),
            segment_count=0,
            record_count=0,
            size_bytes=0,
            orphan_count=0,
            partitions=(),
        )
    state, segments = log.state, log.segments
    tail = verify_tail(store, state, journal)
    verification = _Verification(state, log.laid_out)
    for index, ((segment, runs), stats, filters) in enumerate(zip(segments, log.stats, log.filters, strict=True)):
        if progress is not None:
            progress(index, len(segments))
        verification.add_segment(segment, runs)
        _verify_segment(store, topic, segment, runs, verification, filters=filters)
        if (wrong := check_statistics(stats, runs)) is not None:
            verification.note_damage(segment, f"The statistics of segment {segment.path} {wrong}.")
    dense = [index for index, (segment, _) in enumerate(segments) if segment not in log.laid_out]
    times_ms = [log.times_ms[index] for index in dense]
    for segment, partition in find_times_going_back([segments[index] for index in dense], times_ms):
        what = (
            f"The modificationTime of segment {segment.path} is not above the one before it in partition {partition}."
        )
        verification.note_damage(segment, what)
    verification.problems += log.id_problems
    if progress is not None:
        progress(len(segments), len(segments))
    verification.finish(topic, store, clock)
    verification.problems += tail.problems
    pin_problems, pinned = verify_pins(store, state, stored)
    verification.problems += pin_problems
    orphans = stored - log.removed - pinned - {segment.path for segment, _ in segments}
    partitions = tuple(verification.report_partition(partition, tail) for partition in range(state.partition_count))
    return VerifyReport(
        ok=not verification.problems,
        problems=tuple(verification.problems[:problems_max]),
        segment_count=len(segments),
        record_count=sum(partition.record_count for partition in partitions),
        size_bytes=sum(segment.size_bytes for segment, _ in segments),
        orphan_count=len(orphans),
        partitions=partitions,
    )


@dataclass(slots=True)
class _Spans:
    """The offset ranges of one partition's runs, and how many of its records were found from the log start on."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    record_count: int = 0


class _Verification:
    """The findings so far."""

    def __init__(self, state: TopicState, laid_out: LaidOutFiles) -> None:
        self.state = state
        self.laid_out = laid_out
        self.problems: list[str] = []
        self._damaged: dict[str, str] = {}
        self._partitions = [_Spans() for _ in range(state.partition_count)]

    def add_segment(self, segment: SegmentRef, runs: list[Run]) -> None:
        """Note the offsets that a segment has by the log."""
        for run in runs if segment not in self.laid_out else ():
            self._partitions[run.partition].spans.append((run.base_offset, run.end_offset))
            may_lack_records = run.end_offset <= self.state.keys_compacted[run.partition]
            if run.record_count != run.end_offset - run.base_offset and not may_lack_records:
                span = f"[{run.base_offset}, {run.end_offset}) of partition {run.partition}"
                self.note_damage(segment, f"Segment {segment.path} has only {run.record_count} records for {span}.")

    def count_records(self, partition: int, record_count: int) -> None:
        """Count records that were read."""
        self._partitions[partition].record_count += record_count

    def note_damage(self, segment: SegmentRef, what: str) -> None:
        """Note that a segment differs from its commit; one sentence for each segment is enough."""
        self._damaged.setdefault(segment.path, what)

    def finish(self, topic: str, store: ObjectStore, clock: Clock) -> None:
        """Finish: ignore segments that left the table while they were read, then look for gaps."""
        if self._damaged:
            listed = listed_paths(store, topic, clock)
            self.problems += [what for path, what in self._damaged.items() if path in listed]
        for partition, spans in enumerate(self._partitions):
            if self.state.archive.segment_count:
                self.problems += self.laid_out.twice(partition, spans.spans, self.state.log_start(partition))
            self.problems += _gaps(partition, spans.spans, self.state)

    def report_partition(self, partition: int, tail: VerifiedTail) -> VerifiedPartition:
        """Return the partition's entry in the report."""
        return VerifiedPartition(
            partition=partition,
            log_start_offset=self.state.log_start(partition),
            next_offset=int(tail.next_offsets[partition]),
            record_count=self._partitions[partition].record_count + tail.counts.get(partition, 0),
        )


def _verify_segment(
    store: ObjectStore,
    topic: str,
    segment: SegmentRef,
    runs: list[Run],
    verification: _Verification,
    *,
    filters: KeyFilters | None,
) -> None:
    key = f"{layout.topic_root(topic)}{segment.path}"
    try:
        if segment in verification.laid_out:
            if (wrong := verification.laid_out.read(store, topic, segment, runs, filters)) is not None:
                verification.note_damage(segment, wrong)
            return
        size_bytes = store.head(key).size_bytes
        if size_bytes != segment.size_bytes:
            verification.note_damage(
                segment, f"Segment {segment.path} has {size_bytes} bytes instead of {segment.size_bytes}."
            )
            return
        checked = CheckedFilters(store, key, segment, filters, decode_footer)
        footer = checked.footer
        check_magic(store.get_range(key, 0, 4), segment)
        if (held := _runs_from_footer(footer)) != runs:
            other = next(
                iter([run for run in held if run not in runs] + [run for run in runs if run not in held]), None
            )
            verification.note_damage(segment, f"Segment {segment.path} holds other runs than its commit says: {other}.")
            return
        for index, group in enumerate(footer.row_groups):
            records = decode_row_group(footer, index, store.get_range(key, group.start, group.end))
            offsets = records.column("offset").to_numpy()
            log_start = verification.state.log_start(group.partition)
            verification.count_records(group.partition, int((offsets >= log_start).sum()))
            checked.check(index, records.column("key"))
        if checked.problem is not None:
            verification.note_damage(segment, checked.problem)
    except ObjectMissing:
        verification.note_damage(segment, f"Segment {segment.path} is missing.")
    except CorruptData as problem:
        verification.note_damage(segment, problem.detail)


def _runs_from_footer(footer: Footer) -> list[Run]:
    """Return the runs that a footer's row groups make up."""
    runs: dict[int, Run] = {}
    for group in footer.row_groups:
        before = runs.get(group.partition)
        runs[group.partition] = Run(
            partition=group.partition,
            base_offset=group.base_offset if before is None else before.base_offset,
            end_offset=group.end_offset,
            record_count=group.record_count + (0 if before is None else before.record_count),
            size_bytes=group.size_bytes + (0 if before is None else before.size_bytes),
            min_timestamp_ms=min(group.min_timestamp_ms, before.min_timestamp_ms if before else group.min_timestamp_ms),
            max_timestamp_ms=max(group.max_timestamp_ms, before.max_timestamp_ms if before else group.max_timestamp_ms),
        )
    return list(runs.values())


def _gaps(partition: int, spans: list[tuple[int, int]], state: TopicState) -> list[str]:
    """Return a sentence for each range of offsets that is there twice, or missing without key compaction or a repair."""
    problems = []
    offset = state.log_start(partition)
    for start, end in sorted(spans):
        if end <= offset and end <= state.log_start(partition):
            continue
        if start > max(offset, int(state.keys_compacted[partition])):
            problems.append(f"Partition {partition} has no offsets [{offset}, {start}).")
        elif start < offset and start >= state.log_start(partition):
            problems.append(f"Partition {partition} has offsets [{start}, {min(offset, end)}) twice.")
        offset = max(offset, end)
    if max(offset, int(state.keys_compacted[partition])) != state.high_watermark(partition):
        problems.append(f"Partition {partition} ends at offset {offset} instead of {state.high_watermark(partition)}.")
    return problems
