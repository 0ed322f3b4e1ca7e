"""Finishing of decided transactions: any gateway that finds one finishes it.

``log_format.transactions.finishing`` says what is to be done, in which order. The gateway appends through the open topics, in
parallel, within a memory budget. It deletes staged objects after the answer. A large transaction is applied by
``large_transactions``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from gateway.applied_transactions.large_transactions import LargeAppends, LargeTransactionTasks
from gateway.applied_transactions.staging import Staged, Staging, read_semaphore
from gateway.engine.bounds import EngineBounds
from gateway.engine.open_table import TableAccess
from gateway.engine.open_topics import OpenTopics
from gateway.system_tables.groups import GroupsTable
from gateway.system_tables.queues import QueuesTable
from gateway.system_tables.transactions import TransactionsTable
from log_format.clock import Clock
from log_format.errors import CorruptData, OutcomeUnknown, TidelogError
from log_format.topic.append_outcome import AppendedRange, Duplicate
from log_format.transactions.changes import FinishTransaction
from log_format.transactions.damaged_transactions import ADVICE
from log_format.transactions.delayed import file_delayed
from log_format.transactions.finishing import finish, transaction_batch
from log_format.transactions.row import Place, TransactionRow
from log_format.transactions.staged_index import is_index
from log_format.transactions.staged_records import StagedRecords

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finisher:
    """Finisher of decided transactions. Used on the event loop only."""

    table: TransactionsTable
    groups: GroupsTable
    queues: QueuesTable
    staging: Staging
    large: LargeAppends
    under_way: LargeTransactionTasks
    topics: OpenTopics
    access: TableAccess
    clock: Clock
    bounds: EngineBounds

    async def finish(self, row: TransactionRow, staged: Staged | None = None) -> TransactionRow:
        """Finish a decided transaction; return its last row. ``staged``: content that the decision names, if it is in memory.

        A row that is undecided or has ended is returned as it is. Raises ``OutcomeUnknown``: a decided transaction can't be
        refused.
        """
        if row.state != "committing":
            return row
        try:
            if any(map(is_index, row.staged)):
                return await self.under_way.outcome(
                    row.transaction_id, lambda: finish(row, _FinishingOperations(self, None))
                )
            if staged is not None:
                return await finish(row, _FinishingOperations(self, staged))
            async with self.staging.room(row.transaction_id):
                return await finish(row, _FinishingOperations(self, None))
        except OutcomeUnknown:
            raise
        except TidelogError as error:
            detail = f"Transaction {row.transaction_id} is decided, but not all of it is visible yet: {error.detail}"
            if isinstance(error, CorruptData):
                detail += f" {ADVICE}"
            raise OutcomeUnknown(detail) from error


@dataclass(frozen=True, slots=True)
class _FinishingOperations:
    """Implementation of ``log_format.transactions.finishing.FinishingOperations`` for one transaction."""

    parts: Finisher
    staged: Staged | None
    turns: asyncio.Semaphore = field(default_factory=read_semaphore)

    async def each(self, work: Callable[[ItemT], Awaitable[ResultT]], items: Sequence[ItemT]) -> list[ResultT]:
        """Do the work for all items in parallel; return the results. Raises the first error once all have ended."""
        results = []
        for result in await asyncio.gather(*map(work, items), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            results.append(result)
        return results

    async def records(self, row: TransactionRow, names: Sequence[str]) -> Sequence[StagedRecords]:
        """Return the staged records, from memory or from the store."""
        staged = await self._staged(row, names)
        return [staged.records[name] for name in names]

    async def append(
        self, row: TransactionRow, requests: Sequence[StagedRecords]
    ) -> Sequence[AppendedRange] | Duplicate:
        """Append through the open topic's writer; an append that takes too long there may go on."""
        clock, bounds, name = self.parts.clock, self.parts.bounds, requests[0].topic
        access = self.parts.access
        if any(request.deliver_at is not None for request in requests):
            file = partial(file_delayed, known_version=await self.parts.topics.table_version(name))
            requests = await access.write_pool.run(file, row, requests, access.store, clock, access.new_id)
        if not requests:
            return ()
        floor = self.parts.table.log.state.floor
        topic = await self.parts.topics.fresh(name, clock.monotonic_ms())
        topic.require_state()
        # Right before the writer takes them, so that timestamps of this gateway's appends don't go back.
        settled = topic.appending.submit(transaction_batch(row, requests, floor, clock.now_ms())).settled
        wait_ms = topic.state.config.integer("flush.ms") + bounds.produce_wait_ms_max + bounds.commit_wait_ms_max
        if not (await asyncio.wait((settled,), timeout=wait_ms / 1000))[0]:
            raise OutcomeUnknown(f"The commit of topic {name!r} takes too long.")
        return settled.result()

    async def append_indexed(self, row: TransactionRow, name: str) -> Sequence[Place]:
        """Append a large transaction's indexed batches, piece by piece."""
        return await self.parts.large.append(row, name, self.parts.table.log.state.floor)

    async def settle(self, row: TransactionRow, names: Sequence[str]) -> None:
        """Settle offsets and queues' settlements by decisions of the groups' table and of the queues' table."""
        staged = await self._staged(row, names)
        groups = {one.group for one in staged.offsets.values()}
        if groups:
            await self.parts.groups.settle(row.transaction_id, groups, is_committed=True)
        if staged.settlements:
            await self.parts.queues.conclude(row.transaction_id, staged.pending_ids())

    async def record(self, last: FinishTransaction) -> TransactionRow:
        """Record the last row in the table."""
        return await self.parts.table.decide(last)

    async def newest(self, transaction_id: str) -> TransactionRow | None:
        """Return the transaction's newest row in the table."""
        return await self.parts.table.fetch_row(transaction_id)

    async def clean(self, transaction_id: str) -> None:
        """Delete the staged objects after the answer."""
        self.parts.staging.clean_in_background(transaction_id)

    async def _staged(self, row: TransactionRow, names: Sequence[str]) -> Staged:
        return self.staged or await self.parts.staging.read(row.transaction_id, names, self.turns)
