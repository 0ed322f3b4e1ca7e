"""Fetches: how much to read and how long to wait, over one partition or several.

1. Every answer follows a look at the log that began after the fetch arrived (``OpenTopic.fresh``). A fetch begins with a look.
   The exception is a fetch that may wait, when as far as is known there is nothing to read: it shares the next look that its
   journal gets anyway, within a second or so.
2. A waiting fetch holds no records and no memory for them. It wakes as soon as this gateway sees a commit to its partitions.
   Meanwhile the log is looked at for other gateways' commits.
3. The limits are totals over the fetch's partitions, in the order of the request; the first record comes whatever its size.
   The time for old records is a total, too. What is left when that time is over, or does not fit one answer's memory, is for
   the next fetch. If memory for a large answer does not come within a second, the fetch gets a small answer.
4. A partition that fails ends the waiting; the others are answered all the same.
5. Records that a filter left out are not looked at again: the fetch waits at the offset up to which it has looked. The bytes
   that one answer looks at are bounded in total. Past that bound the fetch is answered, empty if need be, and the answer says
   where to go on.
6. The time on the event loop is proportional to the number of partitions, in steps between which other requests are served.
   Memory for a long list is reserved first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from gateway.engine.answer_memory import read_bytes_max, reserve_for_store, reserve_for_tail
from gateway.engine.bounds import (
    ANSWER_WAIT_MS_MAX,
    FETCH_LIST_PARTITIONS,
    FETCH_PARTITION_BYTES,
    LARGE_ANSWER_WAIT_MS_MAX,
    LOOKED_BYTES_MAX,
    PARTITIONS_PER_STEP,
    POLL_REST_FACTOR,
    EngineBounds,
)
from gateway.engine.fetch_answer import FetchAnswer, Fetched, FetchFrom, FetchLimits
from gateway.engine.open_topic import OpenTopic
from gateway.engine.partition_reader import PartitionReader
from gateway.engine.read_records import ReadLimits, Records
from gateway.engine.start_resolver import ReadPosition, StartResolver
from gateway.engine.waiters import DrainFlag, WaiterSlots, Wakeup
from gateway.memory_budget import Memory, MemoryBudget, Reservation
from log_format.clock import Clock
from log_format.errors import BackOff, TidelogError
from log_format.topic.state import TopicState


@dataclass(frozen=True, slots=True)
class _DeferredLook:
    """A look that is still to be made for a fetch: the partitions it wants, and when it arrived (monotonic)."""

    wanted: Sequence[FetchFrom]
    arrival_ms: int

    def is_done(self, starts: Sequence[ReadPosition | TidelogError]) -> bool:
        """Return whether other requests have looked at all these topics since the fetch arrived."""
        return all(isinstance(start, TidelogError) or start.topic.is_fresh(self.arrival_ms) for start in starts)


class Fetcher:
    """Fetches of this gateway. Used on the event loop only."""

    def __init__(
        self,
        locating: StartResolver,
        reading: PartitionReader,
        *,
        clock: Clock,
        places: WaiterSlots,
        draining: DrainFlag,
        bounds: EngineBounds,
    ) -> None:
        self._locating = locating
        self._reading = reading
        self._clock = clock
        self._places = places
        self._draining = draining
        self._bounds = bounds
        lists_bytes = bounds.fetch_lists_bytes_max
        self._lists = MemoryBudget(lists_bytes, "lists of partitions", kept_bytes=lists_bytes // 4)

    async def fetch(
        self, wanted: Sequence[FetchFrom], limits: FetchLimits, memory: Memory, arrival_ms: int
    ) -> FetchAnswer:
        """Read the partitions, waiting as the limits say. A partition's error is in the place of its records.

        Args:
            limits: totals over all partitions.
            memory: budget from which the answer is reserved; the caller releases it.
            arrival_ms: when the request came, monotonic.

        Raises ``BackOff`` (``OVERLOADED``) when the gateway holds too many waiting polls or answers.
        """
        with await self._reserve_list(len(wanted), memory.client):
            if limits.wait_ms_max >= self._bounds.journal_poll_ms:
                topics = self._locating.topics_at_known_ends(wanted)
                if topics is not None:
                    starts = await self._locating.resolve(wanted, topics)
                    deadline_ms = self._clock.monotonic_ms() + limits.wait_ms_max
                    return await self._wait_and_read(
                        starts, limits, memory, deadline_ms, _DeferredLook(wanted, arrival_ms)
                    )
            topics = await self._locating.fresh(wanted, arrival_ms)
            return await self.fetch_from(await self._locating.resolve(wanted, topics), limits, memory)

    async def fetch_from(
        self, starts: Sequence[ReadPosition | TidelogError], limits: FetchLimits, memory: Memory
    ) -> FetchAnswer:
        """Fetch from a short list of partitions that were just located; else like ``fetch``."""
        deadline_ms = self._clock.monotonic_ms() + limits.wait_ms_max
        answer = await self._read(starts, limits, memory)
        if self._is_enough(answer, limits) or limits.wait_ms_max == 0:
            return answer
        answer.reservation.release()
        del answer  # Drops the records that the answer holds.
        return await self._wait_and_read(starts, limits, memory, deadline_ms)

    async def _wait_and_read(
        self,
        starts: Sequence[ReadPosition | TidelogError],
        limits: FetchLimits,
        memory: Memory,
        deadline_ms: int,
        later: _DeferredLook | None = None,
    ) -> FetchAnswer:
        """Wait until there is enough to answer, or until the deadline. ``later``: look that must be made before the answer."""
        look_ms = self._clock.monotonic_ms() + 2 * self._bounds.journal_poll_ms
        with ExitStack() as stack:
            wakeup = Wakeup()
            stack.enter_context(self._places.hold(wakeup))
            await self._register(stack, starts, wakeup)
            while True:
                # Registers first, then reads again, so that no commit in between is missed.
                wakeup.clear()
                began_ms = self._clock.monotonic_ms()
                if later is not None and later.is_done(starts):
                    later = None
                answer = await self._read(starts, limits, memory)
                now_ms = self._clock.monotonic_ms()
                left_ms = deadline_ms - now_ms
                is_over = self._is_enough(answer, limits) or left_ms <= 0
                if is_over and later is None:
                    return answer
                answer.reservation.release()
                del answer
                if later is not None and (is_over or now_ms >= look_ms):
                    starts = await self._locating.refresh_again(later.wanted, starts, later.arrival_ms)
                    later = None
                    continue
                if len(starts) > FETCH_LIST_PARTITIONS and not self._draining.begun:
                    await asyncio.sleep(min(left_ms, (now_ms - began_ms) * POLL_REST_FACTOR) / 1000)
                until_ms = deadline_ms if later is None else min(deadline_ms, look_ms)
                await wakeup.wait(until_ms - self._clock.monotonic_ms())

    async def _reserve_list(self, partition_count: int, client: str | None) -> Reservation:
        """Reserve memory for a list of partitions; a short list is part of its connection's memory. Raises ``BackOff``."""
        counted = partition_count if partition_count > FETCH_LIST_PARTITIONS else 0
        return await self._lists.reserve_in_turn(
            counted * FETCH_PARTITION_BYTES,
            wait_ms=ANSWER_WAIT_MS_MAX,
            waiting_max=self._bounds.fetch_lists_waiting_max,
            client=client,
        )

    async def _read(
        self, starts: Sequence[ReadPosition | TidelogError], limits: FetchLimits, memory: Memory
    ) -> FetchAnswer:
        if not limits.are_small:
            with suppress(BackOff):
                return await self._read_up_to(starts, limits, memory, LARGE_ANSWER_WAIT_MS_MAX)
            limits = limits.as_small()
        wait_ms = ANSWER_WAIT_MS_MAX - LARGE_ANSWER_WAIT_MS_MAX
        return await self._read_up_to(starts, limits, memory, wait_ms, is_small=True)

    async def _read_up_to(
        self,
        starts: Sequence[ReadPosition | TidelogError],
        limits: FetchLimits,
        memory: Memory,
        wait_ms: int,
        *,
        is_small: bool = False,
    ) -> FetchAnswer:
        bytes_max = min(limits.bytes_max, read_bytes_max(memory))
        listed = len(starts) if len(starts) > FETCH_LIST_PARTITIONS else 0
        answer = FetchAnswer([], memory.reserve(0))
        done, is_for_store = False, False
        try:
            if listed:
                answer.reservation = await reserve_for_tail(memory, 0, listed, wait_ms=wait_ms)
            left = ReadLimits(records_max=limits.records_max, bytes_max=bytes_max, looked_bytes_max=LOOKED_BYTES_MAX)
            for number, start in enumerate(starts, 1):
                part = start if isinstance(start, TidelogError) else self._read_from_memory(start, left)
                if part is None:
                    if not is_for_store:
                        answer.reservation.release()
                        answer.reservation = await reserve_for_store(
                            memory, bytes_max, listed, is_small=is_small, wait_ms=wait_ms
                        )
                        left = replace(left, store_until_ms=self._clock.monotonic_ms() + self._bounds.cold_read_ms_max)
                        is_for_store = True
                    assert isinstance(start, ReadPosition)
                    part = await self._read_one(start, left)
                answer.take(part)
                if isinstance(start, ReadPosition) and start.filter is not None and isinstance(part, Fetched):
                    if not part.records.record_count:
                        start.offset = part.records.next_offset
                    left = replace(left, looked_bytes_max=left.looked_bytes_max - part.records.looked_bytes)
                if isinstance(part, Fetched) and part.records.record_count:
                    left = replace(
                        left,
                        records_max=limits.records_max - answer.record_count,
                        bytes_max=max(0, bytes_max - answer.size_bytes),
                        at_least_one=False,
                    )
                if number % PARTITIONS_PER_STEP == 0:
                    await asyncio.sleep(0)
            if not is_for_store and answer.record_count:
                answer.reservation.release()
                answer.reservation = await reserve_for_tail(memory, answer.size_bytes, listed, wait_ms=wait_ms)
            elif not answer.record_count and not listed:
                answer.reservation.release()
            done = True
        finally:
            if not done:
                answer.reservation.release()
        return answer

    def _read_from_memory(self, start: ReadPosition, limits: ReadLimits) -> Fetched | TidelogError | None:
        """Return the partition's result, or its error, if it is known without the store; else None."""
        try:
            state = start.state()
        except TidelogError as error:
            return error
        wanted = _limits_of(start, limits)
        records = self._reading.read_from_memory(state, start.partition, start.offset, wanted)
        return None if records is None else _fetched(start, state, records)

    async def _read_one(self, start: ReadPosition, limits: ReadLimits) -> Fetched | TidelogError:
        try:
            state = start.state()
            wanted = _limits_of(start, limits)
            records = await self._reading.read(start.topic, state, start.partition, start.offset, wanted)
        except TidelogError as error:
            return error
        return _fetched(start, state, records)

    def _is_enough(self, answer: FetchAnswer, limits: FetchLimits) -> bool:
        if self._draining.begun or limits.bytes_min == 0 or not answer.parts:
            return True
        if answer.is_final:
            return True
        if answer.record_count >= limits.records_max or answer.size_bytes >= limits.bytes_max:
            return True
        return answer.has_minimum(limits)

    async def _register(self, stack: ExitStack, starts: Sequence[ReadPosition | TidelogError], wakeup: Wakeup) -> None:
        by_topic: dict[OpenTopic, list[int]] = {}
        for start in starts:
            if isinstance(start, ReadPosition):
                by_topic.setdefault(start.topic, []).append(start.partition)
        for topic, partitions in by_topic.items():
            for first in range(0, len(partitions), PARTITIONS_PER_STEP):
                if first:
                    await asyncio.sleep(0)
                stack.enter_context(topic.waiters.register(partitions[first : first + PARTITIONS_PER_STEP], wakeup))
            topic.poll_while_awaited()


def _limits_of(start: ReadPosition, limits: ReadLimits) -> ReadLimits:
    if start.filter is None and start.bytes_max is None:
        return limits
    bytes_max = limits.bytes_max if start.bytes_max is None else min(limits.bytes_max, start.bytes_max)
    return replace(limits, filter=start.filter, bytes_max=bytes_max)


def _fetched(start: ReadPosition, state: TopicState, records: Records) -> Fetched:
    return Fetched(
        topic=start.topic.name,
        topic_id=start.topic_id,
        partition=start.partition,
        records=records,
        high_watermark=state.high_watermark(start.partition),
        log_start_offset=state.log_start(start.partition),
    )
