"""Longest lock that a queue's coordinator may give, written to the table first, so that a successor knows how long to wait.

Used on the event loop only.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.call import detached_from_call
from gateway.queues.queue_partition import HeldRange
from gateway.system_tables.queues import QueuesTable
from log_format.queues.changes import AllowLocks
from log_format.queues.row import QueueRow


class LockPromise:
    """Promise of one queue's longest lock. ``row``: row with which this gateway claimed the queue."""

    def __init__(self, row: QueueRow, table: QueuesTable) -> None:
        self._queue = row.queue
        self._epoch = row.epoch
        self._table = table
        self._allowed_ms = row.lock_ms_max
        self._raising = 0

    async def allow(self, lock_ms: int) -> None:
        """Wait until the table allows locks of ``lock_ms``. Raises ``CoordinatorFenced``, ``BackOff``, ``OutcomeUnknown``."""
        if lock_ms <= self._allowed_ms:
            return
        self._raising += 1
        try:
            with detached_from_call():
                await self._table.decide(AllowLocks(queue=self._queue, epoch=self._epoch, lock_ms_min=lock_ms))
        finally:
            self._raising -= 1
        self._allowed_ms = max(self._allowed_ms, lock_ms)

    async def relax(self, live: Iterable[HeldRange]) -> None:
        """Write that no lock is longer than the settings allow, once that holds for all ``live`` ones. Raises what ``allow``
        raises."""
        row = self._table.state.queue(self._queue).row
        if row is None or self._raising or row.lock_ms_max <= row.settings.lock_ms:
            return
        lock_ms = row.settings.lock_ms
        if all(held.lock_ms <= lock_ms for held in live):
            self._allowed_ms = lock_ms  # Set before the commit, so that no longer lock is given meanwhile.
            await self._table.decide(AllowLocks(queue=self._queue, epoch=self._epoch, lock_ms_max=lock_ms))
