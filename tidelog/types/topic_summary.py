"""Topics in any order, page by page, with the sums of all, as the API gives them."""

from __future__ import annotations

from typing import Literal

import msgspec

from tidelog.types.topic import DamagedTopic

SummaryOrder = Literal["name", "partitions", "records", "size", "segments", "rate", "lag"]


class GroupBehind(msgspec.Struct, frozen=True, kw_only=True):
    """A group that reads a topic. ``lag``: in records; None: it has committed nothing for the topic."""

    group: str
    member_count: int = 0
    lag: int | None = None


class TopicSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a topic. Times are milliseconds since the epoch.

    ``rate``: records a second between the gateway's last two looks at the topic, None before the second. ``lag``: of all groups
    together, in records; None: none has committed. ``groups``: the three that are furthest behind.
    """

    name: str
    partition_count: int
    records: int
    size_bytes: int
    segments: int
    rate: float | None = None
    mode: str = "own"
    created_at: int = 0
    retention_ms: int = -1
    schema: str | None = None
    lag: int | None = None
    group_count: int = 0
    groups: tuple[GroupBehind, ...] = ()
    activity: tuple[int, ...] | None = None
    """Records by their timestamps, the oldest step first; None: not requested."""


class TopicTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over all topics of a filter. ``looked_at``: how many topics the sums and the order are of; the gateway is still
    looking at the others. ``rate`` is None before a second look at any topic."""

    topics: int
    looked_at: int
    damaged: int
    partitions: int
    records: int
    size_bytes: int
    segments: int
    rate: float | None = None


class TopicSummaries(msgspec.Struct, frozen=True, kw_only=True):
    """A page of topics, the damaged ones of the filter (at most 100), and the sums of all topics of the filter."""

    topics: tuple[TopicSummary, ...]
    total: TopicTotals
    damaged: tuple[DamagedTopic, ...] = ()
