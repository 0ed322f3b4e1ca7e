"""Outcomes of records by the queue's settings: released, dead, expired. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.queues.dropped import Dropped
from gateway.queues.queue_partition import HeldRange, QueuePartition
from gateway.queues.settlement import Settlement
from log_format.queues.row import QueueSettings
from log_format.queues.runs import DEAD, RELEASED, SETTLED, Run, join_runs

REJECTED = "rejected"
MAX_DELIVERIES = "max_deliveries"
EXPIRED = "expired"


def released_run(
    settings: QueueSettings,
    span: tuple[int, int],
    deliveries: int,
    *,
    now_ms: int,
    delay_ms: int | None = None,
    reason: str | None = None,
) -> Run:
    """Return the run of records that were delivered and not accepted: released again, or dead after ``max_deliveries``.

    Args:
        span: first and last offset.
        deliveries: number of deliveries, this one included.
        delay_ms: delay until the next delivery; None: the settings' pause for so many deliveries.
        reason: reason if they are dead; None: ``MAX_DELIVERIES``.
    """
    if deliveries >= settings.max_deliveries:
        return dead_run(settings, span, deliveries, reason or MAX_DELIVERIES)
    if delay_ms is None:
        pauses = settings.backoff_ms
        delay_ms = pauses[min(deliveries, len(pauses)) - 1] if pauses else 0
    return Run(*span, RELEASED, deliveries, now_ms + delay_ms if delay_ms else 0)


def dead_run(settings: QueueSettings, span: tuple[int, int], deliveries: int, reason: str) -> Run:
    """Return the run of records that are delivered no more: dead letters, or settled if there is no dead letter topic."""
    if settings.dead_letter_topic is None:
        return Run(*span, SETTLED)
    return Run(*span, DEAD, deliveries, 0, reason)


def expired_run(settings: QueueSettings, span: tuple[int, int], deliveries: int) -> Run:
    """Return the run of records that have expired."""
    if settings.expired == "drop":
        return Run(*span, SETTLED)
    return dead_run(settings, span, deliveries, EXPIRED)


@dataclass(frozen=True, slots=True)
class LiveSettlement:
    """A settlement with a live lease, and the parts that the lease holds."""

    settlement: Settlement
    parts: Sequence[HeldRange]


def settled_runs(
    checked: Iterable[LiveSettlement], settings: QueueSettings, now_ms: int
) -> dict[QueuePartition, tuple[Run, ...]]:
    """Return the runs that the settlements make of their records."""
    runs: dict[QueuePartition, list[Run]] = {}
    for one in checked:
        for part in one.parts:
            runs.setdefault(part.lease.share, []).append(_settled(one.settlement, part, settings, now_ms))
    return {share: join_runs(some) for share, some in runs.items()}


def ended_runs(
    parts: Iterable[HeldRange], settings: QueueSettings, now_ms: int
) -> dict[QueuePartition, tuple[Run, ...]]:
    """Return the runs of records whose locks have ended."""
    runs: dict[QueuePartition, list[Run]] = {}
    for part in parts:
        runs.setdefault(part.lease.share, []).append(_ended(part, settings, now_ms))
    return {share: join_runs(some) for share, some in runs.items()}


def settled_drops(checked: Iterable[LiveSettlement], settings: QueueSettings) -> list[Dropped]:
    """Return the records that the settlements drop, though nobody accepted them."""
    return [
        _lost(part, one.settlement.reason or (REJECTED if one.settlement.action == "reject" else MAX_DELIVERIES))
        for one in checked
        for part in one.parts
        if one.settlement.action != "accept" and _settled(one.settlement, part, settings, 0).state == SETTLED
    ]


def ended_drops(parts: Iterable[HeldRange], settings: QueueSettings) -> list[Dropped]:
    """Return the records that are dropped because their locks have ended."""
    return [_lost(part, MAX_DELIVERIES) for part in parts if _ended(part, settings, 0).state == SETTLED]


def _settled(settlement: Settlement, part: HeldRange, settings: QueueSettings, now_ms: int) -> Run:
    span, deliveries, reason = (part.first, part.last), part.count + 1, settlement.reason
    if settlement.action == "accept":
        return Run(*span, SETTLED)
    if settlement.action == "reject":
        return dead_run(settings, span, deliveries, reason or REJECTED)
    if not settlement.begun:
        return unbegun_run(part, now_ms, settlement.delay_ms or 0)
    return released_run(settings, span, deliveries, now_ms=now_ms, delay_ms=settlement.delay_ms, reason=reason)


def _ended(part: HeldRange, settings: QueueSettings, now_ms: int) -> Run:
    if not part.is_begun:
        return unbegun_run(part, now_ms, 0)
    return released_run(settings, (part.first, part.last), part.count + 1, now_ms=now_ms)


def unbegun_run(part: HeldRange, now_ms: int, delay_ms: int) -> Run:
    """Return the run of records that nobody began to process: they don't count as delivered, so they come again without
    pauses."""
    return Run(part.first, part.last, RELEASED, part.count, now_ms + delay_ms if delay_ms else 0)


def dropped_report(share: QueuePartition, held: HeldRange, deliveries: int, reason: str) -> Dropped:
    """Return the report of a range that is dropped."""
    return Dropped(
        share.topic, share.partition, held.first, held.last, deliveries, reason, records=held.count_records()
    )


def _lost(part: HeldRange, reason: str) -> Dropped:
    return dropped_report(part.lease.share, part, part.count + 1, reason)


def released_runs(checked: Iterable[LiveSettlement], settings: QueueSettings) -> dict[QueuePartition, tuple[Run, ...]]:
    """Return the runs of the same records if their transaction is aborted: they are released immediately."""
    runs: dict[QueuePartition, list[Run]] = {}
    for part in (part for one in checked for part in one.parts):
        run = released_run(settings, (part.first, part.last), part.count + 1, now_ms=0, delay_ms=0)
        runs.setdefault(part.lease.share, []).append(run)
    return {share: join_runs(some) for share, some in runs.items()}
