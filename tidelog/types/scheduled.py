"""Delayed records that wait, as the SDK shows them."""

from __future__ import annotations

import msgspec

from tidelog.types.record import Headers


class ScheduledRecord(msgspec.Struct, frozen=True):
    """A delayed record that waits. ``deliver_at_ms``: when it appears in the topic."""

    id: str
    deliver_at_ms: int
    key: bytes | None


class DelayedRecord(msgspec.Struct, frozen=True):
    """A delayed record with its content. It has no offset yet."""

    id: str
    deliver_at_ms: int
    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
