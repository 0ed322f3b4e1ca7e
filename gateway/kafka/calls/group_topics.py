"""Topics as groups have them, by name, and as clients name them, by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from gateway.kafka.call import KafkaCall
from log_format.groups.row import Partitions


def described_topics(call: KafkaCall, topics: Iterable[str]) -> list[str]:
    """Those that the caller may describe. Raises ``BackOff`` where that is not known."""
    return [topic for topic in topics if call.allows("Describe", "topic", topic)]


def described_of(call: KafkaCall, partitions: Partitions) -> Partitions:
    """The same of partitions by topic."""
    return {topic: partitions[topic] for topic in described_topics(call, partitions)}


class TopicIds:
    """For one call."""

    def __init__(self, call: KafkaCall) -> None:
        self._call = call
        self._ids: dict[str, UUID | None] = {}

    async def names(self, topics: Iterable[str]) -> Mapping[UUID, str]:
        """The names of existing topics by id. Raises ``BackOff``, ``CorruptData``."""
        missing = [(topic, 0) for topic in topics if topic not in self._ids]
        if missing:
            for topic, topic_id in (await self._call.engine.groups.incarnations.ids(missing)).items():
                self._ids[topic] = None if topic_id is None else UUID(topic_id)
                if topic_id is not None:
                    self._call.known_topics.learn(UUID(topic_id), topic)
        return {topic_id: topic for topic, topic_id in self._ids.items() if topic_id is not None}

    async def by_id(self, partitions: Partitions) -> list[dict[str, Any]]:
        """Partitions as answers have them; those of deleted topics are nowhere. Raises as ``names``."""
        found = await self.by_id_and_name(partitions)
        return [{"topic_id": one["topic_id"], "partitions": one["partitions"]} for one in found]

    async def by_id_and_name(self, partitions: Partitions) -> list[dict[str, Any]]:
        """The same, with the names of topics. Raises as ``names``."""
        await self.names(partitions)
        return [
            {"topic_id": topic_id, "topic_name": topic, "partitions": numbers}
            for topic, numbers in partitions.items()
            if (topic_id := self._ids.get(topic)) is not None
        ]
