"""Queues as the API describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePartition:
    """Everything before ``start_offset`` is settled. ``lag``: unsettled records that pass the filter, in flight included."""

    topic: str
    partition: int
    start_offset: int
    in_flight: int
    delayed: int
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue's settings; ``partitions`` where the queue was asked for by its name."""

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
