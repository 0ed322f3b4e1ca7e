"""Following a partition for an event stream: records as they are committed, until the gateway drains or the topic goes.

A slow reader holds one batch at most: the next one is read when the last has been sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Literal

from gateway.engine.bounds import EVENTS_BYTES_MAX, EVENTS_RECORDS_MAX, PING_MS
from gateway.engine.open_topic import OpenTopic
from gateway.engine.reading import Reading, ReadLimits, Records
from gateway.engine.waiting import WaitingPlaces, Wakeup
from log_format.errors import OffsetOutOfRange, TidelogError

_LIMITS = ReadLimits(records_max=EVENTS_RECORDS_MAX, bytes_max=EVENTS_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing happened for ``PING_MS``."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The stream ends, and why."""

    reason: Literal["draining", "topic_deleted", "error"]
    error: TidelogError | None = None


Event = Records | Silence | Ended


class Following:
    """Belongs to the event loop."""

    def __init__(self, reading: Reading, *, places: WaitingPlaces, is_draining: Callable[[], bool]) -> None:
        self._reading = reading
        self._places = places
        self._is_draining = is_draining
        self._streams: set[Wakeup] = set()

    def wake_all(self) -> None:
        """Let every stream end."""
        for wakeup in self._streams:
            wakeup.set()

    async def follow(self, topic: OpenTopic, partition: int, offset: int) -> AsyncIterator[Event]:
        """Records from ``offset`` on, for ever; ``Silence`` in between; ``Ended`` as the last one.

        Raises ``BackOff`` (``OVERLOADED``) before the first event when too many wait already.
        """
        wakeup = Wakeup()
        topic_id = topic.existing_with(partition).topic_id
        with self._places.place(), topic.waiters.registered((partition,), wakeup):
            self._streams.add(wakeup)
            try:
                while True:
                    wakeup.clear()
                    if self._is_draining():
                        yield Ended("draining")
                        return
                    state = topic.state
                    if state.topic_id != topic_id:
                        yield Ended("topic_deleted")
                        return
                    try:
                        log_start, high_watermark = state.log_start(partition), state.high_watermark(partition)
                        if not log_start <= offset <= high_watermark:
                            raise OffsetOutOfRange(topic.name, partition, offset, log_start, high_watermark)
                        records = await self._reading.read(topic, state, partition, offset, _LIMITS)
                    except TidelogError as error:
                        gone = topic.state.topic_id != topic_id
                        yield Ended("topic_deleted") if gone else Ended("error", error)
                        return
                    offset = records.next_offset
                    if records.record_count:
                        yield records
                        continue
                    topic.poll_while_waited_for()
                    if not await wakeup.wait(PING_MS):
                        yield Silence()
            finally:
                self._streams.discard(wakeup)
