"""What becomes of records by the queue's settings: released, dead, expired. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.queues.settlement import Settlement
from gateway.queues.share import Held, Share
from log_format.queues.row import QueueSettings
from log_format.queues.runs import DEAD, RELEASED, SETTLED, Run, joined

REJECTED = "rejected"
MAX_DELIVERIES = "max_deliveries"
EXPIRED = "expired"


def released(
    settings: QueueSettings,
    span: tuple[int, int],
    deliveries: int,
    *,
    now_ms: int,
    delay_ms: int | None = None,
    reason: str | None = None,
) -> Run:
    """Records that were delivered so often and not accepted. ``delay_ms`` None: as the settings have it."""
    if deliveries >= settings.max_deliveries:
        return dead(settings, span, deliveries, reason or MAX_DELIVERIES)
    if delay_ms is None:
        pauses = settings.backoff_ms
        delay_ms = pauses[min(deliveries, len(pauses)) - 1] if pauses else 0
    return Run(*span, RELEASED, deliveries, now_ms + delay_ms if delay_ms else 0)


def dead(settings: QueueSettings, span: tuple[int, int], deliveries: int, reason: str) -> Run:
    """Records that are delivered no more."""
    if settings.dead_letter_topic is None:
        return Run(*span, SETTLED)
    return Run(*span, DEAD, deliveries, 0, reason)


def gone(settings: QueueSettings, span: tuple[int, int], deliveries: int) -> Run:
    """Records that have expired."""
    if settings.expired == "drop":
        return Run(*span, SETTLED)
    return dead(settings, span, deliveries, EXPIRED)


@dataclass(frozen=True, slots=True)
class Checked:
    """A settlement whose lease holds, with what it holds."""

    settlement: Settlement
    parts: Sequence[Held]


def runs_of(checked: Iterable[Checked], settings: QueueSettings, now_ms: int) -> dict[Share, tuple[Run, ...]]:
    """What the settlements make of their records."""
    runs: dict[Share, list[Run]] = {}
    for one in checked:
        settlement = one.settlement
        for part in one.parts:
            assert part.lease is not None
            span, deliveries, reason = (part.first, part.last), part.count + 1, settlement.reason
            if settlement.action == "accept":
                run = Run(*span, SETTLED)
            elif settlement.action == "reject":
                run = dead(settings, span, deliveries, reason or REJECTED)
            else:
                delay_ms = settlement.delay_ms
                run = released(settings, span, deliveries, now_ms=now_ms, delay_ms=delay_ms, reason=reason)
            runs.setdefault(part.lease.share, []).append(run)
    return {share: joined(some) for share, some in runs.items()}


def given_back(checked: Iterable[Checked], settings: QueueSettings) -> dict[Share, tuple[Run, ...]]:
    """What becomes of the same records when their transaction is aborted: they are released at once."""
    runs: dict[Share, list[Run]] = {}
    for part in (part for one in checked for part in one.parts):
        assert part.lease is not None
        run = released(settings, (part.first, part.last), part.count + 1, now_ms=0, delay_ms=0)
        runs.setdefault(part.lease.share, []).append(run)
    return {share: joined(some) for share, some in runs.items()}
