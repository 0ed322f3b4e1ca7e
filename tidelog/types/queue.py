"""Queues as the API describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePartition:
    """Progress in a partition: every record before ``start_offset`` is settled.

    ``lag``: unsettled records that pass the filter, including those in flight.
    """

    topic: str
    partition: int
    start_offset: int
    in_flight: int
    delayed: int
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedRange:
    """Records that a queue without a dead letter topic gave up; ``at`` in milliseconds since the epoch."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    deliveries: int
    reason: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedRecords:
    """Number of records given up since ``since``, when the gateway became the queue's coordinator, and their newest ranges."""

    records: int = 0
    since: int = 0
    newest: tuple[DroppedRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue's settings. ``partitions`` and ``dropped`` are filled when the queue was requested by name."""

    queue: str
    topics: tuple[str, ...]
    start: str | Mapping[str, int]
    lock_ms: int
    max_deliveries: int
    dead_letter_topic: str | None = None
    backoff_ms: tuple[int, ...] = ()
    max_in_flight: int
    order: str
    expired: str
    filter: Mapping[str, Any] | None = None
    partitions: tuple[QueuePartition, ...] = ()
    dropped: DroppedRecords = DroppedRecords()
