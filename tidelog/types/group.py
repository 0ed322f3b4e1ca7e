"""Consumer groups as the API describes them."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.types.record import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """The source of a commit: a group and, when one of its members commits, that member and its generation."""

    group: str
    member_id: str | None = None
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """What a group has committed for a partition: ``offset`` is the next one to read; ``committed_at`` in milliseconds."""

    topic: str
    partition: int
    offset: int
    metadata: str | None = None
    committed_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group in the list. ``state``: ``Empty``, ``Reconciling`` or ``Stable``."""

    group: str
    state: str
    generation: int
    member_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A live member; ``assignment`` is what it may read now."""

    member_id: str
    client_id: str | None = None
    instance_id: str | None = None
    assignment: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group and its members."""

    group: str
    state: str
    generation: int
    assignor: str | None = None
    members: tuple[GroupMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """How far a group is behind in a partition, in records and in milliseconds; None where it has committed nothing."""

    partition: int
    high_watermark: int
    committed_offset: int | None = None
    lag: int | None = None
    lag_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLag:
    """The partitions of one topic."""

    topic: str
    partitions: tuple[PartitionLag, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """All partitions of the topics that a group reads; ``total`` counts those for which it has committed something."""

    topics: tuple[TopicLag, ...]
    total: int
