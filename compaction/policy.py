"""Thresholds of maintenance that no user has asked to change, but tests change."""

from __future__ import annotations

from dataclasses import dataclass

from log_format import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The thresholds of maintenance. Bytes are stored bytes of segments."""

    target_bytes: int = 256 * 1024 * 1024
    """Size at which a merge stops taking segments. A segment of half this size is not merged any more."""
    sources_max: int = 2_000
    """Most segments in one merge: its commit names each, in about 200 bytes."""
    removes_max: int = limits.REMOVES_PER_COMMIT_MAX
    """Most expired segments that one commit removes."""
    flushed_min: int = 32
    """Number of flushed segments that justify a merge."""
    flushed_bytes_min: int = 64 * 1024 * 1024
    """Size from which even two flushed segments justify a merge: a fourth of the target, worth reading and writing once."""
    fan_in: int = 16
    """Number of merged segments of one tier that become one of the next tier."""
    merges_max: int = 3
    """Most merges of a record: 32 to 2,000 flushes, then 16 of these, then 16 again."""
    idle_ms: int = 15 * 60_000
    """Age of a flushed segment from which two justify a merge."""
    quiet_ms: int = 6 * 3_600_000
    """Time without new records after which a partition is quiet."""
    quiet_fan_in: int = 4
    """``fan_in`` in a quiet partition, which would otherwise keep up to 15 segments of each tier."""
    span_per_retention: float = 0.1
    """Largest share of ``retention.ms`` that a merged segment spans, since it expires as a whole."""
    dirty_ratio: float = 0.5
    """Share of a partition's compactable bytes that must be new before its keys are compacted (Kafka's default)."""
    backfill_bytes_max: int = 512 * 1024 * 1024
    """Most bytes that one topic's backfill rewrites in one round, for each worker: some tens of seconds. Then it is the other
    topics' turn, and the next round goes on."""
    layout_bytes_max: int = 1024 * 1024 * 1024
    """Bytes of one topic's archive after which a round lays out no more, for each worker; a single rewrite may be larger. Then it
    is the other topics' turn."""
    reads_at_once: int = 16
    """Number of filters read in parallel for erasures, half of the connections that a store keeps."""
    deletes_at_once: int = 16
    """Number of objects deleted in parallel, half of the connections that a store keeps. Each deletion from a bucket is slow, and
    an hour of flushes leaves 29,000 objects."""

    def __post_init__(self) -> None:
        """Refuse a policy that would merge for ever."""
        assert self.flushed_min >= 2
        assert self.fan_in >= 2
        assert self.quiet_fan_in >= 2
        assert self.sources_max >= self.flushed_min
        assert self.deletes_at_once >= 1
        assert self.reads_at_once >= 1
