"""Bounds of queues in a gateway: what it holds, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.tasks.supervised import PAUSE_AFTER_DEFECT_MS

RECEIVE_RECORDS_DEFAULT: Final = 100
SETTLEMENTS_MAX: Final = 10_000
"""Number of settlements in one request."""

QUEUES_MAX: Final = 100_000
"""Number of queues of one store. ``queues_bytes_max`` is usually the smaller bound."""

PARALLEL_QUEUES_MAX: Final = 1_024
"""Number of queues worked on in parallel. They share commits, and leave room for requests among the waiting decisions."""

SETTLED_LEASES_MAX: Final = 8_192
"""Number of settled leases whose settlements are remembered, so that a repeat is answered like the first try: 2 MiB."""

SCANNED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of records that one receive looks at and leaves out."""

LOOK_AHEAD: Final = 10
"""Look-ahead of a queue ordered by key, in multiples of ``max_in_flight``."""

LAG_RECORDS_MAX: Final = 100_000
"""Number of records of a partition that a description of a queue with a filter looks at."""

PUBLISHED_RECORDS_MAX: Final = 1_000
PUBLISHED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Limits of one transaction's dead letters, and of one transaction's redriven records."""

SERIES_MAX: Final = 1_000
"""Number of queues with series of their own, in one gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBounds:
    """Bounds that a test may change."""

    head_ms: int = 1_000
    """Maximum age of the table's head when a coordinator gives or renews a lock. A successor waits for this time in addition."""
    tick_ms: int = 100
    """Interval of looks for ended locks and delays."""
    followed_ms: int = 1_000
    """Interval at which a coordinator checks whether its queues are still its own, and whether transactions have ended."""
    topics_watched_ms: int = 2_000
    """Interval of looks at the topics of queues in use: for added partitions and expired records."""
    retry_ms: int = 2_000
    """Pause before failed work is retried."""
    adoption_ms: int = 5_000
    """Interval at which a gateway looks for queues whose coordinator is gone and left work."""
    adopted_max: int = 1_000
    """Number of queues in memory up to which a gateway takes over queues that were used recently. Others wait for their next
    call."""
    compaction_ms: int = 10_000
    """Interval at which the gateway checks whether the table should be compacted."""
    awake_ms: int = 600_000
    """Time after its last call for which a queue counts as in use."""
    undecided_ms_max: int = 5_000
    """Time that dead letters wait for the decision of their transaction before it is aborted: a decision takes milliseconds."""
    pause_after_defect_ms: int = PAUSE_AFTER_DEFECT_MS


assert QueueBounds().topics_watched_ms * 2 <= 5_000
