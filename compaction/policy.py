"""When maintenance acts: thresholds that no user has asked to change, but tests must."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Bytes are stored bytes, as segments have them."""

    target_bytes: int = 256 * 1024 * 1024
    """A merge stops taking segments here. One that is half as large is left alone."""
    sources_max: int = 2_000
    """Segments in one merge: its commit names each, with about 200 bytes."""
    flushed_min: int = 32
    """Flushed segments that are worth a merge."""
    flushed_bytes_min: int = 64 * 1024 * 1024
    """So are two or more of so many bytes together: a fourth of the target, which reading and writing them once is worth."""
    fan_in: int = 16
    """Merged segments of one tier that become one of the next."""
    merges_max: int = 3
    """How often a record is merged in its life: 32 to 2,000 flushes, then 16, then 16 of these."""
    idle_ms: int = 15 * 60_000
    """Two flushed segments are enough when the older one has waited so long."""
    quiet_ms: int = 6 * 3_600_000
    """A partition that nothing came to for so long is quiet."""
    quiet_fan_in: int = 4
    """Merged segments of one tier that become one of the next in a quiet partition, which else would keep up to 15 of each."""
    span_per_retention: float = 0.1
    """A merged segment spans at most this part of ``retention.ms``, since it expires as a whole."""
    dirty_ratio: float = 0.5
    """Part of a partition's compactable bytes that must be new before its keys are compacted (Kafka's default)."""
    deletes_at_once: int = 16
    """Objects that are deleted side by side: a bucket takes its time for each, and an hour of flushes leaves 29,000. Half of
    the connections that a store keeps."""

    def __post_init__(self) -> None:
        """Refuse what would merge for ever."""
        assert self.flushed_min >= 2
        assert self.fan_in >= 2
        assert self.quiet_fan_in >= 2
        assert self.sources_max >= self.flushed_min
        assert self.deletes_at_once >= 1
