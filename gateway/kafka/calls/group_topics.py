"""Translation between topic names, which groups store, and topic ids, which clients use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from gateway.kafka.call import KafkaCall
from log_format.groups.row import Partitions


def describable_topics(call: KafkaCall, topics: Iterable[str]) -> list[str]:
    """Return the topics that the caller may describe. Raise ``BackOff`` if the rights are not known."""
    return [topic for topic in topics if call.allows("Describe", "topic", topic)]


def describable_partitions(call: KafkaCall, partitions: Partitions) -> Partitions:
    """Return the partitions of the topics that the caller may describe. Raise as ``describable_topics`` does."""
    return {topic: partitions[topic] for topic in describable_topics(call, partitions)}


class TopicIds:
    """Ids of topics, looked up once for each request."""

    def __init__(self, call: KafkaCall) -> None:
        self._call = call
        self._ids: dict[str, UUID | None] = {}

    async def names(self, topics: Iterable[str]) -> Mapping[UUID, str]:
        """Return the names of existing topics by id: of ``topics`` and of all topics looked up before. Raise ``BackOff``,
        ``CorruptData``."""
        missing = [(topic, 0) for topic in topics if topic not in self._ids]
        if missing:
            for topic, topic_id in (await self._call.engine.groups.incarnations.ids(missing)).items():
                self._ids[topic] = None if topic_id is None else UUID(topic_id)
                if topic_id is not None:
                    self._call.known_topics.learn(UUID(topic_id), topic)
        return {topic_id: topic for topic, topic_id in self._ids.items() if topic_id is not None}

    async def by_id(self, partitions: Partitions) -> list[dict[str, Any]]:
        """Return partitions by topic id, as answers encode them. Deleted topics are left out. Raise as ``names`` does."""
        found = await self.by_id_and_name(partitions)
        return [{"topic_id": one["topic_id"], "partitions": one["partitions"]} for one in found]

    async def by_id_and_name(self, partitions: Partitions) -> list[dict[str, Any]]:
        """Return partitions by topic id and name, as answers encode them. Deleted topics are left out. Raise as ``names``
        does."""
        await self.names(partitions)
        return [
            {"topic_id": topic_id, "topic_name": topic, "partitions": numbers}
            for topic, numbers in partitions.items()
            if (topic_id := self._ids.get(topic)) is not None
        ]
