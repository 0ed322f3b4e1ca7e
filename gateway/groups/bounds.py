"""What a gateway holds of groups, and how long it waits."""

from __future__ import annotations

from typing import Final

from log_format import limits

LEASE_MS: Final = 1_000
"""How old the table's head may be when a coordinator answers from memory. A gateway that takes over gives each member that
much more time."""

SESSION_TIMEOUT_MS_MIN: Final = limits.SESSION_TIMEOUT_MS_MIN
SESSION_TIMEOUT_MS_MAX: Final = limits.SESSION_TIMEOUT_MS_MAX
SESSION_TIMEOUT_MS_DEFAULT: Final = limits.SESSION_TIMEOUT_MS_DEFAULT

HEARTBEAT_MS_MAX: Final = 3_000
"""Kafka's ``heartbeat.interval.ms``; shorter where the session is."""

TOPICS_WATCHED_MS: Final = 2_000
"""How often new topics and partitions are looked for: taken up within 5 s, the contract says."""

TICK_MS: Final = 100
"""How often sessions are looked at that may have ended."""

PAUSE_MS_MIN: Final = 1_000
"""A tick so late says that this process stood still: no session ran meanwhile."""

ADOPTION_MS: Final = 5_000
"""How often a gateway looks for groups that lost their coordinator."""

EXPIRY_MS: Final = 60_000
"""How often a gateway looks for unused groups."""

OFFSETS_RETENTION_MS: Final = 7 * 86_400_000
"""Kafka's ``offsets.retention.ms``: how long the offsets of a group without members stay."""

GROUPS_MAX: Final = 100_000
"""Groups of one store, however little each is. One with a member and 8 committed offsets takes about 9 KiB of memory in every
gateway that serves some, so ``groups_bytes_max`` says first how many there may be."""

GROUPS_AT_ONCE: Final = 1_024
"""Groups that are worked on side by side when many lost their coordinator, or their topics changed: they share commits, and
leave room for requests among the decisions that may wait."""

MEMBERS_MAX: Final = 5_000
"""Members of one group: its row has them all."""

CHANGES_WAITING_MAX: Final = 2 * MEMBERS_MAX
"""What a group's next row may have to take in: each member may join or acknowledge while others leave."""

GROUP_PARTITIONS_MAX: Final = 30_000
"""Partitions of all topics that one group reads: three of the largest topics. Its row has them all."""

LARGE_GROUP_PARTITIONS: Final = 1_000
"""Partitions, or members, from which on a group's next row is made in a thread."""

SUBSCRIBED_TOPICS_MAX: Final = 1_000
"""Topics that one member names."""

PATTERN_CHARACTERS_MAX: Final = 1_000
PATTERN_MS_MAX: Final = 500
"""How long all topic names together may take to be matched: some patterns take for ever."""

MATCHES_REMEMBERED_MAX: Final = 100_000
"""Patterns, and names that they matched, of which it is remembered: a few MB."""

DELETED_TIMES_MAX: Final = 5
"""How often a group may be deleted while one request about it is under way."""

METADATA_BYTES_MAX: Final = 4_096
"""Kafka's ``offset.metadata.max.bytes``."""

OFFSETS_PER_REQUEST_MAX: Final = 10_000
LOOKS_AT_ONCE: Final = 64
"""Topics looked at side by side."""

COMPACTION_MS: Final = 10_000
"""How often it is looked whether the table should be compacted."""

LAG_LOOK_MS: Final = 10_000
"""How often lag is looked at for the metrics, however often they are scraped."""

LAG_FRESH_MS: Final = 5_000
"""What was seen of a topic so long ago is good enough for that; those of groups with members were seen more recently."""

LAG_WAIT_MS: Final = 5_000
"""How long a scrape waits for a look: half of what Prometheus gives it by default."""

LAG_SERIES_MAX: Final = 1_000
"""Pairs of group and topic with series of their own, in one gateway."""

LAG_TOPICS_MAX: Final = 1_000
"""Topics of one look: half of those whose state may be in memory."""

LAG_READS_MAX: Final = 64
"""Records of one look that are read to know their age."""

LAG_GROUPS_PER_STEP: Final = 256
"""Groups after which requests get their turn."""

assert LEASE_MS <= SESSION_TIMEOUT_MS_MIN
assert TOPICS_WATCHED_MS * 2 <= 5_000
assert LAG_FRESH_MS < LAG_LOOK_MS
