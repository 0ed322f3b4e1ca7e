"""Consumer groups as the API describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from tidelog.types.record import TopicPartition


class OffsetAndMetadata(NamedTuple):
    """Next offset to read of a partition, and text stored with it."""

    offset: int
    metadata: str | None = None


NextOffset = int | OffsetAndMetadata
"""Value that is committed for a partition."""


class GroupMetadata(msgspec.Struct, frozen=True):
    """Source of a commit: a group and, when one of its members commits, that member and its generation."""

    group: str
    member_id: str | None = None
    generation: int | None = None
    topic_ids: Mapping[TopicPartition, str] = msgspec.field(default_factory=dict)
    """Ids of the topics that the member reads, if gateways report them. Offsets of a topic that was recreated since are
    ignored."""


class CommittedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """A group's committed offset of a partition: ``offset`` is the next one to read; ``committed_at`` in milliseconds.

    ``topic_id``: the topic to which the offset belongs, if the gateway reports it; a topic recreated under the name has
    another.
    """

    topic: str
    partition: int
    offset: int
    metadata: str | None = None
    committed_at: int = 0
    topic_id: str | None = None


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A listed group. ``state``: ``Empty``, ``Reconciling`` or ``Stable``."""

    group: str
    state: str
    generation: int
    member_count: int


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A live member; ``assignment``: the partitions that it may read now.

    ``heard_at``: when it called its coordinator last; ``committed_at``: when it committed last; in milliseconds since the epoch,
    None if not known. A member that calls and does not commit while there is lag is stuck.
    """

    member_id: str
    client_id: str | None = None
    instance_id: str | None = None
    assignment: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    heard_at: int | None = None
    committed_at: int | None = None


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group and its members."""

    group: str
    state: str
    generation: int
    assignor: str | None = None
    members: tuple[GroupMember, ...] = ()


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """A group's lag in a partition, in records and in milliseconds; None if the group has committed nothing there.

    ``unread``, ``unread_ms``: the same, but from the log start on where nothing is committed; None from a gateway that does not
    know it.
    """

    partition: int
    high_watermark: int
    committed_offset: int | None = None
    lag: int | None = None
    lag_ms: int | None = None
    unread: int | None = None
    unread_ms: int | None = None

    @property
    def records_behind(self) -> int:
        """Number of records that the group has not read, as far as the gateway knows it."""
        return (self.lag or 0) if self.unread is None else self.unread

    @property
    def ms_behind(self) -> int | None:
        """Age of the first of them in milliseconds, as far as the gateway knows it."""
        return self.lag_ms if self.unread_ms is None else self.unread_ms


class TopicLag(msgspec.Struct, frozen=True, kw_only=True):
    """Lag in the partitions of one topic."""

    topic: str
    partitions: tuple[PartitionLag, ...]


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """Lag in all topics that a group reads. ``total`` sums the partitions with a committed offset, ``records_behind`` all."""

    topics: tuple[TopicLag, ...]
    total: int

    @property
    def records_behind(self) -> int:
        """Number of records that the group has not read."""
        return sum(each.records_behind for topic in self.topics for each in topic.partitions)
