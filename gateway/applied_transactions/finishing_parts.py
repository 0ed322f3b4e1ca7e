"""Parts with which a gateway finishes transactions."""

from __future__ import annotations

from gateway.applied_transactions.finisher import Finisher
from gateway.applied_transactions.large_transactions import LargeAppends, LargeTransactionTasks
from gateway.applied_transactions.pending_offsets import PendingOffsets
from gateway.applied_transactions.staging import Staging
from gateway.engine.open_table import TableAccess
from gateway.engine.open_topics import OpenTopics
from gateway.memory_budget import MemoryBudget
from gateway.system_tables.groups import GroupsTable
from gateway.system_tables.queues import QueuesTable
from gateway.system_tables.transactions import TransactionsTable


class FinishingParts:
    """Parts that finish transactions. ``memory``: budget for staged content while it is read and appended. Used on the event loop
    only."""

    def __init__(self, access: TableAccess, topics: OpenTopics, memory: MemoryBudget) -> None:
        self.groups = GroupsTable(access)
        self.queues = QueuesTable(access)
        self.transactions = TransactionsTable(access)
        self.staging = Staging(
            access.store,
            pool=access.look_pool,
            new_id=access.new_id,
            memory=memory,
            bounds=access.bounds,
        )
        self._under_way = LargeTransactionTasks(access.bounds.large_wait_ms_max)
        large = LargeAppends(staging=self.staging, topics=topics, access=access, memory=memory)
        self.finisher = Finisher(
            table=self.transactions,
            groups=self.groups,
            queues=self.queues,
            staging=self.staging,
            large=large,
            under_way=self._under_way,
            topics=topics,
            access=access,
            clock=access.clock,
            bounds=access.bounds,
        )
        self.pending = PendingOffsets(
            self.groups,
            self.transactions,
            self.finisher,
            clock=access.clock,
            wait_ms_max=access.bounds.pending_offsets_ms_max,
        )

    async def drain(self) -> None:
        """Wait for the decisions under way, cancel large transactions, and wait for deletions after answers."""
        await self._under_way.drain()
        await self.transactions.drain()
        await self.staging.drain()
