"""A gateway in this process, below HTTP: an engine on a store.

A test can count the store's operations, hold them up and let them fail.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peers
from gateway.engine.bounds import EngineBounds
from gateway.engine.fetch_answer import FetchAnswer, Fetched, FetchFrom, FetchLimits, StartWord
from gateway.engine.journal_peers import JournalPeers, NoPeers
from gateway.engine.open_topic import OpenTopic
from gateway.engine.topic_appends import PendingBatch
from gateway.engine_parts import EngineParts, EngineSettings
from gateway.groups.bounds import GroupBounds
from gateway.log_engine import LogEngine
from gateway.memory_budget import Memory, MemoryBudget
from gateway.queues.bounds import QueueBounds
from log_format.clock import Clock, SystemClock
from log_format.store import ObjectStore
from log_format.topic.append import Batch
from tests.support import records
from tests.support.faulty_store import FaultyStore


def batch_of(
    topic: OpenTopic,
    values: Sequence[bytes | None],
    partitions: int | Sequence[int] = 0,
    timestamp_ms: int = 1000,
    keys: Sequence[bytes] | None = None,
) -> Batch:
    """Records with these values, routed for the topic as it is known."""
    return records.batch_of(topic.state.topic_id, values, partitions, keys=keys, timestamps_ms=timestamp_ms)


@dataclass
class Gateway:
    """An engine and what tests ask of it."""

    store: FaultyStore
    engine: LogEngine
    request_memory: MemoryBudget
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    memory: MemoryBudget = field(default_factory=lambda: MemoryBudget(1 << 28, "answers"))

    async def topic(self, name: str = "t", partition_count: int = 1, **config: object) -> OpenTopic:
        """A topic, made; settings with underscores for dots."""
        given = {key.replace("_", "."): value for key, value in config.items()}
        administration = self.engine.administration
        await administration.create(name, partition_count, administration.parse_config(given))
        return await self.engine.open_topic(name)

    def submit(
        self,
        topic: OpenTopic,
        values: Sequence[bytes | None],
        partitions: int | Sequence[int] = 0,
        *,
        keys: Sequence[bytes] | None = None,
    ) -> PendingBatch:
        return topic.submit(batch_of(topic, values, partitions, keys=keys), None)

    async def append(
        self,
        topic: OpenTopic,
        values: Sequence[bytes | None],
        partitions: int | Sequence[int] = 0,
        *,
        keys: Sequence[bytes] | None = None,
    ) -> Any:
        return await topic.appending.await_acknowledgement(self.submit(topic, values, partitions, keys=keys))

    async def fetch_all(
        self,
        wanted: list[FetchFrom],
        *,
        records: int = 500,
        bytes_max: int = 1 << 20,
        bytes_min: int = 1,
        wait_ms: int = 0,
        memory: Memory | None = None,
    ) -> FetchAnswer:
        limits = FetchLimits(records_max=records, bytes_max=bytes_max, bytes_min=bytes_min, wait_ms_max=wait_ms)
        return await self.engine.fetcher.fetch(wanted, limits, memory or self.memory, self.engine.clock.monotonic_ms())

    async def fetch(
        self,
        offset: int | StartWord = "earliest",
        partition: int = 0,
        topic: str = "t",
        *,
        memory: Memory | None = None,
        **limits: int,
    ) -> Fetched:
        """One partition; raises its error."""
        wanted = [FetchFrom(topic=topic, partition=partition, offset=offset)]
        answer = await self.fetch_all(wanted, memory=memory, **limits)
        answer.reservation.release()
        (part,) = answer.parts
        if not isinstance(part, Fetched):
            raise part
        return part

    def forget_tail(self) -> None:
        """Everything is read from the store from now on."""
        tail = self.engine._tail
        tail.bytes_max = 0
        while tail._flushes:
            tail._evict()


def values_of(fetched: Fetched) -> list[bytes]:
    """The values that came."""
    return [value for table in fetched.records.tables for value in table.column("value").to_pylist()]


def offsets_of(fetched: Fetched) -> list[int]:
    """The offsets that came."""
    return [offset for table in fetched.records.tables for offset in table.column("offset").to_pylist()]


def make_gateway(
    store: FaultyStore | None = None,
    objects: ObjectStore | None = None,
    ownership: Ownership | None = None,
    group_bounds: GroupBounds = GroupBounds(),  # noqa: B008 - frozen
    journal_peers: JournalPeers = NoPeers(),  # noqa: B008 - it has no state
    *,
    journals: bool = True,
    clock: Clock | None = None,
    super_users: Collection[str] | None = None,
    queue_bounds: QueueBounds = QueueBounds(),  # noqa: B008 - frozen
    **bounds: int,
) -> Gateway:
    """A gateway of its own; several may share ``objects``."""
    store = store or FaultyStore(objects)
    clock, request_memory, registry = clock or SystemClock(), MemoryBudget(1 << 30, "tests"), CollectorRegistry()
    engine = LogEngine(
        EngineParts(
            store=store,
            cold_store=store,
            ownership=ownership or Ownership("a", Peers(clock), "preferred"),
            clock=clock,
            registry=registry,
            request_memory=request_memory,
            journal_peers=journal_peers,
        ),
        EngineSettings(
            bounds=EngineBounds(write_threads=4, read_threads=4, journals=journals, **bounds),
            groups=group_bounds,
            queues=queue_bounds,
            super_users=super_users,
        ),
    )
    return Gateway(store, engine, request_memory, registry)
