"""Fetches: where to begin, how much, how long to wait, over one partition or several.

1. Every fetch begins with a look at the log that is younger than its arrival (``OpenTopic.fresh``).
2. While it waits it holds no records and no memory for them; it is woken the moment a commit of its partitions stands here,
   and the log is looked at for commits of others meanwhile.
3. The limits are totals over its partitions, in the order of the request; the first record comes whatever its size. So is the
   time that it reads old records for: what is left when that is over is for the next fetch. So is what one answer's memory
   can't hold. Where memory for a large answer does not come in a second, a small one is given.
4. One partition that fails ends the waiting; the others are answered all the same.
5. However many partitions it names, it costs the event loop time in proportion to them, in steps between which others get their
   turn; and what it holds for a long list is reserved first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Literal

from gateway.engine.answer_memory import read_bytes_max, reserve_for_store, reserve_for_tail
from gateway.engine.bounds import (
    ANSWER_WAIT_MS_MAX,
    COLD_READ_MS_MAX,
    FETCH_LIST_PARTITIONS,
    FETCH_LISTS_BYTES_MAX,
    FETCH_LISTS_WAITING_MAX,
    FETCH_PARTITION_BYTES,
    LARGE_ANSWER_WAIT_MS_MAX,
    PARTITIONS_PER_STEP,
    POLL_REST,
    SMALL_ANSWER_BYTES,
    SMALL_ANSWER_RECORDS,
    TOPIC_LOOKS_AT_ONCE,
)
from gateway.engine.open_topic import OpenTopic
from gateway.engine.reading import Reading, ReadLimits, Records
from gateway.engine.registry import TopicRegistry, is_topic_name
from gateway.engine.waiting import Draining, WaitingPlaces, Wakeup
from gateway.memory_budget import Memory, MemoryBudget, Reservation
from log_format import limits as format_limits
from log_format.clock import Clock
from log_format.errors import BackOff, OffsetOutOfRange, TidelogError, UnknownTopic
from log_format.topic.state import TopicState

StartWord = Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFrom:
    """One partition to read: from an offset or a word, or from the first record with ``timestamp_ms`` or later; not both."""

    topic: str
    partition: int
    offset: int | StartWord | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Totals: records (1 …), bytes of keys, values and headers (1 …), bytes to wait for (0 …), how long (0 …)."""

    records_max: int
    bytes_max: int
    bytes_min: int
    wait_ms_max: int

    @property
    def are_small(self) -> bool:
        """Whether they allow a small answer only."""
        return self.bytes_max <= SMALL_ANSWER_BYTES and self.records_max <= SMALL_ANSWER_RECORDS

    def made_small(self) -> FetchLimits:
        """The same for a small answer."""
        return replace(
            self,
            bytes_max=min(self.bytes_max, SMALL_ANSWER_BYTES),
            records_max=min(self.records_max, SMALL_ANSWER_RECORDS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What one partition gave."""

    topic: str
    partition: int
    records: Records
    high_watermark: int
    log_start_offset: int


@dataclass(slots=True)
class FetchAnswer:
    """What each partition gave, in the order of the request, and the memory reserved for it: release it when it is sent."""

    parts: list[Fetched | TidelogError]
    reservation: Reservation
    record_count: int = 0
    """Records of all partitions."""
    size_bytes: int = 0
    """Keys, values and headers of all partitions."""
    is_final: bool = False
    """A partition failed or is full: waiting would not make the answer better."""

    def take(self, part: Fetched | TidelogError) -> None:
        """What the next partition gave."""
        self.parts.append(part)
        if isinstance(part, Fetched):
            self.record_count += part.records.record_count
            self.size_bytes += part.records.size_bytes
            self.is_final |= part.records.is_full
        else:
            self.is_final = True


@dataclass(slots=True)
class _Place:
    """Where one partition is read from, once that is known."""

    topic: OpenTopic
    topic_id: str
    partition: int
    offset: int


class Fetching:
    """Belongs to the event loop."""

    def __init__(
        self,
        registry: TopicRegistry,
        reading: Reading,
        *,
        clock: Clock,
        places: WaitingPlaces,
        draining: Draining,
    ) -> None:
        self._registry = registry
        self._reading = reading
        self._clock = clock
        self._places_taken = places
        self._draining = draining
        self._lists = MemoryBudget(FETCH_LISTS_BYTES_MAX, "lists of partitions", kept_bytes=FETCH_LISTS_BYTES_MAX // 4)

    async def fetch(
        self, wanted: Sequence[FetchFrom], limits: FetchLimits, memory: Memory, arrival_ms: int
    ) -> FetchAnswer:
        """Read the partitions, waiting as the limits say. Errors of a partition are in its place.

        ``arrival_ms`` (monotonic) is when the request came. Raises ``BackOff`` (``OVERLOADED``) when the gateway holds too many
        waiting polls or answers.
        """
        with await self._list_of(len(wanted), memory.client):
            places = await self._places(wanted, arrival_ms)
            deadline_ms = self._clock.monotonic_ms() + limits.wait_ms_max
            answer = await self._read(places, limits, memory)
            if self._is_enough(answer, limits) or limits.wait_ms_max == 0:
                return answer
            answer.reservation.release()
            del answer  # with the records that it holds
            return await self._waited(places, limits, memory, deadline_ms)

    async def _waited(
        self, places: Sequence[_Place | TidelogError], limits: FetchLimits, memory: Memory, deadline_ms: int
    ) -> FetchAnswer:
        with ExitStack() as stack:
            wakeup = Wakeup()
            stack.enter_context(self._places_taken.place(wakeup))
            await self._register(stack, places, wakeup)
            while True:
                # Registered first and read again then: what was committed in between is not missed.
                wakeup.clear()
                began_ms = self._clock.monotonic_ms()
                answer = await self._read(places, limits, memory)
                now_ms = self._clock.monotonic_ms()
                left_ms = deadline_ms - now_ms
                if self._is_enough(answer, limits) or left_ms <= 0:
                    return answer
                answer.reservation.release()
                del answer
                if len(places) > FETCH_LIST_PARTITIONS and not self._draining.begun:
                    await asyncio.sleep(min(left_ms, (now_ms - began_ms) * POLL_REST) / 1000)
                await wakeup.wait(deadline_ms - self._clock.monotonic_ms())

    async def start_of(self, wanted: FetchFrom, arrival_ms: int) -> tuple[OpenTopic, TopicState, int]:
        """The topic, its state, and the offset in it where reading begins. Raises as ``fetch`` answers."""
        (place,) = await self._places([wanted], arrival_ms)
        if isinstance(place, TidelogError):
            raise place
        return place.topic, _state_for(place), place.offset

    async def _list_of(self, partition_count: int, client: str | None) -> Reservation:
        """Memory for a list of partitions; a short one is part of what the connection takes. Raises ``BackOff``."""
        counted = partition_count if partition_count > FETCH_LIST_PARTITIONS else 0
        return await self._lists.reserve_in_turn(
            counted * FETCH_PARTITION_BYTES,
            wait_ms=ANSWER_WAIT_MS_MAX,
            waiting_max=FETCH_LISTS_WAITING_MAX,
            client=client,
        )

    async def _places(self, wanted: Sequence[FetchFrom], arrival_ms: int) -> list[_Place | TidelogError]:
        """Where each is read from; each topic is looked at once."""
        looked: dict[str, OpenTopic | TidelogError] = {}
        names = iter(dict.fromkeys(one.topic for one in wanted))

        async def look() -> None:
            for name in names:
                looked[name] = await self._looked_at(name, arrival_ms)

        if len(wanted) == 1:
            await look()
        else:
            await asyncio.gather(*(look() for _ in range(min(TOPIC_LOOKS_AT_ONCE, len(wanted)))))
        places: list[_Place | TidelogError] = []
        for number, one in enumerate(wanted, 1):
            places.append(await self._place(one, looked[one.topic]))
            if number % PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
        return places

    async def _looked_at(self, name: str, arrival_ms: int) -> OpenTopic | TidelogError:
        if not is_topic_name(name):
            return UnknownTopic(name[: format_limits.TOPIC_NAME_CHARACTERS_MAX])
        try:
            return await self._registry.fresh(name, arrival_ms)
        except TidelogError as error:
            return error

    async def _place(self, wanted: FetchFrom, topic: OpenTopic | TidelogError) -> _Place | TidelogError:
        if isinstance(topic, TidelogError):
            return topic
        try:
            state = topic.existing_with(wanted.partition)
            assert state.topic_id is not None
            offset = await self._offset(topic, state, wanted)
        except TidelogError as error:
            return error
        return _Place(topic, state.topic_id, wanted.partition, offset)

    async def _offset(self, topic: OpenTopic, state: TopicState, wanted: FetchFrom) -> int:
        log_start, high_watermark = state.log_start(wanted.partition), state.high_watermark(wanted.partition)
        if wanted.timestamp_ms is not None:
            found = await self._reading.offset_of_timestamp(topic, state, wanted.partition, wanted.timestamp_ms)
            return high_watermark if found is None else found
        if wanted.offset == "earliest":
            return log_start
        if wanted.offset == "latest":
            return high_watermark
        assert isinstance(wanted.offset, int)
        return wanted.offset

    async def _read(self, places: Sequence[_Place | TidelogError], limits: FetchLimits, memory: Memory) -> FetchAnswer:
        if not limits.are_small:
            with suppress(BackOff):
                return await self._read_up_to(places, limits, memory, LARGE_ANSWER_WAIT_MS_MAX)
            limits = limits.made_small()
        wait_ms = ANSWER_WAIT_MS_MAX - LARGE_ANSWER_WAIT_MS_MAX
        return await self._read_up_to(places, limits, memory, wait_ms, is_small=True)

    async def _read_up_to(
        self,
        places: Sequence[_Place | TidelogError],
        limits: FetchLimits,
        memory: Memory,
        wait_ms: int,
        *,
        is_small: bool = False,
    ) -> FetchAnswer:
        bytes_max = min(limits.bytes_max, read_bytes_max(memory))
        listed = len(places) if len(places) > FETCH_LIST_PARTITIONS else 0
        answer = FetchAnswer([], memory.reserve(0))
        done, is_for_store = False, False
        try:
            if listed:
                answer.reservation = await reserve_for_tail(memory, 0, listed, wait_ms=wait_ms)
            left = ReadLimits(records_max=limits.records_max, bytes_max=bytes_max)
            for number, place in enumerate(places, 1):
                part = place if isinstance(place, TidelogError) else self._read_from_memory(place, left)
                if part is None:
                    if not is_for_store:
                        answer.reservation.release()
                        answer.reservation = await reserve_for_store(
                            memory, bytes_max, listed, is_small=is_small, wait_ms=wait_ms
                        )
                        left = replace(left, store_until_ms=self._clock.monotonic_ms() + COLD_READ_MS_MAX)
                        is_for_store = True
                    assert isinstance(place, _Place)
                    part = await self._read_place(place, left)
                answer.take(part)
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

    def _read_from_memory(self, place: _Place, limits: ReadLimits) -> Fetched | TidelogError | None:
        """What the partition gives, if that is in memory; else None."""
        try:
            state = _state_for(place)
        except TidelogError as error:
            return error
        records = self._reading.read_from_memory(state, place.partition, place.offset, limits)
        return None if records is None else _fetched(place, state, records)

    async def _read_place(self, place: _Place, limits: ReadLimits) -> Fetched | TidelogError:
        try:
            state = _state_for(place)
            records = await self._reading.read(place.topic, state, place.partition, place.offset, limits)
        except TidelogError as error:
            return error
        return _fetched(place, state, records)

    def _is_enough(self, answer: FetchAnswer, limits: FetchLimits) -> bool:
        if self._draining.begun or limits.bytes_min == 0 or not answer.parts:
            return True
        if answer.is_final:
            return True
        if answer.record_count >= limits.records_max or answer.size_bytes >= limits.bytes_max:
            return True
        # A tombstone without a key has no bytes, yet who waits for the least wants it.
        return answer.record_count > 0 and (limits.bytes_min <= 1 or answer.size_bytes >= limits.bytes_min)

    async def _register(self, stack: ExitStack, places: Sequence[_Place | TidelogError], wakeup: Wakeup) -> None:
        by_topic: dict[OpenTopic, list[int]] = {}
        for place in places:
            if isinstance(place, _Place):
                by_topic.setdefault(place.topic, []).append(place.partition)
        for topic, partitions in by_topic.items():
            for first in range(0, len(partitions), PARTITIONS_PER_STEP):
                if first:
                    await asyncio.sleep(0)
                stack.enter_context(topic.waiters.registered(partitions[first : first + PARTITIONS_PER_STEP], wakeup))
            topic.poll_while_waited_for()


def _state_for(place: _Place) -> TopicState:
    """The topic's newest state. Raises ``UnknownTopic``, ``OffsetOutOfRange``."""
    state = place.topic.existing_with(place.partition)
    if state.topic_id != place.topic_id:
        raise UnknownTopic(place.topic.name)
    log_start, high_watermark = state.log_start(place.partition), state.high_watermark(place.partition)
    if not log_start <= place.offset <= high_watermark:
        raise OffsetOutOfRange(place.topic.name, place.partition, place.offset, log_start, high_watermark)
    return state


def _fetched(place: _Place, state: TopicState, records: Records) -> Fetched:
    return Fetched(
        topic=place.topic.name,
        partition=place.partition,
        records=records,
        high_watermark=state.high_watermark(place.partition),
        log_start_offset=state.log_start(place.partition),
    )
