"""Delivery times of delayed records, as users give them."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from log_format import limits as contract
from tidelog.bodies.record_columns import Delay


def delivery_times(
    timestamp_ms: int | None, deliver_at: datetime | int | None, deliver_after: timedelta | float | None
) -> tuple[Delay | None, int]:
    """Return a record's delay, if any, and its timestamp, from at least one of these arguments. Raises ``ValueError``."""
    delay = None if deliver_at is None and deliver_after is None else _delay(deliver_at, deliver_after)
    if timestamp_ms is None:
        assert delay is not None
        return delay, _due_ms(delay)
    if not 0 <= timestamp_ms <= contract.TIMESTAMP_MS_MAX:
        raise ValueError(f"timestamp_ms is {timestamp_ms}, not 0 to {contract.TIMESTAMP_MS_MAX}")
    return delay, timestamp_ms


def _delay(deliver_at: datetime | int | None, deliver_after: timedelta | float | None) -> Delay:
    if deliver_at is not None and deliver_after is not None:
        raise ValueError("give either deliver_at or deliver_after, not both")
    if isinstance(deliver_at, datetime) and deliver_at.tzinfo is None:
        raise ValueError("deliver_at has no time zone: give it a tzinfo")
    if deliver_at is not None:
        at_ms = round(deliver_at.timestamp() * 1000) if isinstance(deliver_at, datetime) else deliver_at
        return "deliver_at", _checked("deliver_at", at_ms)
    assert deliver_after is not None
    seconds = deliver_after.total_seconds() if isinstance(deliver_after, timedelta) else deliver_after
    return "deliver_after_ms", _checked("deliver_after", round(seconds * 1000))


def _due_ms(delay: Delay) -> int:
    name, duration_ms = delay
    now_ms = 0 if name == "deliver_at" else time.time_ns() // 1_000_000
    return min(now_ms + duration_ms, contract.TIMESTAMP_MS_MAX)


def _checked(name: str, duration_ms: int) -> int:
    if not 0 <= duration_ms <= contract.TIMESTAMP_MS_MAX:
        raise ValueError(f"{name} is {duration_ms} ms, not 0 to {contract.TIMESTAMP_MS_MAX}")
    return duration_ms
