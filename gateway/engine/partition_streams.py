"""Following of a partition for an event stream: records as they are committed, until the gateway drains or the topic is deleted.

A slow reader holds at most one batch: the next is read once the last has been sent. A filtered stream says how far it has
looked at least every ``PING_MS``, also when records that its filter leaves out keep coming.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from gateway.engine.answer_memory import reserve_for_store, reserve_for_tail
from gateway.engine.bounds import EVENTS_BYTES_MAX, EVENTS_LOOKED_BYTES_MAX, EVENTS_RECORDS_MAX, PING_MS
from gateway.engine.open_topic import OpenTopic
from gateway.engine.partition_reader import PartitionReader
from gateway.engine.read_records import ReadLimits, Records
from gateway.engine.waiters import DrainFlag, WaiterSlots, Wakeup
from gateway.memory_budget import Memory, Reservation
from log_format.clock import Clock
from log_format.errors import OffsetOutOfRange, TidelogError
from log_format.records.filter import RecordFilter
from log_format.topic.state import TopicState

_LIMITS = ReadLimits(
    records_max=EVENTS_RECORDS_MAX, bytes_max=EVENTS_BYTES_MAX, looked_bytes_max=EVENTS_LOOKED_BYTES_MAX
)


@dataclass(frozen=True, slots=True)
class StreamSilent:
    """Event: no record came for as long as asked, or none among the records that a filter has looked at so far."""


@dataclass(frozen=True, slots=True)
class StreamWoken:
    """Event: a commit to the partition or something else woke the stream, so records may come next."""


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """Event: the stream ends, with the reason."""

    reason: Literal["draining", "topic_deleted", "unauthorized", "error"]
    error: TidelogError | None = None


@dataclass(frozen=True, slots=True)
class StreamRecords:
    """Event: records, and the memory reserved for them; release it once they are sent."""

    records: Records
    reservation: Reservation


StreamEvent = StreamRecords | StreamSilent | StreamWoken | StreamEnded


class PartitionStreams:
    """Streams that follow partitions. Used on the event loop only."""

    def __init__(self, reading: PartitionReader, *, clock: Clock, places: WaiterSlots, draining: DrainFlag) -> None:
        self._reading = reading
        self._clock = clock
        self._places = places
        self._draining = draining

    @property
    def draining(self) -> bool:
        """Whether the gateway drains, so that streams end."""
        return self._draining.begun

    @contextmanager
    def follow(
        self, topic: OpenTopic, partition: int, offset: int, memory: Memory, wanted: RecordFilter | None = None
    ) -> Iterator[Stream]:
        """Yield a stream that begins at ``offset``.

        Args:
            memory: budget from which records are reserved.
            wanted: filter of the records; None: all.

        Raises ``BackOff`` (``OVERLOADED``) when too many readers wait already.
        """
        wakeup = Wakeup()
        topic_id = topic.require_partition(partition).topic_id
        limits = replace(_LIMITS, filter=wanted)
        with self._places.hold(wakeup), topic.waiters.register((partition,), wakeup):
            yield Stream(
                self._reading,
                self._clock,
                self._draining,
                topic,
                topic_id,
                partition,
                offset,
                limits,
                memory,
                wakeup,
                self._clock.monotonic_ms(),
            )


@dataclass(slots=True, eq=False)
class Stream:
    """One reader's position in a partition. A stream holds no records between two calls of ``next``."""

    _reading: PartitionReader
    _clock: Clock
    _draining: DrainFlag
    _topic: OpenTopic
    _topic_id: str | None
    _partition: int
    offset: int
    """Offset of the next record to read."""
    _limits: ReadLimits
    _memory: Memory
    _wakeup: Wakeup
    _heard_ms: int
    """Monotonic time of the last records or ``StreamSilent``."""

    async def next(self, silence_ms: int = PING_MS) -> StreamEvent:
        """Return records if there are any; else wait, and return ``StreamWoken``, ``StreamSilent`` or ``StreamEnded``, whichever
        comes first.

        ``StreamSilent`` comes after ``silence_ms``, and ``PING_MS`` after the last records or silence.
        """
        self._wakeup.clear()
        if self._draining.begun:
            return StreamEnded("draining")
        try:
            state = self._topic.state
            if state.topic_id != self._topic_id:
                return StreamEnded("topic_deleted")
            followed = await self._read(state)
        except TidelogError as error:
            gone = self._topic.state.topic_id != self._topic_id
            return StreamEnded("topic_deleted") if gone else StreamEnded("error", error)
        self.offset = followed.records.next_offset
        if followed.records.record_count:
            self._heard_ms = self._clock.monotonic_ms()
            return followed
        is_full = followed.records.is_full
        followed.reservation.release()
        self._topic.poll_while_awaited()
        # Commits whose records the filter leaves out wake the stream, too: they must not put the ping off for ever.
        left_ms = min(silence_ms, self._heard_ms + PING_MS - self._clock.monotonic_ms())
        if not is_full and left_ms > 0 and await self._wakeup.wait(left_ms):
            return StreamWoken()
        self._heard_ms = self._clock.monotonic_ms()
        return StreamSilent()

    async def _read(self, state: TopicState) -> StreamRecords:
        log_start, high_watermark = state.log_start(self._partition), state.high_watermark(self._partition)
        if not log_start <= self.offset <= high_watermark:
            raise OffsetOutOfRange(self._topic.name, self._partition, self.offset, log_start, high_watermark)
        records = self._reading.read_from_memory(state, self._partition, self.offset, self._limits)
        if records is not None:
            size = records.size_bytes
            return StreamRecords(
                records, await reserve_for_tail(self._memory, size) if size else self._memory.reserve(0)
            )
        reservation = await reserve_for_store(self._memory, EVENTS_BYTES_MAX, is_small=True)
        done = False
        try:
            records = await self._reading.read(self._topic, state, self._partition, self.offset, self._limits)
            # One record is read whatever its size, so the reservation may be too small.
            reservation.cover(records.size_bytes)
            done = True
        finally:
            if not done:
                reservation.release()
        return StreamRecords(records, reservation)
