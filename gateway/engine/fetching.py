"""Fetches: where to begin, how much, how long to wait, over one partition or several.

1. Every fetch begins with a look at the log that is younger than its arrival (``OpenTopic.fresh``).
2. While it waits it holds no records and no memory for them; it is woken the moment a commit of its partitions stands here,
   and the log is looked at for commits of others meanwhile.
3. The limits are totals over its partitions, in the order of the request; the first record comes whatever its size. So is the
   time that it reads old records for: what is left when that is over is for the next fetch.
4. One partition that fails ends the waiting; the others are answered all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Literal

from gateway.engine.answer_memory import reserve_for_store, reserve_for_tail
from gateway.engine.bounds import COLD_READ_MS_MAX
from gateway.engine.open_topic import OpenTopic
from gateway.engine.reading import Reading, ReadLimits, Records
from gateway.engine.registry import TopicRegistry, is_topic_name
from gateway.engine.waiting import WaitingPlaces, Wakeup
from gateway.memory_budget import MemoryBudget, Reservation
from log_format import limits as format_limits
from log_format.clock import Clock
from log_format.errors import OffsetOutOfRange, TidelogError, UnknownTopic
from log_format.topic_state import TopicState

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

    @property
    def record_count(self) -> int:
        """Records of all partitions."""
        return sum(part.records.record_count for part in self.parts if isinstance(part, Fetched))

    @property
    def size_bytes(self) -> int:
        """Keys, values and headers of all partitions."""
        return sum(part.records.size_bytes for part in self.parts if isinstance(part, Fetched))


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
        is_draining: Callable[[], bool],
    ) -> None:
        self._registry = registry
        self._reading = reading
        self._clock = clock
        self._places = places
        self._is_draining = is_draining
        self._waiting: set[Wakeup] = set()

    async def fetch(
        self, wanted: Sequence[FetchFrom], limits: FetchLimits, memory: MemoryBudget, arrival_ms: int
    ) -> FetchAnswer:
        """Read the partitions, waiting as the limits say. Errors of a partition are in its place.

        ``arrival_ms`` (monotonic) is when the request came. Raises ``BackOff`` (``OVERLOADED``) when the gateway holds too many
        waiting polls or answers.
        """
        places = await asyncio.gather(*(self._place(one, arrival_ms) for one in wanted))
        deadline_ms = self._clock.monotonic_ms() + limits.wait_ms_max
        answer = await self._read(places, limits, memory)
        if self._is_enough(answer, limits) or limits.wait_ms_max == 0:
            return answer
        answer.reservation.release()
        with ExitStack() as stack:
            stack.enter_context(self._places.place())
            wakeup = Wakeup()
            self._waiting.add(wakeup)
            stack.callback(self._waiting.discard, wakeup)
            self._register(stack, places, wakeup)
            while True:
                # Registered first and read again then: what was committed in between is not missed.
                wakeup.clear()
                answer = await self._read(places, limits, memory)
                left_ms = deadline_ms - self._clock.monotonic_ms()
                if self._is_enough(answer, limits) or left_ms <= 0:
                    return answer
                answer.reservation.release()
                await wakeup.wait(left_ms)

    async def start_of(self, wanted: FetchFrom, arrival_ms: int) -> tuple[OpenTopic, TopicState, int]:
        """The topic, its state, and the offset in it where reading begins. Raises as ``fetch`` answers."""
        place = await self._place(wanted, arrival_ms)
        if isinstance(place, TidelogError):
            raise place
        return place.topic, _state_for(place), place.offset

    def wake_all(self) -> None:
        """Let everybody who waits answer what there is."""
        for wakeup in self._waiting:
            wakeup.set()

    async def _place(self, wanted: FetchFrom, arrival_ms: int) -> _Place | TidelogError:
        try:
            if not is_topic_name(wanted.topic):
                raise UnknownTopic(wanted.topic[: format_limits.TOPIC_NAME_CHARACTERS_MAX])
            topic = await self._registry.fresh(wanted.topic, arrival_ms)
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

    async def _read(
        self, places: Sequence[_Place | TidelogError], limits: FetchLimits, memory: MemoryBudget
    ) -> FetchAnswer:
        answer = FetchAnswer([], memory.reserve(0))
        done = False
        try:
            left = ReadLimits(records_max=limits.records_max, bytes_max=limits.bytes_max)
            for place in places:
                part = place if isinstance(place, TidelogError) else self._read_from_memory(place, left)
                if part is None:
                    if answer.reservation.size_bytes == 0:
                        answer.reservation = await reserve_for_store(memory, limits.bytes_max)
                        left = replace(left, store_until_ms=self._clock.monotonic_ms() + COLD_READ_MS_MAX)
                    assert isinstance(place, _Place)
                    part = await self._read_place(place, left)
                answer.parts.append(part)
                if isinstance(part, Fetched):
                    left = replace(
                        left,
                        records_max=left.records_max - part.records.record_count,
                        bytes_max=max(0, left.bytes_max - part.records.size_bytes),
                        at_least_one=answer.record_count == 0,
                    )
            if answer.record_count == 0:
                answer.reservation.release()
            elif answer.reservation.size_bytes == 0:
                answer.reservation = await reserve_for_tail(memory, answer.size_bytes)
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
        if self._is_draining() or limits.bytes_min == 0 or not answer.parts:
            return True
        if any(not isinstance(part, Fetched) or part.records.is_full for part in answer.parts):
            return True
        if answer.record_count >= limits.records_max or answer.size_bytes >= limits.bytes_max:
            return True
        # A tombstone without a key has no bytes, yet who waits for the least wants it.
        return answer.record_count > 0 and (limits.bytes_min <= 1 or answer.size_bytes >= limits.bytes_min)

    def _register(self, stack: ExitStack, places: Sequence[_Place | TidelogError], wakeup: Wakeup) -> None:
        by_topic: dict[OpenTopic, list[int]] = {}
        for place in places:
            if isinstance(place, _Place):
                by_topic.setdefault(place.topic, []).append(place.partition)
        for topic, partitions in by_topic.items():
            stack.enter_context(topic.waiters.registered(partitions, wakeup))
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
