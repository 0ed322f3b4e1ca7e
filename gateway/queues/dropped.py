"""Records that a queue drops: its settings have no dead letter topic, so nobody gets them again. Told in the log, and counted."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.queues.metrics import QueueMetrics

_log = logging.getLogger("gateway.queues")
LINES_MAX = 20
"""Of one commit, so that a flood of failures does not fill the log; the metric counts them all."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Offsets ``first`` to ``last``, delivered so often; ``records`` of them are records."""

    topic: str
    partition: int
    first: int
    last: int
    deliveries: int
    reason: str
    records: int


def tell_dropped(queue: str, dropped: Iterable[Dropped], metrics: QueueMetrics) -> None:
    """Say which records are gone, once that is in the store."""
    some = list(dropped)
    for one in some[:LINES_MAX]:
        _log.warning(
            "queue %s has no dead letter topic and dropped %s/%d offsets %d to %d after %d deliveries: %s",
            *(queue, one.topic, one.partition, one.first, one.last, one.deliveries, one.reason),
        )
    if len(some) > LINES_MAX:
        _log.warning("queue %s dropped %d further ranges", queue, len(some) - LINES_MAX)
    metrics.dropped.inc(sum(one.records for one in some))
