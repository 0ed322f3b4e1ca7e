"""Parts with which a gateway files and publishes delayed records."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from gateway.cluster.ownership import Ownership
from gateway.engine.bounds import SCHEDULED_THREADS
from gateway.engine.open_table import TableAccess
from gateway.engine.open_topics import OpenTopics
from gateway.engine.pool import MakeExecutor, Pool
from gateway.engine.producer_ids import ProducerIds
from gateway.memory_budget import MemoryBudget
from gateway.scheduled.calendars import Calendars
from gateway.scheduled.filing import Filing
from gateway.scheduled.metrics import ScheduledMetrics
from gateway.scheduled.publishing import DelayedPublisher
from gateway.system_tables.transactions import TransactionsTable


class DelayedRecordService:
    """Filing and publishing of delayed records. ``memory``: budget for the records of publications; ``ids``: knows
    the key by which requests to erase name keys."""

    def __init__(
        self,
        access: TableAccess,
        topics: OpenTopics,
        ownership: Ownership,
        transactions: TransactionsTable,
        make_executor: MakeExecutor,
        *,
        ids: ProducerIds,
        memory: MemoryBudget,
        registry: CollectorRegistry,
    ) -> None:
        calendars = Calendars(access)
        self.metrics = ScheduledMetrics(registry)
        self.publishing = DelayedPublisher(
            access,
            topics,
            calendars,
            ownership,
            transactions,
            cluster_key=ids.cluster_key,
            pool=Pool("schedule", SCHEDULED_THREADS, make_executor),
            memory=memory,
            metrics=self.metrics,
            cache_bytes_max=access.bounds.scheduled_cache_bytes_max,
        )
        self.filing = Filing(access, topics, calendars, notice=self.publishing.notice)

    async def drain(self) -> None:
        """File the records that wait, and stop publishing."""
        await self.filing.drain()
        await self.publishing.stop()
