"""Records that a queue produces, in one transaction with the changes of the queue: each once, whatever crashes.

1. The records and a note of the pending change are staged. The change is made pending in ``system/queues``. One row of
   ``system/transactions`` decides both.
2. After the decision any gateway finishes the transaction: the records are appended once, then the pending change is applied
   to the queue.
3. Without a decision the pending change is dropped, by this gateway or by the queue's next coordinator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.applied_transactions.finishing_parts import FinishingParts
from gateway.applied_transactions.staging import Staged, StagedListing
from gateway.call import detached_from_call
from gateway.engine.producer_ids import ProducerIds
from gateway.queues.live_queue import LiveQueue
from log_format.clock import Clock
from log_format.errors import BackOff, OutcomeUnknown, TidelogError
from log_format.ids import NewId
from log_format.queues.changes import PrepareSettlement
from log_format.queues.row import PartitionChange, PendingSettlement, RedrivePosition
from log_format.topic.producer_id import TRANSACTIONAL
from log_format.transactions.changes import BeginAndCommit, DecideAbort, ForbidTransaction
from log_format.transactions.staged_records import StagedRecords
from log_format.transactions.staged_settlements import StagedSettlements


@dataclass(frozen=True, slots=True)
class QueuePublisher:
    """Transactions of queues. Used on the event loop only."""

    finishing: FinishingParts
    producer_ids: ProducerIds
    clock: Clock
    new_id: NewId
    undecided_ms_max: int

    async def publish(
        self,
        queue: LiveQueue,
        records: Sequence[StagedRecords],
        changes: Sequence[PartitionChange],
        positions: Sequence[RedrivePosition] = (),
    ) -> None:
        """Produce the records, and change the queue, in one transaction.

        Args:
            changes: changes of the queue's partitions.
            positions: positions of redrives to set.

        Raises ``BackOff`` (nothing happened), ``OutcomeUnknown``.
        """
        transaction_id = await self.producer_ids.issue(TRANSACTIONAL)
        pending = PendingSettlement(
            pending_id=self.new_id(),
            queue=queue.name,
            transaction_id=transaction_id,
            on_commit=tuple(changes),
            on_abort=(),
            positions=tuple(positions),
            prepared_at_ms=0,
        )
        try:
            staged = await self._staged(transaction_id, queue, records, pending)
            row = await self.finishing.transactions.decide(
                BeginAndCommit(transaction_id=transaction_id, staged=staged.names, stamp=None)
            )
        except OutcomeUnknown:
            raise  # The transaction may be decided: the pending change shows it to the coordinator.
        except TidelogError:
            await self._dropped(transaction_id)
            raise
        with detached_from_call():
            await self.finishing.finisher.finish(row, staged)

    async def _staged(
        self, transaction_id: str, queue: LiveQueue, records: Sequence[StagedRecords], pending: PendingSettlement
    ) -> Staged:
        staging = self.finishing.staging
        note = StagedSettlements(queue=queue.name, pending_id=pending.pending_id)
        try:
            names = [
                await staging.put(transaction_id, StagedListing((), 0, number), one, None)
                for number, one in enumerate(records)
            ]
            noted = await staging.put_settlements(transaction_id, StagedListing((), 0, len(names)), note)
            with detached_from_call():
                await self.finishing.queues.decide(PrepareSettlement(pending=pending, epoch=queue.epoch))
        except OutcomeUnknown as problem:
            raise BackOff(problem.detail) from problem  # Nothing is decided yet.
        return Staged(dict(zip(names, records, strict=True)), {}, {noted: note})

    async def _dropped(self, transaction_id: str) -> None:
        try:
            await self.finishing.queues.conclude(transaction_id, {})
        except TidelogError:
            return  # The coordinator resolves the pending change.
        await self.finishing.staging.clean(transaction_id)

    async def resolve(self, pending: PendingSettlement) -> bool:
        """Conclude a pending change if its transaction has ended; return whether it is concluded. A transaction of the gateway's
        own making that stays undecided is aborted. Raises ``BackOff``, ``OutcomeUnknown``."""
        transaction_id = pending.transaction_id
        row = await self.finishing.transactions.fetch_row(transaction_id)
        if row is None:
            if self.clock.now_ms() - pending.prepared_at_ms < self.undecided_ms_max:
                return False
            row = await self.finishing.transactions.decide(ForbidTransaction(transaction_id=transaction_id))
        if row.state == "open":
            if self.clock.now_ms() <= row.expires_at_ms:
                return False
            row = await self.finishing.transactions.decide(DecideAbort(transaction_id=transaction_id, reason="expired"))
        with detached_from_call():
            row = await self.finishing.finisher.finish(row)
        # Finishing a committed transaction has concluded its changes; this drops the others.
        await self.finishing.queues.conclude(transaction_id, {})
        return row.has_ended
