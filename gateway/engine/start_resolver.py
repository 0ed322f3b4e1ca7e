"""Start of a fetch: each topic is looked at after the fetch arrived (G4), then each partition gives the offset to read from.

With many partitions the event loop serves other requests in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.engine.bounds import PARALLEL_TOPIC_LOOKS_MAX, PARTITIONS_PER_STEP
from gateway.engine.fetch_answer import FetchFrom
from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.engine.partition_reader import PartitionReader
from log_format import limits
from log_format.errors import OffsetOutOfRange, TidelogError, UnknownTopic
from log_format.records.filter import RecordFilter
from log_format.topic.state import TopicState
from log_format.topic_name import is_topic_name

TopicsByName = Mapping[str, OpenTopic | TidelogError]


@dataclass(slots=True)
class ReadPosition:
    """Offset from which one partition is read, for one incarnation of its topic."""

    topic: OpenTopic
    topic_id: str
    partition: int
    offset: int
    """Offset to read from. A waiting fetch moves it past the records that its filter left out."""
    filter: RecordFilter | None = None
    bytes_max: int | None = None
    """Limit of this partition alone (``FetchFrom.bytes_max``)."""

    def state(self) -> TopicState:
        """Return the topic's newest state. Raises ``UnknownTopic``, ``OffsetOutOfRange``."""
        state = self.topic.require_partition(self.partition)
        if state.topic_id != self.topic_id:
            raise UnknownTopic(self.topic.name)
        log_start, high_watermark = state.log_start(self.partition), state.high_watermark(self.partition)
        if not log_start <= self.offset <= high_watermark:
            raise OffsetOutOfRange(self.topic.name, self.partition, self.offset, log_start, high_watermark)
        return state


class StartResolver:
    """Finder of the offsets where fetches begin. An error is in the place of its result. Used on the event loop only."""

    def __init__(self, registry: OpenTopics, reading: PartitionReader) -> None:
        self._registry = registry
        self._reading = reading

    async def fresh(self, wanted: Sequence[FetchFrom], arrival_ms: int) -> TopicsByName:
        """Return the topics by name, each looked at once after ``arrival_ms`` (monotonic)."""
        looked: dict[str, OpenTopic | TidelogError] = {}
        names = iter(dict.fromkeys(one.topic for one in wanted))

        async def look() -> None:
            for name in names:
                looked[name] = await self._looked_at(name, arrival_ms)

        if len(wanted) == 1:
            await look()
        else:
            await asyncio.gather(*(look() for _ in range(min(PARALLEL_TOPIC_LOOKS_MAX, len(wanted)))))
        return looked

    def topics_at_known_ends(self, wanted: Sequence[FetchFrom]) -> TopicsByName | None:
        """Return the topics if each partition is asked for from its known end on and its topic will be looked at anyway while a
        reader waits.

        Return None if the topics have to be looked at now, as for long lists.
        """
        topics: dict[str, OpenTopic] = {}
        for one in wanted[: PARTITIONS_PER_STEP + 1]:
            topic = self._registry.known(one.topic)
            if topic is None or one.timestamp_ms is not None or not topic.is_polled():
                return None
            state = topic.state
            is_there = state.exists and 0 <= one.partition < state.partition_count
            if not is_there or is_of_earlier_topic(one, state) or one.offset != state.high_watermark(one.partition):
                return None
            topics[one.topic] = topic
        return topics if len(wanted) <= PARTITIONS_PER_STEP else None

    async def refresh_again(
        self, wanted: Sequence[FetchFrom], starts: Sequence[ReadPosition | TidelogError], arrival_ms: int
    ) -> list[ReadPosition | TidelogError]:
        """Look at the topics again; return ``starts`` with the errors of these looks in the topics' places."""
        topics = await self.fresh(wanted, arrival_ms)
        looked = [topics[one.topic] for one in wanted]
        return [
            topic if isinstance(topic, TidelogError) else start for topic, start in zip(looked, starts, strict=True)
        ]

    async def resolve(self, wanted: Sequence[FetchFrom], topics: TopicsByName) -> list[ReadPosition | TidelogError]:
        """Return where each partition is read from, or its error, in the order of the request."""
        starts: list[ReadPosition | TidelogError] = []
        for number, one in enumerate(wanted, 1):
            starts.append(await self._start(one, topics[one.topic]))
            if number % PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
        return starts

    async def resolve_one(self, wanted: FetchFrom, arrival_ms: int) -> ReadPosition:
        """Return where one partition is read from. Raises its error."""
        (start,) = await self.resolve([wanted], await self.fresh([wanted], arrival_ms))
        if isinstance(start, TidelogError):
            raise start
        return start

    async def _looked_at(self, name: str, arrival_ms: int) -> OpenTopic | TidelogError:
        if not is_topic_name(name):
            return UnknownTopic(name[: limits.TOPIC_NAME_CHARACTERS_MAX])
        try:
            return await self._registry.fresh(name, arrival_ms)
        except TidelogError as error:
            return error

    async def _start(self, wanted: FetchFrom, topic: OpenTopic | TidelogError) -> ReadPosition | TidelogError:
        if isinstance(topic, TidelogError):
            return topic
        try:
            state = topic.require_partition(wanted.partition)
            offset = await self._offset(topic, state, wanted)
        except TidelogError as error:
            return error
        return ReadPosition(topic, state.existing_id, wanted.partition, offset, wanted.filter, wanted.bytes_max)

    async def _offset(self, topic: OpenTopic, state: TopicState, wanted: FetchFrom) -> int:
        log_start, high_watermark = state.log_start(wanted.partition), state.high_watermark(wanted.partition)
        if wanted.timestamp_ms is not None:
            found = await self._reading.offset_of_timestamp(topic, state, wanted.partition, wanted.timestamp_ms)
            return high_watermark if found is None else found
        if wanted.offset == "earliest" or (is_of_earlier_topic(wanted, state) and wanted.offset != "latest"):
            return log_start
        if wanted.offset == "latest":
            return high_watermark
        assert isinstance(wanted.offset, int)
        return wanted.offset


def is_of_earlier_topic(wanted: FetchFrom, state: TopicState) -> bool:
    """Return whether the wanted offset belongs to an earlier topic of the same name."""
    return wanted.topic_id is not None and wanted.topic_id != state.topic_id
