"""The plan of which segments to clear of superseded keys: ``cleanup.policy`` with ``compact``, as in Kafka's log cleaner. Pure.

A partition's oldest segments are compactable, up to the first of these: its newest segment, one that is not merged yet, or one
with a record younger than ``min.compaction.lag.ms``. Segments whose keys were compacted before are clean, the others are dirty.

All compactable segments are compacted when enough of them is dirty, or when tombstones have waited for ``delete.retention.ms``
since the first compaction that kept them (KIP-534). By then every reader that had read a value has had the time to read its
tombstone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compaction.merge_plan import group_by_partition
from compaction.policy import Policy
from log_format.topic.live_segments import LiveSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroup:
    """Adjacent segments of one partition that become one, and for each whether its tombstones may be dropped."""

    sources: tuple[LiveSegment, ...]
    tombstones_go: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCompaction:
    """All compactable segments of one partition, in groups in order of offset."""

    partition: int
    groups: tuple[KeyGroup, ...]


def plan_key_compactions(
    segments: Sequence[LiveSegment],
    *,
    policy: Policy,
    delete_retention_ms: int,
    min_compaction_lag_ms: int,
    now_ms: int,
) -> list[KeyCompaction]:
    """Return the partitions to compact now.

    Args:
        segments: live segments of the topic.
        policy: thresholds.
        delete_retention_ms: time for which tombstones are kept after a compaction.
        min_compaction_lag_ms: age that all records of a segment must have.
        now_ms: present time, in ms since the epoch.
    """
    plans = []
    for partition, row in sorted(group_by_partition(segments).items()):
        compactable = _compactable(row, now_ms - min_compaction_lag_ms if min_compaction_lag_ms > 0 else None)
        total = sum(each.segment.size_bytes for each in compactable)
        dirty = sum(each.segment.size_bytes for each in compactable if _is_dirty(each))
        expired = [_has_expired(each, now_ms - delete_retention_ms) for each in compactable]
        if compactable and (dirty >= policy.dirty_ratio * total or any(expired)):
            groups = _groups(compactable, expired, policy)
            plans.append(KeyCompaction(partition=partition, groups=tuple(groups)))
    return plans


def _compactable(row: Sequence[LiveSegment], newest_ms: int | None) -> list[LiveSegment]:
    compactable = []
    for segment in row[:-1]:
        too_young = newest_ms is not None and max(run.max_timestamp_ms for run in segment.runs) > newest_ms
        if segment.is_flushed or len(segment.runs) != 1 or too_young:
            break
        compactable.append(segment)
    return compactable


def _is_dirty(segment: LiveSegment) -> bool:
    return segment.rewritten.keys_compacted_at_ms is None


def _has_expired(segment: LiveSegment, oldest_ms: int) -> bool:
    compacted_at_ms, tombstone_count = segment.rewritten.keys_compacted_at_ms, segment.rewritten.tombstone_count
    return compacted_at_ms is not None and tombstone_count > 0 and compacted_at_ms <= oldest_ms


def _groups(compactable: Sequence[LiveSegment], expired: Sequence[bool], policy: Policy) -> list[KeyGroup]:
    """Return adjacent segments, all clean or all dirty, with at most the target size together."""
    groups: list[KeyGroup] = []
    sources: list[LiveSegment] = []
    flags: list[bool] = []
    for segment, tombstones_go in zip(compactable, expired, strict=True):
        size_bytes = sum(each.segment.size_bytes for each in [*sources, segment])
        if sources and (_is_dirty(sources[0]) != _is_dirty(segment) or size_bytes > policy.target_bytes):
            groups.append(KeyGroup(sources=tuple(sources), tombstones_go=tuple(flags)))
            sources, flags = [], []
        sources.append(segment)
        flags.append(tombstones_go)
    groups.append(KeyGroup(sources=tuple(sources), tombstones_go=tuple(flags)))
    return groups
