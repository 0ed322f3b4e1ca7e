"""Undelivered delayed records."""

from __future__ import annotations

import msgspec

from tidelog.types.record import Headers


class ScheduledRecord(msgspec.Struct, frozen=True):
    """A listed, undelivered delayed record. ``deliver_at_ms``: when it appears in the topic."""

    id: str
    deliver_at_ms: int
    key: bytes | None


class DelayedRecord(msgspec.Struct, frozen=True):
    """An undelivered delayed record with its content. It has no offset yet."""

    id: str
    deliver_at_ms: int
    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
