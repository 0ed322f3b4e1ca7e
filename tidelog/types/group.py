"""Consumer groups as the API describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from tidelog.types.record import TopicPartition


class OffsetAndMetadata(NamedTuple):
    """The next offset to read of a partition, and text that is kept with it."""

    offset: int
    metadata: str | None = None


NextOffset = int | OffsetAndMetadata
"""What is committed for a partition."""


class GroupMetadata(msgspec.Struct, frozen=True):
    """The source of a commit: a group and, when one of its members commits, that member and its generation."""

    group: str
    member_id: str | None = None
    generation: int | None = None
    topic_ids: Mapping[TopicPartition, str] = msgspec.field(default_factory=dict)
    """The topics that the member reads, where gateways tell their ids. An offset of one that was made anew since counts for
    nothing."""


class CommittedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """What a group has committed for a partition: ``offset`` is the next one to read; ``committed_at`` in milliseconds.
    ``topic_id``: the topic that it belongs to, where the gateway tells it; one made anew under the name is another one."""

    topic: str
    partition: int
    offset: int
    metadata: str | None = None
    committed_at: int = 0
    topic_id: str | None = None


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A group in the list. ``state``: ``Empty``, ``Reconciling`` or ``Stable``."""

    group: str
    state: str
    generation: int
    member_count: int


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A live member; ``assignment`` is what it may read now."""

    member_id: str
    client_id: str | None = None
    instance_id: str | None = None
    assignment: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group and its members."""

    group: str
    state: str
    generation: int
    assignor: str | None = None
    members: tuple[GroupMember, ...] = ()


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is behind in a partition, in records and in milliseconds; None where it has committed nothing."""

    partition: int
    high_watermark: int
    committed_offset: int | None = None
    lag: int | None = None
    lag_ms: int | None = None


class TopicLag(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of one topic."""

    topic: str
    partitions: tuple[PartitionLag, ...]


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """All partitions of the topics that a group reads; ``total`` counts those for which it has committed something."""

    topics: tuple[TopicLag, ...]
    total: int
