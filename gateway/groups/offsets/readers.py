"""Groups that read each topic, and their lag: for a list of topics, from recently known states.

A request looks at the head of the groups' table and of each topic listed, unless that was done recently. It reads no record.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gateway.engine.open_topics import OpenTopics
from gateway.groups.bounds import LAG_GROUPS_PER_STEP, PARALLEL_LOOKUPS_MAX, GroupBounds
from gateway.groups.offsets.backlog import TopicBacklog
from gateway.system_tables.groups import GroupsTable
from gateway.tasks.parallel import run_parallel
from log_format.clock import Clock
from log_format.errors import CorruptData
from log_format.groups.row import OffsetRow
from log_format.groups.state import Group
from log_format.topic.state import TopicState
from log_format.topic_name import is_topic_name

GROUPS_OF_TOPIC_MAX: Final = 100
"""Number of groups listed for one topic, those with the largest lag; the others are counted."""
Shown = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOfTopic:
    """A group that reads a topic. ``member_count``: members that subscribe to it. ``lag``: see ``backlog``."""

    group: str
    member_count: int
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReaders:
    """Groups that read a topic, those with the largest lag first; ``group_count``: number of all of them, ``lag``: their sum."""

    topic: str
    groups: list[GroupOfTopic]
    group_count: int
    lag: int


@dataclass(slots=True)
class _ReadingGroup:
    """A group's committed offsets in a topic, and the number of its members that subscribe to the topic."""

    rows: list[OffsetRow] = field(default_factory=list)
    member_count: int = 0


class Readers:
    """Lists of the groups that read topics. Used on the event loop only."""

    def __init__(self, table: GroupsTable, topics: OpenTopics, *, clock: Clock, bounds: GroupBounds) -> None:
        self._table = table
        self._topics = topics
        self._clock = clock
        self._bounds = bounds

    async def page(
        self, after: str, limit: int, *, topic_shown: Shown, group_shown: Shown
    ) -> tuple[list[TopicReaders], str | None]:
        """Return at most ``limit`` topics after ``after`` that groups read, in order of name, and the name after which the next
        page begins.

        Raises ``BackOff``, and what ``topic_shown`` and ``group_shown`` raise.
        """
        state = await self._table.recent(self._bounds.lag_fresh_ms)
        wanted: dict[str, dict[str, _ReadingGroup]] = {}
        for number, (name, group) in enumerate(state.groups.items()):
            if number % LAG_GROUPS_PER_STEP == 0:
                await asyncio.sleep(0)
            if group.exists and group_shown(name):
                _add_readers(wanted, name, group, after)
        names = sorted(name for name in wanted if is_topic_name(name) and topic_shown(name))
        seen_ms = self._clock.monotonic_ms() - self._bounds.lag_fresh_ms

        async def look(name: str) -> TopicReaders | None:
            try:
                topic = await self._topics.fresh(name, seen_ms)
            except CorruptData:
                return None  # The list of topics leaves it out, too.
            return _readers(topic.state, wanted[name])

        looked = await run_parallel(look, names[:limit], limit=PARALLEL_LOOKUPS_MAX)
        found = [one for one in looked if one is not None]
        return found, names[limit - 1] if len(names) > limit else None


def _add_readers(wanted: dict[str, dict[str, _ReadingGroup]], name: str, group: Group, after: str) -> None:
    """Enter a group under each of its topics that come after ``after``."""
    for row in group.offsets.values():
        if row.topic > after:
            wanted.setdefault(row.topic, {}).setdefault(name, _ReadingGroup()).rows.append(row)
    for member in () if group.row is None else group.row.members:
        for topic in member.read_topics:
            if topic > after:
                wanted.setdefault(topic, {}).setdefault(name, _ReadingGroup()).member_count += 1


def _readers(state: TopicState, groups: dict[str, _ReadingGroup]) -> TopicReaders | None:
    """Return the groups that read the topic; None if it does not exist, or if they only read a deleted topic of that name."""
    if not state.exists:
        return None
    backlog, found = TopicBacklog(state), []
    for name, reader in groups.items():
        positions = backlog.positions(reader.rows)
        if positions or reader.member_count:
            lag = backlog.record_count(positions, is_subscribed=reader.member_count > 0)
            found.append(GroupOfTopic(group=name, member_count=reader.member_count, lag=lag))
    if not found:
        return None
    most = heapq.nsmallest(GROUPS_OF_TOPIC_MAX, found, key=lambda one: (-one.lag, one.group))
    return TopicReaders(topic=state.topic, groups=most, group_count=len(found), lag=sum(one.lag for one in found))
