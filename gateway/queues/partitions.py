"""A queue's partitions as its coordinator has them, and their records that wait for transactions.

Used on the event loop only.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.queues.queue_partition import PENDING, HeldRange, QueuePartition
from log_format.clock import Clock
from log_format.queues.row import Key, PendingSettlement
from log_format.queues.runs import Run
from log_format.queues.state import NO_QUEUE, Queue


class Partitions:
    """Partitions of one queue, each created on first use."""

    def __init__(self, queue: str, clock: Clock) -> None:
        self.shares: dict[Key, QueuePartition] = {}
        self.preparing: set[str] = set()
        """Pending ids whose commit is under way."""
        self._queue = queue
        self._clock = clock
        self._seen: Queue = NO_QUEUE
        self._pending: dict[str, list[tuple[QueuePartition, HeldRange]]] = {}

    @property
    def is_idle(self) -> bool:
        """Whether dropping this object loses nothing."""
        return not self._pending and not self.preparing and all(share.is_idle for share in self.shares.values())

    def share(self, topic: str, key: Key, log_start: int) -> QueuePartition:
        """Return a partition, as it is now."""
        share = self.shares.get(key)
        if share is None:
            share = self.shares[key] = QueuePartition(self._queue, topic, key, self._seen.partitions.get(key))
            share.moved_ms = self._clock.monotonic_ms()
        share.follow(self._seen.partitions.get(key), log_start, self._clock.monotonic_ms())
        return share

    def follow(self, queue: Queue) -> bool:
        """Take up what the table has now; return whether anything has changed."""
        if queue is self._seen:
            return False
        self._seen = queue
        for pending_id in [one for one in self._pending if one not in queue.pending]:
            for share, held in self._pending.pop(pending_id):
                share.release(held)
        for key, share in self.shares.items():
            share.follow(queue.partitions.get(key), 0, self._clock.monotonic_ms())
        for pending_id, pending in queue.pending.items():
            if pending_id not in self._pending and pending_id not in self.preparing and pending.on_abort:
                self._hold(pending)
        return True

    def wait_for(self, pending_id: str, held: Sequence[HeldRange]) -> None:
        """Let these ranges of leases wait for a transaction."""
        kept = self._pending[pending_id] = []
        for part in held:
            part.state, part.pending_id = PENDING, pending_id
            part.lease.parts.pop(part, None)
            kept.append((part.lease.share, part))
        self._seen = NO_QUEUE  # Makes the next ``follow`` compare again: the transaction may be concluded already.

    def take_unwritten(self) -> dict[QueuePartition, Sequence[Run]]:
        """Return the runs that are decided and not written yet."""
        return {share: share.unwritten for share in self.shares.values() if share.unwritten}

    def next_due_ms(self, now_ms: int) -> int | None:
        """Return when the next delayed record is due; None if there is none."""
        dues = (share.next_due_ms(now_ms) for share in self.shares.values())
        return min((due for due in dues if due is not None), default=None)

    def _hold(self, pending: PendingSettlement) -> None:
        kept = self._pending[pending.pending_id] = []
        for change in pending.on_abort:
            share = self.share(change.topic, change.key, 0)
            for run in change.runs:
                held = HeldRange(run.first, run.last, run.count - 1, PENDING, pending_id=pending.pending_id)
                kept.append((share, share.hold(held)))
