"""Bounds of groups in a gateway: what it holds, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.tasks.supervised import PAUSE_AFTER_DEFECT_MS
from log_format import limits

SESSION_TIMEOUT_MS_MIN: Final = limits.SESSION_TIMEOUT_MS_MIN
SESSION_TIMEOUT_MS_MAX: Final = limits.SESSION_TIMEOUT_MS_MAX
SESSION_TIMEOUT_MS_DEFAULT: Final = limits.SESSION_TIMEOUT_MS_DEFAULT

REBALANCE_TIMEOUT_MS_MAX: Final = SESSION_TIMEOUT_MS_MAX
"""Maximum rebalance timeout; longer ones count as this: some clients ask for the largest integer, and joins may wait for it."""

HEARTBEAT_MS_MAX: Final = 3_000
"""Maximum interval of heartbeats (Kafka's ``heartbeat.interval.ms``); it is less for short sessions."""

OFFSETS_RETENTION_MS: Final = 7 * 86_400_000
"""Time for which a group without members keeps its offsets (Kafka's ``offsets.retention.ms``)."""

GROUPS_MAX: Final = 100_000
"""Number of groups of one store, however small. A group with a member and 8 committed offsets takes about 9 KiB in every gateway
that serves groups, so ``groups_bytes_max`` is usually the smaller bound."""

PARALLEL_GROUPS_MAX: Final = 1_024
"""Number of groups worked on in parallel when many lost their coordinator or their topics changed. They share commits, and leave
room for requests among the waiting decisions."""

MEMBERS_MAX: Final = 5_000
"""Number of members of one group, all in its row."""

FORMER_IDS_MAX: Final = 8
"""Number of replaced member ids kept for one member, whose clients are told of the replacement; older ids count as unknown."""

CLASSIC_GROUP_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of metadata and assignments of a classic group's members, all in its row. Kafka's own bound is a record of 1 MB."""

CHANGES_WAITING_MAX: Final = 2 * MEMBERS_MAX
"""Number of events that a group's next row may have to take in: each member may join or acknowledge while others leave."""

GROUP_PARTITIONS_MAX: Final = 30_000
"""Number of partitions of all topics that one group reads, all in its row: three of the largest topics."""

LARGE_GROUP_PARTITIONS: Final = 1_000
"""Number of partitions or members from which a group's next row is made in a thread."""

SUBSCRIBED_TOPICS_MAX: Final = 1_000
"""Number of topics that one member may name."""

PATTERN_CHARACTERS_MAX: Final = 1_000
PATTERN_MS_MAX: Final = 500
"""Time that matching a pattern with all topic names may take: some patterns never end."""

CACHED_MATCHES_MAX: Final = 100_000
"""Number of patterns, and of names that they matched, that are remembered: a few MB."""

DELETED_TIMES_MAX: Final = 5
"""Number of times that a request starts again because its group was deleted meanwhile."""

METADATA_BYTES_MAX: Final = 4_096
"""Maximum bytes of an offset's metadata (Kafka's ``offset.metadata.max.bytes``)."""

OFFSETS_PER_REQUEST_MAX: Final = 10_000
PARALLEL_LOOKUPS_MAX: Final = 64
"""Number of topics looked at in parallel."""

LAG_REFRESH_MS: Final = 10_000
"""Interval at which lag is computed for the metrics, however often they are scraped."""

LAG_WAIT_MS: Final = 5_000
"""Time that a scrape waits for a look: half of Prometheus' default."""

LAG_TOPICS_MAX: Final = 1_000
"""Number of topics of one look: a small part of the topics whose state may be in memory."""

LAG_GROUPS_PER_STEP: Final = 256
"""Number of groups after which the event loop serves other requests."""

STALLED_MS: Final = 30_000
"""Time without a commit from which a group with unread records is stalled. Clients commit each 5 s by default."""
STALLED_REFRESH_MS: Final = 10_000
"""Interval of looks for groups that are stalled, while somebody asks."""
STALLED_WAIT_MS: Final = 1_000
"""Time that a screen waits for such a look; what it finds later is shown the next time."""
STALLED_GROUPS_MAX: Final = 64
"""Number of groups and topics that are told to be stalled. For each a record is read for its time, once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBounds:
    """Bounds that a test may change."""

    lease_ms: int = 1_000
    """Maximum age of the table's head when a coordinator answers from memory. A gateway that takes over extends
    each member's session by it."""
    topics_watched_ms: int = 2_000
    """Interval of looks for new topics and partitions: the contract says that they are taken up within 5 s."""
    tick_ms: int = 100
    """Interval at which the coordinator looks for sessions that may have ended."""
    first_join_ms: int = 500
    """Time that an empty classic group waits for further members (Kafka's ``group.initial.rebalance.delay.ms``)."""
    pause_ms_min: int = 1_000
    """Lateness of a tick from which the process is taken to have been suspended: no session ran out meanwhile."""
    adoption_ms: int = 5_000
    """Interval at which a gateway looks for groups that lost their coordinator."""
    expiry_ms: int = 60_000
    """Interval at which a gateway looks for unused groups."""
    compaction_ms: int = 10_000
    """Interval at which the gateway checks whether the table should be compacted."""
    lag_fresh_ms: int = 5_000
    """Maximum age of a topic's state when lag is computed; topics of groups with members were looked at more recently."""
    lag_series_max: int = 1_000
    """Number of pairs of group and topic with series of their own, in one gateway."""
    lag_reads_max: int = 64
    """Number of records that one look reads for their age."""
    pause_after_defect_ms: int = PAUSE_AFTER_DEFECT_MS


assert GroupBounds().lease_ms <= SESSION_TIMEOUT_MS_MIN
assert GroupBounds().topics_watched_ms * 2 <= 5_000
assert GroupBounds().lag_fresh_ms < LAG_REFRESH_MS
