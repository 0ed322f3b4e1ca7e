"""The engine that the routes call: topics (``engine``), consumer groups and transactions, put together."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from gateway.access.rights import OPEN, Rights
from gateway.access.watch import AccessWatch
from gateway.applied_transactions.finishing_parts import FinishingParts
from gateway.cluster.ownership import Ownership
from gateway.engine.administration import Administration
from gateway.engine.bounds import (
    LARGE_BODIES_WAITING_MAX,
    LARGE_BODY_BYTES,
    LARGE_BODY_WAIT_MS_MAX,
    LOAD_THREADS,
    LOOK_THREADS,
    EngineBounds,
)
from gateway.engine.cloning import Cloning
from gateway.engine.erasures import Erasures
from gateway.engine.expired_on_arrival import ExpiredOnArrival
from gateway.engine.fetcher import Fetcher
from gateway.engine.foreign_watch import ForeignWatch
from gateway.engine.fresh_tables import FreshTables
from gateway.engine.history_plans import HistoryPlans
from gateway.engine.iceberg_tables import IcebergTables
from gateway.engine.journal_peers import JournalPeers
from gateway.engine.maintenance_watch import MaintenanceWatch
from gateway.engine.manifest_budget import ManifestBudget
from gateway.engine.metrics import EngineMetrics
from gateway.engine.open_journal import Journals
from gateway.engine.open_table import TableAccess
from gateway.engine.open_topic import OpenTopic, TopicParts
from gateway.engine.open_topics import OpenTopics
from gateway.engine.partition_reader import PartitionReader
from gateway.engine.partition_streams import PartitionStreams
from gateway.engine.pool import Pool
from gateway.engine.producer_ids import ProducerIds
from gateway.engine.single_journal_append import SingleJournalAppend
from gateway.engine.start_resolver import StartResolver
from gateway.engine.tail_cache import TailCache
from gateway.engine.topic_mover import TopicMoverParts
from gateway.engine.topic_pins import TopicPins
from gateway.engine.waiters import DrainFlag, WaiterSlots
from gateway.engine_parts import EngineParts, EngineSettings
from gateway.groups.bounds import LAG_REFRESH_MS
from gateway.groups.calls.groups import Groups
from gateway.journals import lag
from gateway.journals.commit_modes import CommitModes
from gateway.journals.future_times import FutureTimes
from gateway.journals.upkeep import JournalUpkeep
from gateway.memory_budget import MemoryBudget, Reservation
from gateway.queues.queues import Queues, QueueSources
from gateway.scheduled.delayed import DelayedRecordService
from gateway.schemas.schema_registry import SchemaRegistry
from gateway.system_tables.access import AccessTable
from gateway.system_tables.schemas import SchemasTable
from gateway.transactions.check_back import CheckBack
from gateway.transactions.kafka_transactions import KafkaTransactions
from gateway.transactions.one_request import OneRequestTransactions
from gateway.transactions.preparing import TransactionPreparer
from gateway.transactions.sweeping import TransactionSweeper
from gateway.transactions.transactions import Transactions
from gateway.typed_topics.reader_cache import ReaderCache
from log_format import layout
from log_format.cluster.proof import NOBODY
from log_format.journal.reader import JournalReader
from log_format.records.schema import RECORD_SCHEMA
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.segments.reader import SegmentReader
from log_format.segments.segment import decode_footer, decode_row_group, encode_segment
from log_format.store import ObjectStore
from log_format.topic.config import UNTYPED, Subjects
from log_format.topic.producer_id import TRANSACTIONAL, kind_of
from log_format.topic.producers import ProducerStamp

_log = logging.getLogger("gateway.engine")


def _warm_up() -> None:
    columns: dict[str, list[Any]] = {"partition": [0], "offset": [0], "timestamp": [0], "key": [b""], "value": [b""]}
    record = pa.table({**columns, "headers": [None]}, schema=RECORD_SCHEMA)
    segment = encode_segment(record, compression="zstd")
    footer = decode_footer(segment.data[segment.footer_start :], segment.ref("warm-up"))
    decode_row_group(footer, 0, segment.data[: segment.footer_start][footer.row_groups[0].start :])


def _access(given: EngineParts, bounds: EngineBounds, metrics: EngineMetrics) -> TableAccess:
    load_pool = Pool("load", LOAD_THREADS, given.make_executor)
    return TableAccess(
        store=given.store,
        clock=given.clock,
        new_id=given.new_id,
        jitter=given.jitter,
        bounds=bounds,
        look_pool=Pool("look", LOOK_THREADS, given.make_executor),
        load_pool=load_pool,
        write_pool=Pool("write", bounds.write_threads, given.make_executor),
        metrics=metrics,
        fetch_all=load_pool.map,
    )


def _journals(
    access: TableAccess,
    tail: TailCache,
    peers: JournalPeers,
    ownership: Ownership,
    topics: Mapping[str, OpenTopic],
) -> Journals:
    return Journals(
        access,
        tail=tail,
        peers=peers,
        gateways_without_journals=ownership.peers.without_journals,
        followers=topics,
        budget=ManifestBudget(access.bounds.manifest_bytes_max, access.clock, access.metrics),
    )


def _tail(bounds: EngineBounds, metrics: EngineMetrics) -> TailCache:
    tail = TailCache(bounds.tail_cache_bytes_max)
    metrics.tail_cache_bytes.set_function(lambda: tail.size_bytes)
    return tail


def _places(bounds: EngineBounds, metrics: EngineMetrics) -> WaiterSlots:
    places = WaiterSlots(bounds.waiting_polls_max)
    metrics.waiting_polls.set_function(lambda: places.taken_count)
    return places


def _topic_parts(
    access: TableAccess,
    journals: Journals,
    cold: tuple[JournalReader, Pool],
    *,
    ownership: Ownership,
    draining: DrainFlag,
) -> TopicParts:
    bounds = access.bounds
    return TopicParts(
        access=access,
        tail=journals.tail,
        budget=journals.budget,
        watch=MaintenanceWatch(access.clock, access.metrics, segments_behind=bounds.segments_behind),
        foreign=ForeignWatch(access.store, access.clock, access.metrics),
        contended=ownership.contended,
        draining=draining,
        expired=ExpiredOnArrival(access.metrics),
        moving=TopicMoverParts(access=access, journals=journals, tail=journals.tail, reader=cold[0], read_pool=cold[1]),
    )


def _reading(access: TableAccess, parts: TopicParts, cold_store: ObjectStore) -> PartitionReader:
    return PartitionReader(
        parts.tail,
        SegmentReader(cold_store, footer_cache_bytes=access.bounds.footer_cache_bytes_max),
        parts.moving.reader,
        pool=parts.moving.read_pool,
        clock=access.clock,
        metrics=access.metrics,
        bounds=access.bounds,
    )


class LogEngine:
    """One gateway's engine. Used on the event loop only."""

    def __init__(self, given: EngineParts, settings: EngineSettings) -> None:
        """Set up without starting a task or asking the store."""
        store, cold_store, ownership = given.store, given.cold_store, given.ownership
        clock, new_id, registry, bounds = given.clock, given.new_id, given.registry, settings.bounds
        self.clock, self.bounds, self._draining = clock, bounds, DrainFlag()
        self._metrics = EngineMetrics(registry)
        self._times_ahead = FutureTimes(tells=False)
        access = _access(given, bounds, self._metrics)
        schemas = SchemasTable(access)
        readers = ReaderCache(schemas, Pool("schemas", 1, given.make_executor), StoredReaders(store, clock))
        self.schema_readers = readers
        self._access = replace(access, type_records=readers.type_records, know_schemas=readers.know)
        self.access_table = AccessTable(self._access)
        self.rights = OPEN if settings.super_users is None else Rights(self.access_table, settings.super_users)
        self._tail, self._places = _tail(bounds, self._metrics), _places(bounds, self._metrics)
        self.access_watch = AccessWatch(self.access_table, self._places)
        self._cold_pool = Pool("read", bounds.read_threads, given.make_executor)
        topics: OrderedDict[str, OpenTopic] = OrderedDict()
        self.journals = _journals(self._access, self._tail, given.journal_peers, ownership, topics)
        cold = JournalReader(cold_store, cache_bytes=bounds.journal_cache_bytes_max), self._cold_pool
        parts = _topic_parts(self._access, self.journals, cold, ownership=ownership, draining=self._draining)
        self.topics = OpenTopics(parts, topics)
        self.foreign = parts.foreign
        self._read_by(parts, cold_store)
        self.administration = Administration(
            *(self.topics, self._access, self.journals),
            cold_store=cold_store,
            cold_pool=self._cold_pool,
            columns_of=self.schema_readers.columns,
        )
        self.tables = FreshTables(self.topics, clock)
        self.table_store, self.table_pool = cold_store, Pool("tables", 2, given.make_executor)
        self.iceberg = IcebergTables(
            *(self.tables, cold_store, Pool("iceberg", 1, given.make_executor)), clock=clock, new_id=new_id
        )
        self.pins = TopicPins(self.topics, self._access, cold_store, self._cold_pool)
        pool = Pool("clone", 1, given.make_executor)
        self.cloning = Cloning(self.topics, self._access, cold_store, pool, self.administration.forget_names)
        self.producer_ids = ids = ProducerIds(store, pool=self._access.look_pool, clock=clock, new_id=new_id)
        self.erasures = Erasures(*(self.topics, self._access, ids), cold_store=cold_store, cold_pool=self._cold_pool)
        self._finishing = finishing = FinishingParts(self._access, self.topics, given.request_memory)
        self.groups = Groups(
            *(self._access, self._finishing, self.topics),
            administration=self.administration,
            reading=self.reader,
            fetching=self.fetcher,
            ids=self.producer_ids,
            ownership=ownership,
            rights=self.rights,
            registry=registry,
            bounds=settings.groups,
        )
        sources = QueueSources(self.topics, self.start_resolver, self.reader, self._places, self._draining, readers)
        self.queues = Queues(
            self._access, finishing, sources, ids, ownership, registry=registry, bounds=settings.queues
        )
        deciding = (finishing, TransactionPreparer(self.groups.committed, finishing, self.topics, clock=clock), ids)
        self.transactions = Transactions(*deciding, self.queues.coordinator, clock=clock, new_id=new_id)
        self.kafka_transactions = KafkaTransactions(self.transactions, finishing, ids, clock=clock)
        self.single_journal_append = SingleJournalAppend(self.journals, self._draining)
        self.one_request = OneRequestTransactions(*deciding, clock=clock)
        self.check_back = CheckBack(finishing, clock=clock, draining=self._draining)
        self.sweeping = TransactionSweeper(finishing, ownership, clock=clock, bounds=bounds)
        self.journal_upkeep = JournalUpkeep(self.journals, self.topics, self._access, ownership)
        self.commit_modes = CommitModes(self.journals, self.topics, self._access)
        delaying = (self._access, self.topics, ownership, finishing.transactions, given.make_executor)
        self.delayed = DelayedRecordService(*delaying, ids=ids, memory=given.request_memory, registry=registry)
        self.schemas = SchemaRegistry(schemas, self._access, given.make_executor, self._subjects_of)
        self._large_bodies = MemoryBudget(bounds.large_bodies_bytes_max, "large bodies")
        self._drained: asyncio.Task[None] | None = None

    async def _subjects_of(self, topic: str) -> Subjects:
        state = (await self.topics.fresh(topic, self.clock.monotonic_ms())).state
        return state.config.subjects if state.exists else UNTYPED

    def _read_by(self, parts: TopicParts, cold_store: ObjectStore) -> None:
        self.reader = reading = _reading(self._access, parts, cold_store)
        self.start_resolver = StartResolver(self.topics, reading)
        self.fetcher = Fetcher(
            self.start_resolver,
            reading,
            clock=self.clock,
            places=self._places,
            draining=self._draining,
            bounds=self.bounds,
        )
        self.history_plans = HistoryPlans(cold_store, pool=self._cold_pool, clock=self.clock)
        self.streams = PartitionStreams(reading, clock=self.clock, places=self._places, draining=self._draining)

    @property
    def draining(self) -> bool:
        """Whether new work is refused."""
        return self._draining.begun

    @property
    def owned_topic_count(self) -> int:
        """Number of existing topics that this gateway has open."""
        return sum(1 for topic in self.topics if topic.log.state.exists)

    async def start(self) -> None:
        """Get ready, and start the background work.

        Nothing is read before a caller asks for it, so the start is quick with any number of topics.
        """
        if self.rights.enforced:
            await self.access_watch.start()
        await self.warm_up()
        self.sweeping.start()
        self.journal_upkeep.start()
        self.commit_modes.start()
        self.delayed.publishing.start()
        self.groups.start()
        self.queues.start()

    async def warm_up(self) -> None:
        """Use the encoder once: Arrow's first use loads for a third of a second, for which no request shall wait."""
        await self._access.write_pool.run(_warm_up)

    def refuse_work(self) -> None:
        """Take no new work from now on; work under way goes on."""
        self._draining.begun = True

    async def drain(self) -> None:
        """End waits, flush what is buffered, acknowledge it. Idempotent."""
        self.refuse_work()
        if self._drained is None:
            self._drained = asyncio.create_task(self._drain())
        await asyncio.shield(self._drained)

    async def store_answers(self) -> None:
        """Check that the store can be read. Raises ``StoreUnavailable``, ``BackOff``."""
        await self._access.look_pool.run(self._ask_store)

    async def measure(self, lag_age_ms_max: int = LAG_REFRESH_MS) -> None:
        """Measure the lag of tables behind their journals, and the lag of groups unless it was measured less than
        ``lag_age_ms_max`` ago, for a bounded time. Raises nothing."""
        lag.measure(self.journals, self._metrics, self.clock, self._times_ahead)
        if not self.draining:
            await self.groups.lag_watch.look(lag_age_ms_max)

    async def open_topic(self, name: str, partition: int | None = None) -> OpenTopic:
        """Return the topic as it is known here, to append records to it, or to one of its partitions.

        Raises ``UnknownPartition``, and what ``OpenTopics.for_append`` raises.
        """
        topic = await self.topics.for_append(name, self.clock.monotonic_ms())
        if partition is not None and partition >= topic.log.state.partition_count:
            await topic.fresh()
            topic.require_partition(partition)
        return topic

    async def check_producer(self, stamp: ProducerStamp | None, owner: str = NOBODY) -> None:
        """Raise ``RequestRefused`` unless this store issued the stamp's producer id, for this owner, and it is not fenced."""
        if stamp is None:
            return
        if kind_of(stamp.producer_id) == TRANSACTIONAL:
            await self.transactions.check(stamp, owner)
        else:
            await self.producer_ids.check(stamp, owner)

    async def reserve_body_turn(self, length_bytes: int) -> Reservation:
        """Wait until a request's body of this length may be read. The caller releases the result when the request is over.

        Raises ``BackOff`` (``OVERLOADED``).
        """
        if length_bytes < LARGE_BODY_BYTES:
            return self._large_bodies.reserve(0)
        return await self._large_bodies.reserve_in_turn(
            length_bytes, wait_ms=LARGE_BODY_WAIT_MS_MAX, waiting_max=LARGE_BODIES_WAITING_MAX
        )

    def _ask_store(self) -> None:
        # One LIST that ends at its first answer: it works without topics and without any certain object.
        for _ in self._access.store.list_directories(layout.TOPICS):
            return

    async def _drain(self) -> None:
        self._places.wake_all()
        await self.groups.drain()
        await self.queues.drain()
        await self.delayed.drain()
        await self.foreign.drain()
        await asyncio.gather(self.topics.drain(), self.journals.drain())
        self.access_watch.stop()
        await self.access_table.drain()
        await self.schemas.drain()
        self.sweeping.stop()
        self.journal_upkeep.stop()
        self.commit_modes.stop()
        await self._finishing.drain()
        await self.administration.drain()
        await self.cloning.drain()
        # The pools stay: requests under way are still answered.
