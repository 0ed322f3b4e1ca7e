"""The bounds of groups in a gateway: what it holds, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.supervised import PAUSE_AFTER_DEFECT_MS
from log_format import limits

SESSION_TIMEOUT_MS_MIN: Final = limits.SESSION_TIMEOUT_MS_MIN
SESSION_TIMEOUT_MS_MAX: Final = limits.SESSION_TIMEOUT_MS_MAX
SESSION_TIMEOUT_MS_DEFAULT: Final = limits.SESSION_TIMEOUT_MS_DEFAULT

REBALANCE_TIMEOUT_MS_MAX: Final = SESSION_TIMEOUT_MS_MAX
"""Longer ones count as this: some clients ask for the largest integer, and calls that join may wait so long."""

HEARTBEAT_MS_MAX: Final = 3_000
"""Kafka's ``heartbeat.interval.ms``; less where the session is short."""

OFFSETS_RETENTION_MS: Final = 7 * 86_400_000
"""Kafka's ``offsets.retention.ms``: how long a group without members keeps its offsets."""

GROUPS_MAX: Final = 100_000
"""Groups of one store, however small. A group with a member and 8 committed offsets takes about 9 KiB in every gateway that
serves groups, so ``groups_bytes_max`` is usually the smaller bound."""

GROUPS_AT_ONCE: Final = 1_024
"""Groups worked on side by side when many lost their coordinator or their topics changed. They share commits, and leave room for
requests among the waiting decisions."""

MEMBERS_MAX: Final = 5_000
"""Members of one group, all in its row."""

FORMER_IDS_MAX: Final = 8
"""Replaced member ids that are told so; older ones count as unknown."""

CLASSIC_GROUP_BYTES_MAX: Final = 4 * 1024 * 1024
"""Metadata and assignments of a classic group's members, all in its row. Kafka's own bound is a record of 1 MB."""

CHANGES_WAITING_MAX: Final = 2 * MEMBERS_MAX
"""Events that a group's next row may have to take in: each member may join or acknowledge while others leave."""

GROUP_PARTITIONS_MAX: Final = 30_000
"""Partitions of all topics that one group reads, all in its row: three of the largest topics."""

LARGE_GROUP_PARTITIONS: Final = 1_000
"""With so many partitions or members a group's next row is made in a thread."""

SUBSCRIBED_TOPICS_MAX: Final = 1_000
"""Topics that one member may name."""

PATTERN_CHARACTERS_MAX: Final = 1_000
PATTERN_MS_MAX: Final = 500
"""How long matching a pattern with all topic names may take: some patterns never end."""

MATCHES_REMEMBERED_MAX: Final = 100_000
"""Patterns, and names that they matched, that are remembered: a few MB."""

DELETED_TIMES_MAX: Final = 5
"""How often a request starts anew because its group was deleted under it."""

METADATA_BYTES_MAX: Final = 4_096
"""Kafka's ``offset.metadata.max.bytes``."""

OFFSETS_PER_REQUEST_MAX: Final = 10_000
LOOKS_AT_ONCE: Final = 64
"""Topics looked at side by side."""

LAG_LOOK_MS: Final = 10_000
"""How often lag is computed for the metrics, however often they are scraped."""

LAG_WAIT_MS: Final = 5_000
"""How long a scrape waits for a look: half of Prometheus' default."""

LAG_TOPICS_MAX: Final = 1_000
"""Topics of one look: half of the topics whose state may be in memory."""

LAG_GROUPS_PER_STEP: Final = 256
"""Groups after which other requests get their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBounds:
    """The bounds that a test may change."""

    lease_ms: int = 1_000
    """How old the table's head may be when a coordinator answers from memory. A gateway that takes over gives each member so much
    more time."""
    topics_watched_ms: int = 2_000
    """How often new topics and partitions are looked for: the contract says that they are taken up within 5 s."""
    tick_ms: int = 100
    """How often the coordinator looks for sessions that may have ended."""
    first_join_ms: int = 500
    """How long an empty classic group waits for further members; Kafka's ``group.initial.rebalance.delay.ms``."""
    pause_ms_min: int = 1_000
    """A tick as late as this shows that the process stood still: no session ran meanwhile."""
    adoption_ms: int = 5_000
    """How often a gateway looks for groups that lost their coordinator."""
    expiry_ms: int = 60_000
    """How often a gateway looks for unused groups."""
    compaction_ms: int = 10_000
    """How often the gateway checks whether the table should be compacted."""
    lag_fresh_ms: int = 5_000
    """How old a topic's state may be for that; topics of groups with members were looked at more recently."""
    lag_series_max: int = 1_000
    """Pairs of group and topic with series of their own, in one gateway."""
    lag_reads_max: int = 64
    """Records that one look reads for their age."""
    pause_after_defect_ms: int = PAUSE_AFTER_DEFECT_MS


assert GroupBounds().lease_ms <= SESSION_TIMEOUT_MS_MIN
assert GroupBounds().topics_watched_ms * 2 <= 5_000
assert GroupBounds().lag_fresh_ms < LAG_LOOK_MS
