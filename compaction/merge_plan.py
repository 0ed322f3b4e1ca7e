"""The plan of which segments are merged. Pure.

1. Flushed segments, oldest first, become one segment for each of their partitions, when there are enough, in number or in bytes,
   or when the first has waited long enough.
2. Merged segments of one partition and one tier, adjacent in offset, become one segment of the next tier when there are enough.
   Fewer are enough in a partition without new records for a long time. A segment is not merged any more after ``merges_max``
   merges, or at half the target size, so no record is merged more often than that.
3. Segments with records that the topic's schemas have not judged are rewritten with typed columns (``data.backfill``), those that
   are merged anyway by their merge.
4. A segment with records below a log start, and with others, is rewritten without the former: a user deleted them.

Within each partition no other segment has offsets between those of one merge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from compaction.policy import Policy
from log_format.topic.live_segments import LiveSegment


class RewriteReason(StrEnum):
    """The reason of a rewrite."""

    MERGE = "merge"
    TRIM = "trim"
    KEYS = "keys"
    BACKFILL = "backfill"
    ERASE = "erase"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Segments to rewrite together, in order of offset in every partition."""

    sources: tuple[LiveSegment, ...]
    reason: RewriteReason

    @property
    def size_bytes(self) -> int:
        """Stored bytes of the sources."""
        return sum(source.segment.size_bytes for source in self.sources)


def plan_merges(
    segments: Sequence[LiveSegment],
    log_starts: Mapping[int, int],
    *,
    policy: Policy,
    retention_ms: int,
    now_ms: int,
    typed: Collection[str] = (),
) -> list[Merge]:
    """Return what to rewrite now.

    Args:
        segments: all live segments, by modification time.
        log_starts: log start of each partition.
        policy: thresholds.
        retention_ms: the topic's retention; -1 for no limit.
        now_ms: present time, in ms since the epoch.
        typed: typed columns that all segments are to have.
    """
    span_ms = int(retention_ms * policy.span_per_retention) if retention_ms >= 0 else None
    merges = [
        *_merges_of_flushed(segments, policy, span_ms, now_ms),
        *_merges_of_tiers(segments, policy, span_ms, now_ms),
    ]
    used = {source.segment.path for merge in merges for source in merge.sources}
    untyped = [one for one in segments if lacks_columns(one, typed) and one.segment.path not in used]
    backfills = [*_backfills(untyped, policy, span_ms)]
    used |= {one.segment.path for one in untyped}
    trims = [
        Merge(sources=(segment,), reason=RewriteReason.TRIM)
        for segment in segments
        if segment.segment.path not in used and _holds_deleted_records(segment, log_starts)
    ]
    return [*merges, *backfills, *trims]


def lacks_columns(segment: LiveSegment, typed: Collection[str]) -> bool:
    """Return whether the segment may have records that were not judged by the schemas of these typed columns."""
    return not set(typed) <= set(segment.typed)


def _merges_of_flushed(
    segments: Sequence[LiveSegment], policy: Policy, span_ms: int | None, now_ms: int
) -> Iterator[Merge]:
    for group in _adjacent_in_time(segments):
        for chunk, is_full in _chunks(group, policy.target_bytes, policy.sources_max, span_ms):
            is_old = now_ms - chunk[0].modification_time_ms >= policy.idle_ms
            is_large = sum(each.segment.size_bytes for each in chunk) >= policy.flushed_bytes_min
            if len(chunk) >= (2 if is_full or is_old or is_large else policy.flushed_min):
                yield Merge(sources=tuple(chunk), reason=RewriteReason.MERGE)


def _backfills(untyped: Sequence[LiveSegment], policy: Policy, span_ms: int | None) -> Iterator[Merge]:
    for group in _adjacent_in_time(untyped):
        for chunk, _ in _chunks(group, policy.target_bytes // 2, policy.sources_max, span_ms):
            yield Merge(sources=tuple(chunk), reason=RewriteReason.BACKFILL)
    for segment in untyped:
        if not segment.is_flushed:
            yield Merge(sources=(segment,), reason=RewriteReason.BACKFILL)


def _adjacent_in_time(segments: Sequence[LiveSegment]) -> Iterator[list[LiveSegment]]:
    """Yield groups of flushed segments whose runs, in each partition, follow each other without another segment between."""
    group: list[LiveSegment] = []
    ends: dict[int, int] = {}
    for segment in segments:
        if segment.is_flushed:
            follows = all(ends.get(run.partition, run.base_offset) == run.base_offset for run in segment.runs)
            if group and not follows:
                yield group
                group, ends = [], {}
            group.append(segment)
            ends.update((run.partition, run.end_offset) for run in segment.runs)
    if group:
        yield group


def _merges_of_tiers(
    segments: Sequence[LiveSegment], policy: Policy, span_ms: int | None, now_ms: int
) -> Iterator[Merge]:
    for row in group_by_partition(segments).values():
        is_quiet = now_ms - max(each.modification_time_ms for each in row) >= policy.quiet_ms
        tier: list[LiveSegment] = []
        for segment in [*row, None]:
            if segment is not None and _is_mergeable(segment, policy) and (not tier or _are_alike(tier[-1], segment)):
                tier.append(segment)
                continue
            for chunk, is_full in _chunks(tier, policy.target_bytes, policy.fan_in, span_ms):
                if len(chunk) >= (2 if is_full else policy.quiet_fan_in if is_quiet else policy.fan_in):
                    yield Merge(sources=tuple(chunk), reason=RewriteReason.MERGE)
            tier = [segment] if segment is not None and _is_mergeable(segment, policy) else []


def group_by_partition(segments: Iterable[LiveSegment]) -> dict[int, list[LiveSegment]]:
    """Return the segments of each partition, in order of offset."""
    rows: dict[int, list[tuple[int, LiveSegment]]] = {}
    for segment in segments:
        for run in segment.runs:
            rows.setdefault(run.partition, []).append((run.base_offset, segment))
    return {partition: [each for _, each in sorted(row, key=lambda entry: entry[0])] for partition, row in rows.items()}


def _is_mergeable(segment: LiveSegment, policy: Policy) -> bool:
    return (
        not segment.is_flushed
        and segment.rewritten.times < policy.merges_max
        and segment.segment.size_bytes < policy.target_bytes // 2
    )


def _are_alike(one: LiveSegment, other: LiveSegment) -> bool:
    compacted = [each.rewritten.keys_compacted_at_ms is None for each in (one, other)]
    return one.rewritten.times == other.rewritten.times and compacted[0] == compacted[1]


def _chunks(
    segments: Sequence[LiveSegment], bytes_max: int, count_max: int, span_ms: int | None
) -> Iterator[tuple[list[LiveSegment], bool]]:
    """Yield the segments in pieces within these limits, and whether each is full: all are, except perhaps the last one."""
    chunk: list[LiveSegment] = []
    size_bytes = 0
    for segment in segments:
        size = segment.segment.size_bytes
        spans = span_ms is not None and chunk and _span_ms([chunk[0], segment]) > max(span_ms, _span_ms(chunk))
        if chunk and (size_bytes + size > bytes_max or len(chunk) >= count_max or spans):
            yield chunk, True
            chunk, size_bytes = [], 0
        chunk.append(segment)
        size_bytes += size
    if chunk:
        yield chunk, len(chunk) >= count_max


def _span_ms(segments: Sequence[LiveSegment]) -> int:
    times = [
        time for segment in segments for run in segment.runs for time in (run.min_timestamp_ms, run.max_timestamp_ms)
    ]
    return max(times) - min(times)


def _holds_deleted_records(segment: LiveSegment, log_starts: Mapping[int, int]) -> bool:
    """Return whether the segment has records below a log start, and others."""
    has_deleted = any(run.base_offset < log_starts.get(run.partition, 0) for run in segment.runs)
    return has_deleted and any(run.end_offset > log_starts.get(run.partition, 0) for run in segment.runs)
