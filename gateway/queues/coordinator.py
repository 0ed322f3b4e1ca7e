"""The queues that this gateway coordinates: claimed by a row in the table, kept in memory until another gateway claims them.

1. A claim raises the queue's epoch, so the previous coordinator can settle nothing any more.
2. A coordinator gives and renews locks only if it saw the table's head within ``head_ms``. A gateway that claims a queue waits
   for that time, and then for the longest lock that the previous coordinator may have given, before it delivers records that
   may be leased.

Used on the event loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from gateway.call import detached_from_call
from gateway.queues.bounds import PARALLEL_QUEUES_MAX
from gateway.queues.live_queue import LiveQueue, QueueParts
from gateway.system_tables.claims import Claims
from gateway.tasks.parallel import run_parallel
from log_format.errors import BackOff, TidelogError
from log_format.queues.changes import AllowLocks, ClaimQueue, CoordinatorFenced, unknown_queue_error

_log = logging.getLogger("gateway.queues")


class Coordinator:
    """Claims, and the queues claimed. ``coordinator_id``: id of this process."""

    def __init__(self, parts: QueueParts, *, coordinator_id: str) -> None:
        self._parts = parts
        self._table = parts.table
        self._coordinator_id = coordinator_id
        parts.metrics.queues.set_function(lambda: len(self._queues))
        parts.metrics.leases.set_function(lambda: sum(len(queue.leases) for queue in self))
        self._queues = Claims(self._claim)

    def __iter__(self) -> Iterator[LiveQueue]:
        return iter(self._queues)

    async def wait_for_any(self) -> None:
        """Wait until this gateway has a queue in memory."""
        await self._queues.wait_for_any()

    def known(self, name: str) -> LiveQueue | None:
        """Return the queue if it is coordinated here, as far as memory tells."""
        queue = self._queues.get(name)
        return queue if queue is not None and queue.is_current else None

    async def live(self, name: str) -> LiveQueue:
        """Return the queue, claimed if need be. Raises ``RequestRefused`` (``UNKNOWN_QUEUE``), ``BackOff``,
        ``OutcomeUnknown``."""
        state = await self._table.recent(self._parts.bounds.head_ms)
        if name not in state.queues and name not in (await self._table.fresh()).queues:
            raise unknown_queue_error(name)
        queue = self.known(name)
        if queue is None:
            queue = await self._queues.claim(name)
        queue.used_ms = self._parts.clock.monotonic_ms()
        queue.follow()
        return queue

    async def is_current(self, queue: LiveQueue) -> bool:
        """Return whether the queue is coordinated here, as of at most ``head_ms`` ago. Raises ``BackOff``."""
        await self._table.recent(self._parts.bounds.head_ms)
        return queue.is_current

    def forget(self, queue: LiveQueue) -> None:
        """Drop the queue from memory."""
        self._queues.remove(queue.name, queue)
        queue.forget()

    def drop_if_unlocked(self, queue: LiveQueue) -> None:
        """Drop the queue from memory if none of its records is locked. Raises ``BackOff``."""
        is_quiet = queue.quiet_until_ms <= self._parts.clock.monotonic_ms()
        is_free = not queue.leases and queue.moving is None and not any(one.held for one in queue.shares.values())
        if not (is_quiet and is_free and queue.is_current):
            raise BackOff(f"Records of queue {queue.name!r} are locked, or may be.")
        self.forget(queue)

    async def leave(self) -> None:
        """Give no more leases, and write for each queue how long the present leases are live. Raises nothing."""

        async def say(left: AllowLocks) -> None:
            try:
                await self._table.decide(left)
            except TidelogError as problem:
                _log.info("the next coordinator of queue %s waits out a whole lock: %s", left.queue, problem.detail)

        left = [
            AllowLocks(queue=queue.name, epoch=queue.epoch, lock_ms_max=queue.leave_ms())
            for queue in self
            if queue.is_current
        ]
        await run_parallel(say, left, limit=PARALLEL_QUEUES_MAX)

    async def _claim(self, name: str) -> LiveQueue:
        with detached_from_call():
            claimed = await self._table.decide(ClaimQueue(queue=name, coordinator=self._coordinator_id))
        row = claimed.row
        if row is None or row.coordinator != self._coordinator_id:
            raise CoordinatorFenced(name)
        queue = LiveQueue(row, self._parts)
        before = self._queues.add(name, queue)
        if before is not None:
            before.forget()
        if queue.quiet_until_ms > self._parts.clock.monotonic_ms():
            self._parts.deadlines.expect(name, queue.blind_until_ms)
        queue.follow()
        return queue
