"""Lag of consumer groups as metrics: computed only when they are scraped.

1. A group's owner reports it, with or without members: a group whose consumers all died is behind, too. While gateways come
   and go two may report one group, so take the maximum.
2. It is cheap. At most once in ``LAG_REFRESH_MS``, or in the age that a caller accepts, it looks at the head of the table and
   of each topic that groups read, however many groups read it; heads seen recently are not asked for. The age takes one
   read for each group and topic, of the partition whose unread records seem oldest, ``lag_reads_max`` a look. A group whose
   position has not changed takes none.
3. The ``lag_series_max`` groups and topics with the largest lag have series. Those left out, or that could not be looked at,
   are counted; old values are never reported as new.

Used on the event loop only. Source: names and meanings are those of Kafka's lag exporters (records, seconds).
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.cluster.ownership import Ownership
from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.engine.partition_reader import PartitionReader
from gateway.groups.bounds import (
    LAG_GROUPS_PER_STEP,
    LAG_REFRESH_MS,
    LAG_TOPICS_MAX,
    LAG_WAIT_MS,
    PARALLEL_LOOKUPS_MAX,
    GroupBounds,
)
from gateway.groups.offsets.backlog import TopicBacklog
from gateway.groups.offsets.lag import written_ms
from gateway.system_tables.groups import GroupsTable
from gateway.tasks.parallel import run_parallel
from log_format.clock import Clock
from log_format.errors import TidelogError
from log_format.groups.row import OffsetRow
from log_format.topic.state import TopicState
from log_format.topic_name import is_topic_name

_LABELS: Final = ("group", "topic")
_log = logging.getLogger("gateway.groups")

OffsetKey = tuple[str, int, int]
"""Identity of a record: id of the topic's incarnation, partition, offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """A group's lag in a topic: number of records after its committed offsets, and the age of the oldest of them.

    ``age_seconds``: 0 if nothing is unread; None if unknown.
    """

    group: str
    topic: str
    record_count: int
    age_seconds: float | None


@dataclass(slots=True)
class _Reading:
    """A group's committed offsets in a topic, and whether a member subscribes to it."""

    rows: list[OffsetRow] = field(default_factory=list)
    has_member: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _TopicLag:
    """A group's lag in a topic. ``oldest``: partition and offset where its oldest unread record seems to be; None if all are
    read."""

    group: str
    topic: OpenTopic
    state: TopicState
    record_count: int
    oldest: tuple[int, int] | None


class LagWatch(Collector):
    """Collector of lag, registered in the gateway's registry. Call ``look`` before each scrape."""

    def __init__(
        self,
        table: GroupsTable,
        ownership: Ownership,
        topics: OpenTopics,
        reading: PartitionReader,
        *,
        clock: Clock,
        registry: CollectorRegistry,
        bounds: GroupBounds,
    ) -> None:
        self._bounds = bounds
        self._table = table
        self._ownership = ownership
        self._topics = topics
        self._reading = reading
        self._clock = clock
        self._found: Sequence[GroupLag] = ()
        self._left_out = 0
        self._written: dict[OffsetKey, int] = {}
        """Timestamp of the record at each place of the last look."""
        self._looking: asyncio.Task[None] | None = None
        self._looked_ms = 0
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the last look."""
        records = GaugeMetricFamily(
            "tidelog_group_lag_records",
            "Records of a topic that a group has not read.",
            labels=_LABELS,
        )
        seconds = GaugeMetricFamily(
            "tidelog_group_lag_seconds",
            "Age of the oldest record of a topic that a group has not read.",
            labels=_LABELS,
        )
        ages = [0.0]
        for one in self._found:
            records.add_metric((one.group, one.topic), one.record_count)
            if one.age_seconds is not None:
                seconds.add_metric((one.group, one.topic), one.age_seconds)
                ages.append(one.age_seconds)
        yield records
        yield seconds
        yield GaugeMetricFamily("tidelog_group_lag_seconds_max", "Largest tidelog_group_lag_seconds.", max(ages))
        yield GaugeMetricFamily(
            "tidelog_group_lag_left_out",
            "Pairs of group and topic whose lag is not reported: too many pairs, or the topic is not loaded.",
            self._left_out,
        )

    async def look(self, age_ms_max: int = LAG_REFRESH_MS) -> None:
        """Bring the metrics up to date, unless the last look began less than ``age_ms_max`` ago or it takes longer than
        ``LAG_WAIT_MS``. Raises nothing."""
        now_ms = self._clock.monotonic_ms()
        if self._looking is None or (self._looking.done() and now_ms - self._looked_ms >= age_ms_max):
            self._looked_ms = now_ms
            self._looking = asyncio.create_task(self._look())
            self._looking.add_done_callback(_on_ended)
        await asyncio.wait((self._looking,), timeout=LAG_WAIT_MS / 1000)

    def stop(self) -> None:
        """Cancel the look under way."""
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        found: Sequence[GroupLag] = ()
        try:
            found = await self._lags()
        except TidelogError as problem:
            _log.warning("the lag of groups is not known: %s", problem.detail)
        finally:
            self._found = found

    async def _lags(self) -> list[GroupLag]:
        wanted = await self._readings_by_topic()
        names = sorted(wanted)[:LAG_TOPICS_MAX]
        unknown = {name: len(groups) for name, groups in wanted.items()}
        seen_ms = self._clock.monotonic_ms() - self._bounds.lag_fresh_ms

        async def look(name: str) -> list[_TopicLag]:
            try:
                topic = await self._topics.fresh(name, seen_ms)
            except TidelogError as problem:
                _log.warning("the lag of groups in topic %s is not known: %s", name, problem.detail)
                return []
            del unknown[name]
            backlog = TopicBacklog(topic.state)
            found = [_topic_lag(group, topic, backlog, reading) for group, reading in wanted[name].items()]
            return [one for one in found if topic.state.exists and one is not None]

        looked = await run_parallel(look, names, limit=PARALLEL_LOOKUPS_MAX)
        behind = [one for some in looked for one in some]
        shown = heapq.nlargest(self._bounds.lag_series_max, behind, key=lambda one: one.record_count)
        ages = await self._ages(shown)
        self._left_out = sum(unknown.values()) + len(behind) - len(shown)
        return [
            GroupLag(group=one.group, topic=one.topic.name, record_count=one.record_count, age_seconds=age)
            for one, age in zip(shown, ages, strict=True)
        ]

    async def _readings_by_topic(self) -> dict[str, dict[str, _Reading]]:
        """Return the topics that groups which this gateway reports have committed for or subscribe to, by topic and then by
        group. Raises ``BackOff``."""
        state = await self._table.recent(self._bounds.lag_fresh_ms)
        wanted: dict[str, dict[str, _Reading]] = {}
        for number, (name, group) in enumerate(state.groups.items()):
            if number % LAG_GROUPS_PER_STEP == 0:
                await asyncio.sleep(0)
            subscribed = set() if group.row is None else group.row.read_topics
            if not (group.offsets or subscribed) or not self._ownership.coordinates(name):
                continue
            for row in group.offsets.values():
                wanted.setdefault(row.topic, {}).setdefault(name, _Reading()).rows.append(row)
            for topic in subscribed:
                wanted.setdefault(topic, {}).setdefault(name, _Reading()).has_member = True
        return {topic: groups for topic, groups in wanted.items() if is_topic_name(topic)}

    async def _ages(self, shown: Sequence[_TopicLag]) -> list[float | None]:
        """Return the age of each oldest unread record, in seconds. A timestamp is remembered while its record is the oldest."""
        written = {place: self._written[place] for one in shown if (place := _offset_key(one)) in self._written}
        unknown = {place: one for one in shown if (place := _offset_key(one)) is not None and place not in written}
        asked = list(unknown.items())[: self._bounds.lag_reads_max]
        times = await asyncio.gather(*(self._written_ms(one) for _, one in asked))
        written |= {place: time for (place, _), time in zip(asked, times, strict=True) if time is not None}
        self._written = written
        now_ms = self._clock.now_ms()
        return [
            0.0 if place is None else max(0, now_ms - written[place]) / 1000 if place in written else None
            for place in map(_offset_key, shown)
        ]

    async def _written_ms(self, one: _TopicLag) -> int | None:
        assert one.oldest is not None
        partition, offset = one.oldest
        try:
            return await written_ms(self._reading, one.topic, one.state, partition, offset)
        except TidelogError:
            return None


def _on_ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("looking at the lag of groups failed", exc_info=error)


def _offset_key(one: _TopicLag) -> OffsetKey | None:
    return None if one.oldest is None else (one.state.topic_id or "", *one.oldest)


def _topic_lag(group: str, topic: OpenTopic, backlog: TopicBacklog, reading: _Reading) -> _TopicLag | None:
    """Return the group's lag; None when it does not read this incarnation of the topic."""
    positions = backlog.positions(reading.rows)
    if not positions and not reading.has_member:
        return None
    return _TopicLag(
        group=group,
        topic=topic,
        state=topic.state,
        record_count=backlog.record_count(positions, is_subscribed=reading.has_member),
        oldest=backlog.oldest(positions, is_subscribed=reading.has_member),
    )
