"""The bounds of queues in a gateway: what it holds, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.supervised import PAUSE_AFTER_DEFECT_MS

RECEIVE_RECORDS_DEFAULT: Final = 100
SETTLEMENTS_MAX: Final = 10_000
"""Settlements of one request."""

QUEUES_MAX: Final = 100_000
"""Queues of one store. ``queues_bytes_max`` is usually the smaller bound."""

QUEUES_AT_ONCE: Final = 1_024
"""Queues worked on side by side. They share commits, and leave room for requests among the waiting decisions."""

REMEMBERED_MAX: Final = 8_192
"""Leases that are settled and whose settlements are still known, so that a repeat is answered as the first try: 2 MiB."""

LOOKED_AT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Records that one receive looks at and leaves out."""

LOOK_AHEAD: Final = 10
"""How many times ``max_in_flight`` a queue ordered by key looks ahead."""

LAG_RECORDS_MAX: Final = 100_000
"""Records of a partition that a description of a queue with a filter looks at."""

PUBLISHED_RECORDS_MAX: Final = 1_000
PUBLISHED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Dead letters of one transaction, and records of one that redrives."""

SERIES_MAX: Final = 1_000
"""Queues with series of their own, in one gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBounds:
    """The bounds that a test may change."""

    head_ms: int = 1_000
    """How old the table's head may be when a coordinator gives or renews a lock. A successor waits so much longer."""
    tick_ms: int = 100
    """How often ends of locks and delays are looked for."""
    followed_ms: int = 1_000
    """How often a coordinator looks whether its queues are still its own, and whether transactions have ended."""
    topics_watched_ms: int = 2_000
    """How often the topics of queues in use are looked at: for added partitions and expired records."""
    retry_ms: int = 2_000
    """Until a piece of work that failed is tried again."""
    adoption_ms: int = 5_000
    """How often a gateway looks for queues whose coordinator is gone and left work."""
    adopted_max: int = 1_000
    """Queues in memory up to which a gateway takes over those that were in use lately. Others wait for their next call."""
    compaction_ms: int = 10_000
    """How often the gateway checks whether the table should be compacted."""
    awake_ms: int = 600_000
    """How long after its last call a queue counts as in use."""
    undecided_ms_max: int = 5_000
    """How long dead letters wait for the decision of their transaction before it is given up: it takes milliseconds."""
    pause_after_defect_ms: int = PAUSE_AFTER_DEFECT_MS


assert QueueBounds().topics_watched_ms * 2 <= 5_000
