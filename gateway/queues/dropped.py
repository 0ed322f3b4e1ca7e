"""Records that a queue drops: its settings have no dead letter topic, so nobody gets them again.

They are logged, counted by a metric, shown in the queue's description, and entered in the audit trail.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from gateway.audit.event import AuditEvent
from gateway.queues.metrics import QueueMetrics
from log_format.clock import Clock

_log = logging.getLogger("gateway.queues")
LINES_MAX: Final = 20
"""Number of ranges logged for one commit, so that a flood of failures does not fill the log or the audit trail; the metric counts
them all."""
SHOWN_MAX: Final = 20
"""Number of ranges that a description shows, the newest ones."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Dropped offsets ``first`` to ``last``, delivered ``deliveries`` times; ``records`` of these offsets have a record."""

    topic: str
    partition: int
    first: int
    last: int
    deliveries: int
    reason: str
    records: int


Tell = Callable[[str, Dropped], None]
"""Function that is called with the queue's name and each range that is dropped."""


@dataclass(slots=True)
class DropReports:
    """Receivers of a gateway's reports of dropped records."""

    metrics: QueueMetrics
    clock: Clock
    tell: Tell = lambda _queue, _dropped: None


@dataclass(slots=True)
class Drops:
    """Records that one queue has dropped since ``since_ms``, when this gateway began to coordinate it."""

    queue: str
    reports: DropReports
    since_ms: int = field(init=False)
    records: int = 0
    newest: deque[tuple[int, Dropped]] = field(default_factory=lambda: deque(maxlen=SHOWN_MAX))
    """Times and ranges of the newest drops, oldest first."""

    def __post_init__(self) -> None:
        """Set ``since_ms`` to the present time."""
        self.since_ms = self.reports.clock.now_ms()

    def tell(self, dropped: Iterable[Dropped]) -> None:
        """Report ranges that were dropped, once that is in the store."""
        some, now_ms = list(dropped), self.reports.clock.now_ms()
        for one in some[:LINES_MAX]:
            _log.warning(
                "queue %s has no dead letter topic and dropped %s/%d offsets %d to %d after %d deliveries: %s",
                *(self.queue, one.topic, one.partition, one.first, one.last, one.deliveries, one.reason),
            )
            self.reports.tell(self.queue, one)
        if len(some) > LINES_MAX:
            _log.warning("queue %s dropped %d further ranges", self.queue, len(some) - LINES_MAX)
        self.newest.extend((now_ms, one) for one in some)
        count = sum(one.records for one in some)
        self.records += count
        self.reports.metrics.dropped.inc(count)


def audit_event(queue: str, dropped: Dropped, now_ms: int) -> AuditEvent:
    """Return the event of the audit trail for records that a queue without a dead letter topic dropped."""
    return AuditEvent(
        time=now_ms,
        kind="dropped",
        principal=None,
        operation=dropped.reason,
        resource_type="group",
        resource=queue,
        method="QUEUE",
        route=f"{dropped.topic}/{dropped.partition}",
        request_id=f"{dropped.first}-{dropped.last}",
        source=None,
        count=dropped.records,
    )
