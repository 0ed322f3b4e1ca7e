"""One gateway's queues, put together from their parts: what the routes call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from prometheus_client import CollectorRegistry

from gateway.applied_transactions.finishing_parts import FinishingParts
from gateway.cluster.ownership import Ownership
from gateway.engine.fetch_answer import FetchFrom
from gateway.engine.open_table import TableAccess
from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.engine.partition_reader import PartitionReader
from gateway.engine.producer_ids import ProducerIds
from gateway.engine.start_resolver import ReadPosition, StartResolver
from gateway.engine.waiters import DrainFlag, WaiterSlots
from gateway.memory_budget import Memory
from gateway.problem import overloaded
from gateway.queues.bounds import QUEUES_MAX, SETTLED_LEASES_MAX, QueueBounds
from gateway.queues.coordinator import Coordinator
from gateway.queues.dead_letters import DeadLetters
from gateway.queues.describing import PartitionDescription, QueueDescriber
from gateway.queues.dropped import DropReports, Drops
from gateway.queues.live_queue import QueueParts
from gateway.queues.metrics import QueueMetrics
from gateway.queues.publishing import QueuePublisher
from gateway.queues.received import Received, ReceiveRequest
from gateway.queues.receiving import QueueReceiver
from gateway.queues.redriving import Redriver, RedriveRequest
from gateway.queues.redriving_typed import Redriven, TypedRedriver, sources_of
from gateway.queues.settled_leases import SettledLeases
from gateway.queues.settlement import Result, Settlement
from gateway.queues.upkeep import Upkeep
from gateway.queues.watch import TopicWatch
from gateway.tasks.deadlines import Deadlines
from gateway.typed_topics.reader_cache import ReaderCache
from log_format import limits
from log_format.errors import UnknownTopic
from log_format.queues.changes import AlterQueue, DeleteQueue, PutQueue, SubscribeQueue, unknown_queue_error
from log_format.queues.moves import MoveStarts
from log_format.queues.row import EARLIEST, LATEST, PartitionChange, QueueRow, QueueSettings, RedrivePosition
from log_format.topic_name import is_topic_name


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDescription:
    """A queue's settings, and its partitions in order."""

    settings: QueueSettings
    partitions: Sequence[PartitionDescription]
    drops: Drops


@dataclass(frozen=True, slots=True)
class QueueSources:
    """Topics and readers that queues read from, and the places where their callers wait."""

    topics: OpenTopics
    locating: StartResolver
    reading: PartitionReader
    places: WaiterSlots
    draining: DrainFlag
    readers: ReaderCache
    """Readers of typed topics' schemas."""


class Queues:
    """Queues of one gateway. Used on the event loop only. Call ``start`` once the gateway serves."""

    def __init__(
        self,
        access: TableAccess,
        finishing: FinishingParts,
        sources: QueueSources,
        producer_ids: ProducerIds,
        ownership: Ownership,
        *,
        registry: CollectorRegistry,
        bounds: QueueBounds,
    ) -> None:
        clock, topics, reading = access.clock, sources.topics, sources.reading
        self._clock = clock
        self._new_id = access.new_id
        self._bounds = bounds
        self._topics = topics
        self._locating = sources.locating
        self.table = table = finishing.queues
        metrics = QueueMetrics(registry)
        self.drop_reports = DropReports(metrics, clock)
        parts = QueueParts(
            table=table,
            clock=clock,
            deadlines=Deadlines(),
            settled_leases=SettledLeases(SETTLED_LEASES_MAX),
            metrics=metrics,
            bounds=bounds,
            reports=self.drop_reports,
        )
        self.coordinator = Coordinator(parts, coordinator_id=access.new_id())
        self._receiving = QueueReceiver(
            self.coordinator, parts, topics, reading, places=sources.places, draining=sources.draining
        )
        publishing = QueuePublisher(finishing, producer_ids, clock, access.new_id, bounds.undecided_ms_max)
        dead_letters = DeadLetters(parts, publishing, topics, reading, producer_ids)
        self._redriving = Redriver(parts, publishing, dead_letters, topics, reading)
        self._redriving_typed = TypedRedriver(self._redriving, sources.readers, producer_ids)
        self._describing = QueueDescriber(topics, reading, clock, registry, self.coordinator)
        self.upkeep = Upkeep(
            self.coordinator, parts, dead_letters, TopicWatch(parts, topics, reading), ownership=ownership
        )

    def start(self) -> None:
        """Start the background work."""
        self.upkeep.start()

    async def drain(self) -> None:
        """Give no more leases, and wait for the settlements under way."""
        self.upkeep.stop()
        await self.coordinator.leave()
        await self.table.drain()

    async def put(self, name: str, settings: QueueSettings, *, has_start: bool) -> tuple[QueueSettings, bool]:
        """Create a queue, or replace its settings; return the settings, and whether the queue is new.

        Raises ``RequestRefused`` (``UNKNOWN_TOPIC``, ``QUEUE_ALREADY_EXISTS``), ``BackOff``, ``OutcomeUnknown``.
        """
        arrival_ms = self._clock.monotonic_ms()
        known = await self._row(name)
        names = [*settings.topics, *([settings.dead_letter_topic] if settings.dead_letter_topic is not None else [])]
        topics = dict(
            zip(names, await asyncio.gather(*(self._existing(one, arrival_ms) for one in names)), strict=True)
        )
        start = settings.start if known is None else known.settings.start
        added = [one for one in settings.topics if known is None or one not in known.settings.topics]
        starts: list[PartitionChange] = []
        for one in added:
            starts += await self._starts(name, topics[one], start)
        positions: tuple[RedrivePosition, ...] = ()
        letters = settings.dead_letter_topic
        if letters is not None and (known is None or known.settings.dead_letter_topic != letters):
            positions = _ends(topics[letters])
        queue_id = self._new_id()
        decision = PutQueue(
            queue=name,
            queue_id=queue_id,
            settings=settings,
            has_start=has_start,
            starts=tuple(starts),
            positions=positions,
        )
        put = await self.table.decide(decision)
        if put.row is None:
            raise unknown_queue_error(name)
        return put.row.settings, put.row.queue_id == queue_id

    async def subscribe(self, name: str, topics: Sequence[str]) -> QueueSettings:
        """Let the queue read these topics, too; return its settings. A queue that doesn't exist is created with the defaults.

        Raises ``RequestRefused`` (``UNKNOWN_TOPIC``, ``INVALID_REQUEST``), ``BackOff``, ``OutcomeUnknown``.
        """
        arrival_ms = self._clock.monotonic_ms()
        known = await self._row(name)
        added = [one for one in topics if known is None or one not in known.settings.topics]
        start = LATEST if known is None else known.settings.start
        starts: list[PartitionChange] = []
        for one in added:
            starts += await self._starts(name, await self._existing(one, arrival_ms), start)
        decision = SubscribeQueue(
            queue=name, queue_id=self._new_id(), settings=default_settings(added), starts=tuple(starts)
        )
        subscribed = await self.table.decide(decision)
        if subscribed.row is None:
            raise unknown_queue_error(name)
        return subscribed.row.settings

    async def alter(self, name: str, changes: Mapping[str, object]) -> None:
        """Change these fields of a queue's settings. A queue that doesn't exist is created, and reads no topic yet.

        Raises ``RequestRefused`` (``QUEUE_ALREADY_EXISTS`` for another start), ``BackOff``, ``OutcomeUnknown``.
        """
        await self._row(name)
        decision = AlterQueue(queue=name, queue_id=self._new_id(), settings=default_settings(()), changes=changes)
        await self.table.decide(decision)

    async def move_starts(
        self, name: str, starts: Mapping[str, Mapping[int, int]], dropped: frozenset[str] = frozenset()
    ) -> None:
        """Set the start offsets, by topic and partition, whatever is settled; stop reading the ``dropped`` topics.

        Raises ``RequestRefused`` (``UNKNOWN_QUEUE``, ``UNKNOWN_TOPIC``), ``BackOff`` (also while records are locked),
        ``OutcomeUnknown``.
        """
        arrival_ms = self._clock.monotonic_ms()
        queue = await self.coordinator.live(name)
        changes: list[PartitionChange] = []
        for one, offsets in starts.items():
            topic = await self._existing(one, arrival_ms)
            is_new = one not in queue.settings.topics
            initial = await self._starts(name, topic, queue.settings.start) if is_new else []
            change = PartitionChange(queue=name, topic=one, topic_id=topic.state.existing_id, partition=0)
            by_partition = {each.partition: each.start_offset for each in initial} | dict(offsets)
            changes += [
                msgspec.structs.replace(change, partition=partition, start_offset=offset)
                for partition, offset in sorted(by_partition.items())
            ]
        self.coordinator.drop_if_unlocked(queue)
        await self.table.decide(MoveStarts(queue=name, epoch=queue.epoch, starts=tuple(changes), dropped=dropped))

    async def settings(self, name: str) -> QueueSettings:
        """Return the settings, which may be ``head_ms`` old. Raises ``RequestRefused`` (``UNKNOWN_QUEUE``), ``BackOff``."""
        row = (await self.table.recent(self._bounds.head_ms)).queue(name).row or (await self.table.fresh()).queue(
            name
        ).row
        if row is None:
            raise unknown_queue_error(name)
        return row.settings

    async def page(
        self, after: str, limit: int, shown: Callable[[str], bool]
    ) -> tuple[list[tuple[str, QueueSettings]], bool]:
        """Return at most ``limit`` of the queues to be ``shown`` after ``after``, in order of name, and whether there are more.

        Raises ``BackOff``.
        """
        state = await self.table.fresh()
        names = sorted(name for name in state.queues if name > after and shown(name))
        rows = [(name, state.queues[name].row) for name in names[:limit]]
        return [(name, row.settings) for name, row in rows if row is not None], len(names) > limit

    async def describe(self, name: str, shown: Callable[[str], bool]) -> QueueDescription:
        """Return a queue's description, with its partitions of the topics to be ``shown``.

        Raises ``RequestRefused`` (``UNKNOWN_QUEUE``), ``BackOff``, ``OutcomeUnknown``.
        """
        await self.table.fresh()
        queue = await self.coordinator.live(name)
        partitions = await self._describing.partitions(queue, shown)
        return QueueDescription(settings=queue.settings, partitions=partitions, drops=queue.drops)

    async def delete(self, name: str) -> None:
        """Delete a queue. Raises ``RequestRefused`` (``UNKNOWN_QUEUE``), ``BackOff``, ``OutcomeUnknown``."""
        await self.table.decide(DeleteQueue(queue=name))
        live = self.coordinator.known(name)
        if live is not None:
            self.coordinator.forget(live)

    async def receive(self, name: str, wish: ReceiveRequest, memory: Memory) -> Received:
        """Lock records and return them (``QueueReceiver.receive``)."""
        return await self._receiving.receive(name, wish, memory)

    async def settle(self, name: str, settlements: Sequence[Settlement]) -> list[Result]:
        """Settle; return the result of each settlement. Raises what ``LiveQueue.settle`` raises."""
        queue = await self.coordinator.live(name)
        return await queue.settle(settlements)

    async def redrive(self, name: str, wanted: RedriveRequest) -> Redriven:
        """Produce dead letters again; return how many. Raises what ``Redriver.redrive`` and ``TypedRedriver.redrive`` raise."""
        queue = await self.coordinator.live(name)
        if sources_of(queue.settings) is not None:
            return await self._redriving_typed.redrive(queue, wanted)
        return Redriven(await self._redriving.redrive(queue, wanted))

    async def _row(self, name: str) -> QueueRow | None:
        """Return the queue's row as it is now; None if the queue may be created. Raises ``BackOff``, also if there are
        ``QUEUES_MAX`` queues."""
        state = await self.table.fresh()
        row = state.queue(name).row
        if row is None and len(state.queues) >= QUEUES_MAX:
            raise overloaded(f"There are {QUEUES_MAX} queues already, the most.")
        return row

    async def _existing(self, name: str, arrival_ms: int) -> OpenTopic:
        if not is_topic_name(name):
            raise UnknownTopic(name[: limits.TOPIC_NAME_CHARACTERS_MAX])
        topic = await self._topics.fresh(name, arrival_ms)
        topic.require_state()
        return topic

    async def _starts(self, queue: str, topic: OpenTopic, start: str | int) -> list[PartitionChange]:
        """Return where the queue begins in each partition, except those where it begins at offset 0."""
        state = topic.state
        if start == EARLIEST:
            return []
        if start == LATEST:
            offsets = [state.high_watermark(partition) for partition in range(state.partition_count)]
        else:
            assert isinstance(start, int)
            wanted = [
                FetchFrom(topic=topic.name, partition=partition, timestamp_ms=start)
                for partition in range(state.partition_count)
            ]
            found = await self._locating.resolve(wanted, {topic.name: topic})
            offsets = []
            for one in found:
                if not isinstance(one, ReadPosition):
                    raise one
                offsets.append(one.offset)
        change = PartitionChange(queue=queue, topic=topic.name, topic_id=state.existing_id, partition=0)
        return [
            msgspec.structs.replace(change, partition=partition, start_offset=offset)
            for partition, offset in enumerate(offsets)
            if offset > 0
        ]


def default_settings(topics: Iterable[str]) -> QueueSettings:
    """Return the settings of a queue whose caller gives its topics only."""
    return QueueSettings(
        topics=tuple(topics),
        lock_ms=limits.LOCK_MS_DEFAULT,
        max_deliveries=limits.DELIVERIES_DEFAULT,
        max_in_flight=limits.IN_FLIGHT_DEFAULT,
    )


def _ends(topic: OpenTopic) -> tuple[RedrivePosition, ...]:
    state = topic.state
    ends = [state.high_watermark(partition) for partition in range(state.partition_count)]
    return tuple(
        RedrivePosition(state.existing_id, partition, end, end) for partition, end in enumerate(ends) if end > 0
    )
