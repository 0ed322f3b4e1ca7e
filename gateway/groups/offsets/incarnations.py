"""Which incarnation of its topic a committed offset is for: an offset of a deleted topic does not count."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gateway.engine.open_topic import OpenTopic
from gateway.engine.registry import TopicRegistry, is_topic_name
from gateway.groups.bounds import LOOKS_AT_ONCE
from gateway.side_by_side import side_by_side
from log_format.clock import Clock
from log_format.errors import TidelogError, UnknownTopic
from log_format.groups.row import OffsetRow
from log_format.groups.state import Group
from log_format.topic.state import TopicState

Key = tuple[str, int]
"""Topic and partition."""


class Incarnations:
    """Belongs to the event loop."""

    def __init__(self, topics: TopicRegistry, *, clock: Clock) -> None:
        self._topics = topics
        self._clock = clock

    async def existing(self, topic: str) -> tuple[OpenTopic, TopicState]:
        """The topic as it is now. Raises ``UnknownTopic``, ``BackOff``."""
        if not is_topic_name(topic):
            raise UnknownTopic(topic[:100])
        opened = await self._topics.fresh(topic, self._clock.monotonic_ms())
        return opened, opened.existing()

    async def valid(self, group: Group, keys: set[Key] | None = None) -> dict[Key, OffsetRow]:
        """A group's offsets for the present topics, in order; ``keys``: only these. Raises as ``ids``."""
        wanted = [key for key in group.offsets if keys is None or key in keys]
        ids = await self.ids(wanted)
        return {key: row for key, row in of_ids(group, ids).items() if keys is None or key in keys}

    async def ids(self, keys: Iterable[Key]) -> dict[str, str | None]:
        """The incarnation of each topic named; None where it does not exist. Raises ``BackOff``, ``CorruptData``."""
        ids: dict[str, str | None] = {}
        for topic, found in (await self.looked({topic for topic, _ in keys})).items():
            if isinstance(found, TidelogError):
                raise found
            ids[topic] = found.state.topic_id
        return ids

    async def looked(self, names: Collection[str]) -> dict[str, OpenTopic | TidelogError]:
        """Topics as they are now, which may not exist, or why they can't be looked at."""
        arrival_ms = self._clock.monotonic_ms()

        async def look(topic: str) -> OpenTopic | TidelogError:
            if not is_topic_name(topic):
                return UnknownTopic(topic[:100])
            try:
                return await self._topics.fresh(topic, arrival_ms)
            except TidelogError as problem:
                return problem

        in_order = sorted(names)
        if len(in_order) == 1:  # most groups read one topic, and need no task for it
            return {in_order[0]: await look(in_order[0])}
        return dict(zip(in_order, await side_by_side(look, in_order, at_once=LOOKS_AT_ONCE), strict=True))


def known_ids(topics: Mapping[str, OpenTopic | TidelogError]) -> dict[str, str | None]:
    """The incarnations of those that could be looked at: a damaged topic is no reason to refuse its groups a change of others."""
    return {topic: one.state.topic_id for topic, one in topics.items() if not isinstance(one, TidelogError)}


def of_ids(group: Group, ids: Mapping[str, str | None]) -> dict[Key, OffsetRow]:
    """A group's offsets in order, less those of topics that ``ids`` omits or has in another incarnation."""
    return {key: row for key, row in sorted(group.offsets.items()) if ids.get(row.topic) == row.topic_id}
