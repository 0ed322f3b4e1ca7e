"""Receiving from queues: takes available records, reads them, and locks them for the caller.

1. Ranges are held before they are read, so concurrent callers get different records. Offsets that were not read are let go.
2. A lock begins when the records are in memory, and only while this gateway is known to coordinate the queue.
3. A waiting caller holds no records. It is woken by a commit in one of the topics, by a release, by the end of a lock or a
   delay.
4. The known states of the topics and of the queue are enough to answer; if they have nothing to deliver, their heads are
   looked at first.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.engine.answer_memory import read_bytes_max, reserve_for_store, reserve_for_tail
from gateway.engine.bounds import PARTITIONS_PER_STEP, SMALL_ANSWER_BYTES
from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.engine.partition_reader import PartitionReader
from gateway.engine.read_records import ReadLimits, Records
from gateway.engine.waiters import DrainFlag, WaiterSlots, Wakeup
from gateway.memory_budget import Memory
from gateway.problem import overloaded
from gateway.queues.bounds import LOOK_AHEAD
from gateway.queues.coordinator import Coordinator
from gateway.queues.keyed import KeyedAcquisition
from gateway.queues.live_queue import LiveQueue, QueueParts
from gateway.queues.outcomes import MAX_DELIVERIES, dead_run, dropped_report, expired_run
from gateway.queues.queue_partition import HeldRange, QueuePartition
from gateway.queues.received import Delivered, ReadTarget, Received, ReceiveRequest, TakeAttempt
from gateway.queues.selection import SelectedRecords, filter_of, left_out_run, select_records
from gateway.system_tables.queues import LEASE_BYTES
from log_format import limits
from log_format.errors import OffsetOutOfRange, TidelogError, UnknownTopic
from log_format.queues.changes import CoordinatorFenced
from log_format.records.size import record_bytes

_FLUSH_MS = 500
"""Time until records that were left out are written, unless a settlement's commit includes them."""


class QueueReceiver:
    """Receives from all queues. ``topics`` and ``reading`` are the gateway's own."""

    def __init__(
        self,
        coordinator: Coordinator,
        parts: QueueParts,
        topics: OpenTopics,
        reading: PartitionReader,
        *,
        places: WaiterSlots,
        draining: DrainFlag,
    ) -> None:
        self._coordinator = coordinator
        self._parts = parts
        self._topics = topics
        self._reading = reading
        self._keyed = KeyedAcquisition(reading, parts.clock)
        self._clock = parts.clock
        self._places = places
        self._draining = draining

    async def receive(self, name: str, wish: ReceiveRequest, memory: Memory) -> Received:
        """Lock records and return them, perhaps none. Raises ``RequestRefused`` (``UNKNOWN_QUEUE``), ``BackOff``,
        ``OutcomeUnknown``."""
        deadline_ms = self._clock.monotonic_ms() + wish.wait_ms_max
        queue = await self._coordinator.live(name)
        if not self._parts.table.has_room(LEASE_BYTES):
            raise overloaded("As many records are in flight as queues_bytes_max allows: settle some.")
        await queue.promise.allow(wish.lock_ms or queue.settings.lock_ms)
        found = await self._take(queue, wish, memory, is_fresh=False)
        if found.record_count:
            return found
        found.reservation.release()
        # Another gateway may have ended a transaction that holds records. A waiting caller is woken for that.
        table = self._parts.table
        await (table.fresh() if wish.wait_ms_max == 0 else table.recent(self._parts.bounds.head_ms))
        queue = await self._coordinator.live(name)
        found = await self._take(queue, wish, memory, is_fresh=True)
        if found.record_count or wish.wait_ms_max == 0:
            return found
        found.reservation.release()
        return await self._wait_and_take(name, wish, memory, deadline_ms)

    async def _wait_and_take(self, name: str, wish: ReceiveRequest, memory: Memory, deadline_ms: int) -> Received:
        wakeup = Wakeup()
        with self._places.hold(wakeup):
            while True:
                queue = await self._coordinator.live(name)
                topics = queue.topics_version
                with ExitStack() as stack:
                    queue.waiters[wakeup] = None
                    stack.callback(queue.waiters.pop, wakeup, None)
                    await self._register(stack, queue, wish, wakeup)
                    while queue.is_current and queue.topics_version == topics:
                        # Registered first, then read: a commit in between is not missed.
                        wakeup.clear()
                        found = await self._take(queue, wish, memory, is_fresh=False)
                        left_ms = deadline_ms - self._clock.monotonic_ms()
                        if found.record_count or left_ms <= 0 or self._draining.begun:
                            return found
                        found.reservation.release()
                        await wakeup.wait(left_ms)

    async def _register(self, stack: ExitStack, queue: LiveQueue, wish: ReceiveRequest, wakeup: Wakeup) -> None:
        for topic in await self._open(queue.settings.topics, None):
            partitions = [one for one in range(topic.state.partition_count) if wish.wants(topic.name, one)]
            for first in range(0, len(partitions), PARTITIONS_PER_STEP):
                if first:
                    await asyncio.sleep(0)
                stack.enter_context(topic.waiters.register(partitions[first : first + PARTITIONS_PER_STEP], wakeup))
            topic.poll_while_awaited()

    async def _open(self, names: Sequence[str], arrival_ms: int | None) -> list[OpenTopic]:
        """Return the topics that exist; looked at after ``arrival_ms``, if given."""
        now_ms = self._clock.monotonic_ms()
        looks = [
            self._topics.loaded(name, now_ms) if arrival_ms is None else self._topics.fresh(name, arrival_ms)
            for name in names
        ]
        return [topic for topic in await asyncio.gather(*looks) if topic.state.exists]

    # One try

    async def _take(self, queue: LiveQueue, wish: ReceiveRequest, memory: Memory, *, is_fresh: bool) -> Received:
        settings = queue.settings
        now_ms = self._clock.monotonic_ms()
        take = TakeAttempt(
            queue=queue,
            settings=settings,
            filter=filter_of(settings),
            records_left=wish.records_max,
            bytes_left=min(wish.bytes_max, read_bytes_max(memory)),
            memory=memory,
            reservation=memory.reserve(0),
            now_ms=self._clock.now_ms(),
        )
        try:
            if now_ms >= queue.blind_until_ms:
                is_quiet = now_ms < queue.quiet_until_ms
                await self._take_topics(take, wish, now_ms if is_fresh or is_quiet else None, is_quiet=is_quiet)
            if not take.delivered:
                return self._answer(take, 0)
            if not take.is_for_store:
                take.reservation = await reserve_for_tail(memory, take.size_bytes)
            if not await self._coordinator.is_current(queue):
                raise CoordinatorFenced(queue.name)
            received = self._answer(take, wish.lock_ms or settings.lock_ms)
            if wish.begun_max is not None:
                _note_unbegun(take.delivered, wish.begun_max)
            return received
        except BaseException:  # Also when the client went away meanwhile.
            take.drop()
            raise

    def _answer(self, take: TakeAttempt, lock_ms: int) -> Received:
        """Lock the records, and return the answer; nothing waits here."""
        queue = take.queue
        by_share: dict[QueuePartition, list[Delivered]] = {}
        for one in take.delivered:
            by_share.setdefault(one.share, []).append(one)
        leases = {
            share: queue.leases.give(share, [one.held for one in some], lock_ms) for share, some in by_share.items()
        }
        for share, some in by_share.items():
            if any(one.offsets is not None for one in some):
                leases[share].offsets = np.sort(np.concatenate([_offsets(one) for one in some]))
        count = sum(one.records.num_rows for one in take.delivered)
        self._parts.metrics.delivered.inc(count)
        return Received(
            [(one, leases[one.share]) for one in take.delivered],
            self._clock.now_ms() + lock_ms,
            take.size_bytes,
            count,
            take.reservation,
        )

    async def _take_topics(
        self, take: TakeAttempt, wish: ReceiveRequest, arrival_ms: int | None, *, is_quiet: bool
    ) -> None:
        queue = take.queue
        targets = [
            (topic, topic.state, partition)
            for topic in await self._open(take.settings.topics, arrival_ms)
            for partition in range(topic.state.partition_count)
            if wish.wants(topic.name, partition)
        ]
        if not targets:
            return
        queue.turn = (queue.turn + 1) % len(targets)
        is_fragmented = queue.queue.run_count >= limits.QUEUE_RUNS_MAX
        for number, (topic, state, partition) in enumerate(targets[queue.turn :] + targets[: queue.turn], 1):
            if number % PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
            if not take.has_room:
                return
            share = queue.share(topic.name, (state.existing_id, partition), state.log_start(partition))
            end = state.high_watermark(partition)
            share.give_none_below(end if is_quiet else None)
            if is_fragmented:
                end = min(end, share.runs[-1].last + 1 if share.runs else share.start)
            try:
                await self._take_partition(take, ReadTarget(topic, state, share, end))
            except (OffsetOutOfRange, UnknownTopic):
                continue  # The records were deleted meanwhile.
            except TidelogError:
                if not take.delivered:
                    raise
                take.is_full = True

    async def _take_partition(self, take: TakeAttempt, at: ReadTarget) -> None:
        share, settings = at.share, take.settings
        while take.has_room:
            room = min(take.records_left, settings.max_in_flight - share.in_flight)
            if room <= 0:
                return
            if settings.order == "key":
                some = await self._keyed.acquire(at, room, settings.max_in_flight * LOOK_AHEAD)
            else:
                one = share.acquire(now_ms=self._clock.now_ms(), end=at.end, count_max=room)
                some = [] if one is None else [one]
            if not some:
                return
            if any(held.count >= settings.max_deliveries for held in some):
                self._end(take, share, some)
            else:
                await self._read_all(take, at, some)

    def _end(self, take: TakeAttempt, share: QueuePartition, some: Sequence[HeldRange]) -> None:
        """End records that were delivered as often as the settings now allow: as dead letters, or dropped. Release the others."""
        late = [held for held in some if held.count >= take.settings.max_deliveries]
        for held in some:
            share.release(held)
        share.note([dead_run(take.settings, (held.first, held.last), held.count, MAX_DELIVERIES) for held in late])
        if take.settings.dead_letter_topic is None:
            lost = [dropped_report(share, held, held.count, MAX_DELIVERIES) for held in late]
            take.queue.drops.tell(lost)
        take.queue.expect_flush(_FLUSH_MS)

    async def _read_all(self, take: TakeAttempt, at: ReadTarget, some: Sequence[HeldRange]) -> None:
        left = list(some)
        try:
            while left and take.has_room:
                await self._read(take, at, left[0])
                left.pop(0)
        finally:
            for held in left:
                if at.share.holder(held.first) is held:
                    at.share.release(held)

    async def _read(self, take: TakeAttempt, at: ReadTarget, held: HeldRange) -> None:
        """Read a held range; let go of the records that are not delivered."""
        share = at.share
        records = await self._records(take, at, held)
        read_to = min(records.next_offset, held.last + 1)
        if read_to <= held.first:
            take.is_full = True
            share.release(held)
            return
        if read_to <= held.last:
            share.release(share.part(held, read_to, held.last))
            take.is_full = records.is_full and take.filter is None
        take.looked_at_bytes += records.size_bytes
        table = _up_to(records, held.last)
        if table is None:
            share.release(held)
            share.note([left_out_run(held)])
            take.queue.expect_flush(_FLUSH_MS)
            return
        kept = select_records(table, take.filter, take.now_ms)
        if kept.is_whole:
            _deliver(take, at, held, table)
        else:
            _deliver_some(take, at, held, kept)
            self._parts.metrics.left_out.inc(table.num_rows - kept.records.num_rows)
            take.queue.expect_flush(_FLUSH_MS)
        size = records.size_bytes if kept.is_whole else int(record_bytes(kept.records).sum())
        take.bytes_left = max(0, take.bytes_left - size)
        take.size_bytes += size

    async def _records(self, take: TakeAttempt, at: ReadTarget, held: HeldRange) -> Records:
        wanted = ReadLimits(
            records_max=held.last - held.first + 1, bytes_max=take.bytes_left, at_least_one=not take.delivered
        )
        found = self._reading.read_from_memory(at.state, at.share.partition, held.first, wanted)
        if found is not None:
            return found
        if not take.is_for_store:
            take.reservation.release()
            is_small = take.bytes_left <= SMALL_ANSWER_BYTES
            take.reservation = await reserve_for_store(take.memory, take.bytes_left, is_small=is_small)
            take.is_for_store = True
        return await self._reading.read(at.topic, at.state, at.share.partition, held.first, wanted)


def _deliver(take: TakeAttempt, at: ReadTarget, held: HeldRange, table: pa.Table) -> None:
    take.records_left -= table.num_rows
    is_dense = table.num_rows == held.last - held.first + 1
    offsets = None if is_dense else table.column("offset").to_numpy()
    at.share.count(held, table.num_rows)
    take.delivered.append(Delivered(at.topic.name, table, held, at.share, offsets))


def _deliver_some(take: TakeAttempt, at: ReadTarget, held: HeldRange, kept: SelectedRecords) -> None:
    """Deliver the records that pass. Those that have expired are decided now; those that don't pass count as settled."""
    share, rest, pieces = at.share, held, list[HeldRange]()
    late = [expired_run(take.settings, (offset, offset), held.count) for offset in kept.expired]
    end = held.last
    for run in late:
        if run.first > rest.first:
            pieces.append(rest)
            rest = share.part(rest, run.first, rest.last)
        if run.last == end:
            share.release(rest)
            break
        before, rest = rest, share.part(rest, run.last + 1, rest.last)
        share.release(before)
    else:
        pieces.append(rest)
    offsets = kept.records.column("offset").to_numpy()
    notes = list(late)
    for piece in pieces:
        first, last = np.searchsorted(offsets, (piece.first, piece.last + 1)).tolist()
        if first == last:
            share.release(piece)
            notes.append(left_out_run(piece))
        else:
            _deliver(take, at, piece, kept.records.slice(first, last - first))
    share.note(notes)


def _note_unbegun(delivered: Sequence[Delivered], begun_max: int) -> None:
    """Mark all records of the answer after the first ``begun_max``, in its order, as not begun."""
    left = begun_max
    for one in delivered:
        count = one.records.num_rows
        if left < count:
            held = one.held if left == 0 else one.share.part(one.held, int(_offsets(one)[left]), one.held.last)
            held.is_begun = False
        left = max(0, left - count)


def _offsets(one: Delivered) -> npt.NDArray[np.int64]:
    if one.offsets is not None:
        return one.offsets
    return np.arange(one.held.first, one.held.last + 1, dtype=np.int64)


def _up_to(records: Records, last: int) -> pa.Table | None:
    """Return the records up to offset ``last``; None if there are none."""
    if not records.record_count:
        return None
    table = records.tables[0] if len(records.tables) == 1 else pa.concat_tables(records.tables)
    if table.column("offset")[table.num_rows - 1].as_py() > last:
        offsets = table.column("offset").to_numpy()
        table = table.slice(0, int(np.searchsorted(offsets, last, "right")))
    return table if table.num_rows else None
