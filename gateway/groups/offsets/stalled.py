"""Consumer groups that are stalled: a partition has unread records, and its committed offset has not moved for a while.

1. All groups of the store are judged, whoever coordinates them: any gateway's overview tells of each.
2. Only committed offsets count, not sessions: a member that is alive and commits nothing is what is stalled.
3. Looks are made while somebody asks, one in ``STALLED_REFRESH_MS`` at most, at ``LAG_TOPICS_MAX`` topics at most: those with the
   newest commits first. A group that commits costs nothing. Of ``STALLED_GROUPS_MAX`` at most the first unread record is read for
   its time: of those that stalled last, since groups without users are stalled for days.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.engine.partition_reader import PartitionReader
from gateway.groups.bounds import (
    LAG_GROUPS_PER_STEP,
    LAG_TOPICS_MAX,
    PARALLEL_LOOKUPS_MAX,
    STALLED_GROUPS_MAX,
    STALLED_MS,
    STALLED_REFRESH_MS,
    STALLED_WAIT_MS,
    GroupBounds,
)
from gateway.groups.offsets.backlog import TopicBacklog
from gateway.groups.offsets.lag import written_ms
from gateway.system_tables.groups import GroupsTable
from gateway.tasks.parallel import run_parallel
from log_format.clock import Clock
from log_format.errors import TidelogError
from log_format.groups.row import GroupRow, OffsetRow
from log_format.topic.state import TopicState
from log_format.topic_name import is_topic_name

_log = logging.getLogger("gateway.groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledGroup:
    """A group that is stalled in a topic, and the partition in which it has been so longest.

    ``since_ms``: when it committed there last, or when its first unread record was written if that is later. ``record_count``:
    what it has not read of the whole topic.
    """

    group: str
    topic: str
    partition: int
    since_ms: int
    record_count: int
    member_count: int

    def said(self, now_ms: int) -> str:
        """Return what a person is told."""
        seconds = max(0, now_ms - self.since_ms) // 1000
        unread = (
            "1 record of the topic is" if self.record_count == 1 else f"{self.record_count:,} records of the topic are"
        )
        members = {0: "no members", 1: "1 member"}.get(self.member_count, f"{self.member_count:,} members")
        return (
            f"Group {self.group} has committed nothing in partition {self.partition} of {self.topic} for {seconds:,} s, where"
            f" records wait. {unread} unread, and the group has {members}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """A group that reads a topic, and its committed offsets there: a group may have many topics, and each offset is looked at
    for its own topic only."""

    group: str
    row: GroupRow | None
    rows: Sequence[OffsetRow]
    is_subscribed: bool

    @property
    def changed_ms(self) -> int:
        """When the group's members changed last."""
        return 0 if self.row is None else self.row.changed_at_ms

    @property
    def moved_ms(self) -> int:
        """When the group committed for the topic last, or else when its members changed last."""
        return max((row.committed_at_ms for row in self.rows), default=self.changed_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """A group that has unread records from ``offset`` of a partition on, and moved there last at ``moved_ms``."""

    group: str
    member_count: int
    topic: OpenTopic
    state: TopicState
    partition: int
    offset: int
    moved_ms: int
    record_count: int

    @property
    def place(self) -> tuple[str, int, int]:
        """Identity of the first unread record."""
        return (self.state.topic_id or "", self.partition, self.offset)


class StalledGroups:
    """What is known of groups that are stalled. Used on the event loop only."""

    def __init__(
        self, table: GroupsTable, topics: OpenTopics, reading: PartitionReader, *, clock: Clock, bounds: GroupBounds
    ) -> None:
        self._table = table
        self._topics = topics
        self._reading = reading
        self._clock = clock
        self._bounds = bounds
        self._found: Sequence[StalledGroup] = ()
        self._written: dict[tuple[str, int, int], int] = {}
        """Timestamp of the record at each place of the last look."""
        self._looking: asyncio.Task[None] | None = None
        self._looked_ms = 0

    async def look(self) -> Sequence[StalledGroup]:
        """Return the groups that are stalled, the last to stop first, after a look if the last was ``STALLED_REFRESH_MS`` ago.

        A look that takes longer than ``STALLED_WAIT_MS`` goes on, and what it finds is the next caller's. Raises nothing.
        """
        now_ms = self._clock.monotonic_ms()
        if self._looking is None or (self._looking.done() and now_ms - self._looked_ms >= STALLED_REFRESH_MS):
            self._looked_ms = now_ms
            self._looking = asyncio.create_task(self._look())
            self._looking.add_done_callback(_on_ended)
        await asyncio.wait((self._looking,), timeout=STALLED_WAIT_MS / 1000)
        return self._found

    def stop(self) -> None:
        """Cancel the look under way."""
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        found: Sequence[StalledGroup] = ()
        try:
            before_ms = self._clock.now_ms() - STALLED_MS
            found = await self._timed(await self._waiting(before_ms), before_ms)
        except TidelogError as problem:
            _log.warning("which groups are stalled is not known: %s", problem.detail)
        finally:
            self._found = found

    async def _waiting(self, before_ms: int) -> list[_Waiting]:
        """Return the groups that have unread records and have not moved since ``before_ms``, one for each topic. Raises
        ``BackOff``."""
        readers = await self._readers(before_ms)
        newest = sorted(readers, key=lambda name: -max(one.moved_ms for one in readers[name]))
        seen_ms = self._clock.monotonic_ms() - STALLED_REFRESH_MS

        async def of_topic(name: str) -> list[_Waiting]:
            try:
                topic = await self._topics.fresh(name, seen_ms)
            except TidelogError as problem:
                _log.warning("which groups are stalled in topic %s is not known: %s", name, problem.detail)
                return []
            if not topic.state.exists:
                return []
            backlog = TopicBacklog(topic.state)
            found = (_waiting(one, topic, backlog) for one in readers[name])
            return [one for one in found if one is not None and one.moved_ms <= before_ms]

        looked = await run_parallel(of_topic, newest[:LAG_TOPICS_MAX], limit=PARALLEL_LOOKUPS_MAX)
        return [one for some in looked for one in some]

    async def _readers(self, before_ms: int) -> dict[str, list[_Reader]]:
        """Return the groups by the topics in which they may have stood still since ``before_ms``. Raises ``BackOff``."""
        state = await self._table.recent(self._bounds.lag_fresh_ms)
        readers: dict[str, list[_Reader]] = {}
        for number, (name, group) in enumerate(state.groups.items()):
            if number % LAG_GROUPS_PER_STEP == 0:
                await asyncio.sleep(0)
            rows: dict[str, list[OffsetRow]] = {}
            for row in group.offsets.values():
                rows.setdefault(row.topic, []).append(row)
            read_topics = frozenset() if group.row is None else group.row.read_topics
            topics = {topic for topic, some in rows.items() if min(row.committed_at_ms for row in some) <= before_ms}
            if group.row is not None and group.row.changed_at_ms <= before_ms:
                topics |= read_topics
            for topic in filter(is_topic_name, topics):
                reader = _Reader(
                    group=name, row=group.row, rows=rows.get(topic, []), is_subscribed=topic in read_topics
                )
                readers.setdefault(topic, []).append(reader)
        return readers

    async def _timed(self, waiting: Sequence[_Waiting], before_ms: int) -> list[StalledGroup]:
        """Return those whose first unread record was written by ``before_ms``, too."""
        asked = heapq.nlargest(STALLED_GROUPS_MAX, waiting, key=lambda one: one.moved_ms)
        known = {one.place: self._written[one.place] for one in asked if one.place in self._written}
        unknown = {one.place: one for one in asked if one.place not in known}
        times = await asyncio.gather(*map(self._written_ms, unknown.values()))
        self._written = known | {place: time for place, time in zip(unknown, times, strict=True) if time is not None}
        found = [
            StalledGroup(
                group=one.group,
                topic=one.topic.name,
                partition=one.partition,
                since_ms=_since_ms(one.moved_ms, self._written[one.place], before_ms + STALLED_MS),
                record_count=one.record_count,
                member_count=one.member_count,
            )
            for one in asked
            if one.place in self._written
        ]
        return sorted((one for one in found if one.since_ms <= before_ms), key=lambda one: -one.since_ms)

    async def _written_ms(self, one: _Waiting) -> int | None:
        try:
            return await written_ms(self._reading, one.topic, one.state, one.partition, one.offset)
        except TidelogError:
            return None


def _on_ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("looking for groups that are stalled failed", exc_info=error)


def _since_ms(moved_ms: int, written_ms: int, now_ms: int) -> int:
    """Return since when a group is stalled. A record whose timestamp is in the future does not count."""
    return moved_ms if written_ms > now_ms else max(moved_ms, written_ms)


def _waiting(reader: _Reader, topic: OpenTopic, backlog: TopicBacklog) -> _Waiting | None:
    """Return where the group has not moved for longest and has unread records; None where it has read all."""
    state = topic.state
    rows = {row.partition: row for row in reader.rows}
    positions = backlog.positions(reader.rows)
    found = [
        (rows[partition].committed_at_ms, partition, max(position, state.log_start(partition)))
        for partition, position in positions.items()
        if max(position, state.log_start(partition)) < state.high_watermark(partition)
    ]
    if reader.is_subscribed and (oldest := backlog.oldest_uncommitted(positions)) is not None:
        found.append((reader.changed_ms, *oldest[1:]))
    if not found:
        return None
    moved_ms, partition, offset = min(found)
    return _Waiting(
        group=reader.group,
        member_count=0 if reader.row is None else len(reader.row.members),
        topic=topic,
        state=state,
        partition=partition,
        offset=offset,
        moved_ms=moved_ms,
        record_count=backlog.record_count(positions, is_subscribed=reader.is_subscribed),
    )
