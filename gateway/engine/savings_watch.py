"""Metrics and log of flushes: why they began, what their queues have saved, and who has spent it.

No label names a topic: the savings reported are those of the queue that has least. The label ``of`` is the kind of a queue.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable
from functools import partial
from typing import Final, Literal, Protocol, get_args
from weakref import WeakSet

from prometheus_client import CollectorRegistry, Counter, Gauge

FlushReason = Literal["senders_wait", "quiet", "timer", "size", "publication", "refused", "drain"]
"""Reason why a flush began. Early ones: ``senders_wait`` (every sender waits for an answer) and ``quiet`` (nothing has come for a
while)."""
QueueKind = Literal["topics", "journals", "delayed", "groups", "queues"]

WARNING_REPEAT_SECONDS: Final = 3_600.0
"""Interval at which the log repeats the warning for one queue."""

_log = logging.getLogger("gateway.flushes")


class Savings(Protocol):
    """Savings of a queue at a time (the loop's, in seconds)."""

    def saved_seconds(self, now: float) -> float:
        """Return the seconds that are left."""
        ...

    def is_spent(self, now: float) -> bool:
        """Return whether so little is left that flushes wait for their timer."""
        ...


class SavingsWatch:
    """Metrics of a gateway's flushes. A queue is dropped when the gateway drops it. The loop's time is ``time.monotonic``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._open: dict[QueueKind, WeakSet[Savings]] = {kind: WeakSet() for kind in get_args(QueueKind)}
        self._flushes = Counter(
            "tidelog_flushes",
            "Flushes by the reason for their start; senders_wait and quiet are early flushes, paid from savings.",
            ("reason",),
            registry=registry,
        )
        least = Gauge(
            "tidelog_flush_savings_seconds",
            "Smallest savings, in seconds of flush.ms, among the queues that may flush early.",
            ("of",),
            registry=registry,
        )
        spent = Gauge(
            "tidelog_flush_savings_spent",
            "Queues without savings: their commits wait for the timer.",
            ("of",),
            registry=registry,
        )
        for kind in self._open:
            least.labels(kind).set_function(partial(self._least, kind))
            spent.labels(kind).set_function(partial(self._spent, kind))

    def register(self, kind: QueueKind, savings: Savings) -> None:
        """Count the queue from now on."""
        self._open[kind].add(savings)

    def count_flush(self, reason: FlushReason) -> None:
        """Count a flush that began for this reason."""
        self._flushes.labels(reason).inc()

    def _least(self, kind: QueueKind) -> float:
        now = time.monotonic()
        return min((each.saved_seconds(now) for each in self._open[kind]), default=0.0)

    def _spent(self, kind: QueueKind) -> int:
        now = time.monotonic()
        return sum(each.is_spent(now) for each in self._open[kind])


FLUSH_ADVICE: Final = (
    "send more before waiting for an answer, or set a lower flush.ms: each flush is two PUTs (docs/operations.md, Flushes that"
    " begin early)"
)


def warn_spent(label: str, seconds: float, advice: str, payer: Hashable) -> None:
    """Log that a queue's savings are spent, or the share of ``payer``, and what can be done."""
    _log.warning(
        "%s: what was saved for commits that begin early is spent%s, so acknowledgements wait up to %d ms again until callers"
        " pause. To have them sooner, %s",
        label,
        "" if payer is None else f", most of it by {payer!r}, which has no more of it than it leaves to the others",
        round(seconds * 1000),
        advice,
    )
