"""``system/queues``: queues, and the settlements of their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from gateway.call import detached_from_call
from gateway.engine.open_table import TableAccess
from gateway.engine.shared_commits import CommitPace, SharedCommits
from gateway.engine.state_budget import StateBudget
from log_format.queues.changes import (
    AlterQueue,
    Compact,
    ConcludeSettlement,
    Decide,
    PutQueue,
    QueueDecision,
    SubscribeQueue,
)
from log_format.queues.memory import QUEUE_BYTES, partition_bytes
from log_format.queues.state import Queue, QueuesState, queues_table

COMMIT_PACE: Final = CommitPace(
    per_second=16.0,
    kind="queues",
    payer="queue",
    advice="settle more records in one call: all queues of a gateway share sixteen commits a second on average",
)
"""Pace of commits, whatever the number of queues. It is faster than that of groups: a caller that receives and settles one record
after another waits for the commits."""

LEASE_BYTES: Final = 1_024
"""Bytes of a lease with its lock: measured on CPython 3.11, rounded up."""


class QueuesTable(SharedCommits[QueuesState, QueueDecision, Queue]):
    """The open table ``system/queues``. ``budget``: memory of its rows and of coordinators' leases. Used on the event loop
    only."""

    def __init__(self, access: TableAccess) -> None:
        self._lease_bytes = 0
        self.budget = StateBudget(
            "queues",
            access.bounds.queues_bytes_max,
            used=lambda: self.log.state.memory_bytes + self._lease_bytes,
            advice="settle what is in flight, or delete queues that are not used; the operator may raise queues_bytes_max",
            metrics=access.metrics,
        )
        super().__init__(
            access,
            queues_table(),
            Decide,
            Compact,
            budgets=((self.budget, _growth_bytes),),
            pace=COMMIT_PACE,
        )

    def count_leases(self, more: int) -> None:
        """Count ``more`` further live leases, or fewer if negative."""
        self.count_bytes(more * LEASE_BYTES)

    def count_bytes(self, more: int) -> None:
        """Count ``more`` further bytes that queues' callers have in memory, or fewer if negative."""
        self._lease_bytes += more

    def has_room(self, more: int) -> bool:
        """Return whether ``more`` further bytes are within the budget."""
        return self.budget.used_bytes + more <= self.budget.bytes_max

    async def conclude(self, transaction_id: str, committed: Mapping[str, Iterable[str]]) -> None:
        """Apply the pending settlements of a decided transaction. ``committed``: its pending ids by queue; empty if it was
        aborted.

        Idempotent. Raises ``BackOff``, ``OutcomeUnknown``.
        """
        waiting = {
            name for name, queue in self.state.queues.items() if queue.pending and queue.of_transaction(transaction_id)
        }
        decisions = [
            ConcludeSettlement(
                queue=name, transaction_id=transaction_id, pending_ids=frozenset(committed.get(name, ()))
            )
            for name in sorted(waiting | set(committed))
        ]
        with detached_from_call():  # The caller asked for the transaction's decision.
            await asyncio.gather(*map(self.decide, decisions))


def _growth_bytes(decision: QueueDecision, state: QueuesState) -> int:
    """Return the bytes of memory that a new queue adds. Settlements are never refused: the records in flight are bounded
    before."""
    if not isinstance(decision, AlterQueue | PutQueue | SubscribeQueue) or decision.queue in state.queues:
        return 0
    starts = () if isinstance(decision, AlterQueue) else decision.starts
    return QUEUE_BYTES + len(decision.queue) + sum(partition_bytes(len(one.runs)) for one in starts)
