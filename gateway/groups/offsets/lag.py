"""Lag of a group, partition by partition, for its description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gateway.engine.bounds import PARTITIONS_PER_STEP
from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.engine.partition_reader import PartitionReader
from gateway.engine.read_records import ReadLimits
from gateway.groups.bounds import PARALLEL_LOOKUPS_MAX
from gateway.groups.offsets.committed import CommittedOffsets
from gateway.groups.offsets.incarnations import Incarnations
from gateway.tasks.parallel import run_parallel
from log_format.clock import Clock
from log_format.topic.state import TopicState
from log_format.topic_name import is_topic_name


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """A group's lag in a partition: records that it has not read, and the age of the first of them in milliseconds.

    Where nothing is committed they count from the log start if a member subscribes to the topic (``backlog``), else not at all.
    """

    topic: str
    partition: int
    committed_offset: int | None
    high_watermark: int
    unread: int
    unread_ms: int

    @property
    def lag(self) -> int | None:
        """Number of records after the committed offset; None without one."""
        return None if self.committed_offset is None else self.unread

    @property
    def lag_ms(self) -> int | None:
        """Age of the first of them in milliseconds; None without a committed offset."""
        return None if self.committed_offset is None else self.unread_ms


class Lag:
    """Lag of groups. Used on the event loop only."""

    def __init__(
        self,
        committed: CommittedOffsets,
        incarnations: Incarnations,
        topics: OpenTopics,
        reading: PartitionReader,
        *,
        clock: Clock,
    ) -> None:
        self._committed = committed
        self._incarnations = incarnations
        self._topics = topics
        self._reading = reading
        self._clock = clock

    async def of_group(self, name: str, shown: Callable[[str], bool] = lambda _topic: True) -> list[PartitionLag]:
        """Return the lag of every partition of topics that the group subscribes to or has offsets for, as far as ``shown``.

        Raises what ``CommittedOffsets.group`` and ``shown`` raise.
        """
        group = await self._committed.group(name)
        valid = await self._incarnations.valid(group)
        subscribed = set() if group.row is None else group.row.read_topics
        names = subscribed | {topic for topic, _ in valid}
        arrival_ms = self._clock.monotonic_ms()

        async def one(topic: OpenTopic, state: TopicState, partition: int) -> PartitionLag:
            row = valid.get((topic.name, partition))
            committed = None if row is None else row.position
            return await self._partition_lag(topic, state, partition, committed, is_subscribed=topic.name in subscribed)

        found: list[PartitionLag] = []
        for topic_name in sorted(name for name in names if is_topic_name(name) and shown(name)):
            topic = await self._topics.fresh(topic_name, arrival_ms)
            state = topic.state
            if state.exists:
                for first in range(0, state.partition_count, PARTITIONS_PER_STEP):
                    some = range(first, min(first + PARTITIONS_PER_STEP, state.partition_count))
                    found += await run_parallel(partial(one, topic, state), some, limit=PARALLEL_LOOKUPS_MAX)
        return found

    async def _partition_lag(
        self, topic: OpenTopic, state: TopicState, partition: int, committed: int | None, *, is_subscribed: bool
    ) -> PartitionLag:
        end, log_start = state.high_watermark(partition), state.log_start(partition)
        begin = committed if committed is not None else log_start if is_subscribed else end
        first, age_ms = max(begin, log_start), 0
        if first < end:
            time_ms = await written_ms(self._reading, topic, state, partition, first)
            age_ms = 0 if time_ms is None else max(0, self._clock.now_ms() - time_ms)
        return PartitionLag(
            topic=topic.name,
            partition=partition,
            committed_offset=committed,
            high_watermark=end,
            unread=max(0, end - begin),
            unread_ms=age_ms,
        )


async def written_ms(
    reading: PartitionReader, topic: OpenTopic, state: TopicState, partition: int, offset: int
) -> int | None:
    """Return the timestamp of the first record from ``offset`` on, in milliseconds; None if there is none. Raises what
    ``PartitionReader.read`` raises."""
    records = await reading.read(topic, state, partition, offset, ReadLimits(records_max=1, bytes_max=1))
    if not records.record_count:
        return None
    microseconds: int = records.tables[0].column("timestamp")[0].value
    return microseconds // 1000
