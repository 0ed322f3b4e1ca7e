"""Following a partition for an event stream: records as they are committed, until the gateway drains or the topic goes.

A slow reader holds one batch at most: the next is read once the last has been sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from gateway.engine.answer_memory import reserve_for_store, reserve_for_tail
from gateway.engine.bounds import EVENTS_BYTES_MAX, EVENTS_RECORDS_MAX, PING_MS
from gateway.engine.open_topic import OpenTopic
from gateway.engine.reading import Reading, ReadLimits, Records
from gateway.engine.waiting import Draining, WaitingPlaces, Wakeup
from gateway.memory_budget import Memory, Reservation
from log_format.errors import OffsetOutOfRange, TidelogError
from log_format.topic.state import TopicState

_LIMITS = ReadLimits(records_max=EVENTS_RECORDS_MAX, bytes_max=EVENTS_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing happened for ``PING_MS``."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The stream ends, and why."""

    reason: Literal["draining", "topic_deleted", "error"]
    error: TidelogError | None = None


@dataclass(frozen=True, slots=True)
class Followed:
    """Records, and the memory reserved for them: release it once they are sent."""

    records: Records
    reservation: Reservation


Event = Followed | Silence | Ended


class Following:
    """Belongs to the event loop."""

    def __init__(self, reading: Reading, *, places: WaitingPlaces, draining: Draining) -> None:
        self._reading = reading
        self._places = places
        self._draining = draining

    @contextmanager
    def follow(self, topic: OpenTopic, partition: int, offset: int, memory: Memory) -> Iterator[Stream]:
        """A stream from ``offset`` on. Raises ``BackOff`` (``OVERLOADED``) when too many readers wait already."""
        wakeup = Wakeup()
        topic_id = topic.existing_with(partition).topic_id
        with self._places.place(wakeup), topic.waiters.registered((partition,), wakeup):
            yield Stream(self._reading, self._draining, topic, topic_id, partition, offset, memory, wakeup)


@dataclass(slots=True, eq=False)
class Stream:
    """One reader's position. It holds no records between two calls of ``next``."""

    _reading: Reading
    _draining: Draining
    _topic: OpenTopic
    _topic_id: str | None
    _partition: int
    offset: int
    """The offset at which it goes on."""
    _memory: Memory
    _wakeup: Wakeup

    async def next(self) -> Event:
        """Records as soon as there are any; ``Silence`` after ``PING_MS`` without any; ``Ended`` once none will come."""
        while True:
            self._wakeup.clear()
            if self._draining.begun:
                return Ended("draining")
            try:
                state = self._topic.state
                if state.topic_id != self._topic_id:
                    return Ended("topic_deleted")
                followed = await self._read(state)
            except TidelogError as error:
                gone = self._topic.state.topic_id != self._topic_id
                return Ended("topic_deleted") if gone else Ended("error", error)
            self.offset = followed.records.next_offset
            if followed.records.record_count:
                return followed
            followed.reservation.release()
            self._topic.poll_while_waited_for()
            if not await self._wakeup.wait(PING_MS):
                return Silence()

    async def _read(self, state: TopicState) -> Followed:
        log_start, high_watermark = state.log_start(self._partition), state.high_watermark(self._partition)
        if not log_start <= self.offset <= high_watermark:
            raise OffsetOutOfRange(self._topic.name, self._partition, self.offset, log_start, high_watermark)
        records = self._reading.read_from_memory(state, self._partition, self.offset, _LIMITS)
        if records is not None:
            size = records.size_bytes
            return Followed(records, await reserve_for_tail(self._memory, size) if size else self._memory.reserve(0))
        reservation = await reserve_for_store(self._memory, EVENTS_BYTES_MAX, is_small=True)
        done = False
        try:
            records = await self._reading.read(self._topic, state, self._partition, self.offset, _LIMITS)
            # One record is read whatever its size.
            reservation.cover(records.size_bytes)
            done = True
        finally:
            if not done:
                reservation.release()
        return Followed(records, reservation)
