"""Incarnations of topics that committed offsets are for: an offset of a deleted topic does not count."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.groups.bounds import PARALLEL_LOOKUPS_MAX
from gateway.tasks.parallel import run_parallel
from log_format.clock import Clock
from log_format.errors import TidelogError, UnknownTopic
from log_format.groups.row import OffsetRow
from log_format.groups.state import Group
from log_format.topic.state import TopicState
from log_format.topic_name import is_topic_name

Key = tuple[str, int]
"""Topic and partition."""


class Incarnations:
    """The present incarnations of topics. Used on the event loop only."""

    def __init__(self, topics: OpenTopics, *, clock: Clock) -> None:
        self._topics = topics
        self._clock = clock

    async def existing(self, topic: str) -> tuple[OpenTopic, TopicState]:
        """Return the topic as it is now. Raises ``UnknownTopic``, ``BackOff``."""
        if not is_topic_name(topic):
            raise UnknownTopic(topic[:100])
        opened = await self._topics.fresh(topic, self._clock.monotonic_ms())
        return opened, opened.require_state()

    async def valid(self, group: Group, keys: set[Key] | None = None) -> dict[Key, OffsetRow]:
        """Return a group's offsets without those of topics that were deleted or made anew since, in the group's order.

        ``keys``: only these topics and partitions. Raises what ``ids`` raises.
        """
        wanted = [key for key in group.offsets if keys is None or key in keys]
        ids = await self.ids(wanted)
        return {key: row for key, row in offsets_of_incarnations(group, ids).items() if keys is None or key in keys}

    async def ids(self, keys: Iterable[Key]) -> dict[str, str | None]:
        """Return the incarnation of each topic named; None if it does not exist. Raises ``BackOff``, ``CorruptData``."""
        ids: dict[str, str | None] = {}
        for topic, found in (await self.look_up({topic for topic, _ in keys})).items():
            if isinstance(found, TidelogError):
                raise found
            ids[topic] = found.state.topic_id
        return ids

    async def look_up(self, names: Collection[str]) -> dict[str, OpenTopic | TidelogError]:
        """Return topics as they are now, which may not exist, or the errors of those that can't be looked at."""
        arrival_ms = self._clock.monotonic_ms()

        async def look(topic: str) -> OpenTopic | TidelogError:
            if not is_topic_name(topic):
                return UnknownTopic(topic[:100])
            try:
                return await self._topics.fresh(topic, arrival_ms)
            except TidelogError as problem:
                return problem

        in_order = sorted(names)
        if len(in_order) == 1:  # Most groups read one topic, and need no task for it.
            return {in_order[0]: await look(in_order[0])}
        return dict(zip(in_order, await run_parallel(look, in_order, limit=PARALLEL_LOOKUPS_MAX), strict=True))


def known_ids(topics: Mapping[str, OpenTopic | TidelogError]) -> dict[str, str | None]:
    """Return the incarnations of the topics that could be looked at: a damaged topic does not keep a group from changing
    others."""
    return {topic: one.state.topic_id for topic, one in topics.items() if not isinstance(one, TidelogError)}


def offsets_of_incarnations(group: Group, ids: Mapping[str, str | None]) -> dict[Key, OffsetRow]:
    """Return a group's offsets in order, without those of topics that ``ids`` omits or has in another incarnation."""
    return {key: row for key, row in sorted(group.offsets.items()) if ids.get(row.topic) == row.topic_id}
