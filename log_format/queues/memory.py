"""Estimated memory of a queue in every gateway that serves queues: measured on CPython 3.11, rounded up."""

from __future__ import annotations

from typing import Final

import msgspec

from log_format.queues.row import PartitionChange, PendingSettlement, QueueRow

QUEUE_BYTES: Final = 512
"""Bytes of a queue: its row, its settings, its mappings."""
_TOPIC_BYTES: Final = 64
_PARTITION_BYTES: Final = 400
_RUN_BYTES: Final = 200
_PENDING_BYTES: Final = 600


def row_bytes(row: QueueRow | None) -> int:
    """Return the bytes of a queue without its settlements."""
    if row is None:
        return 0
    settings = row.settings
    texts = sum(len(topic) + _TOPIC_BYTES for topic in settings.topics)
    filter_bytes = 0 if settings.filter is None else len(msgspec.json.encode(settings.filter)) + 2 * _TOPIC_BYTES
    return QUEUE_BYTES + len(row.queue) + texts + filter_bytes + 32 * len(settings.backoff_ms)


def partition_bytes(run_count: int) -> int:
    """Return the bytes of a partition's settlements."""
    return _PARTITION_BYTES + _RUN_BYTES * run_count


def pending_bytes(pending: PendingSettlement) -> int:
    """Return the bytes of settlements that wait for a transaction."""
    return _PENDING_BYTES + sum(map(_change_bytes, (*pending.on_commit, *pending.on_abort)))


def _change_bytes(change: PartitionChange) -> int:
    return partition_bytes(len(change.runs)) + sum(len(run.reason) for run in change.runs)
