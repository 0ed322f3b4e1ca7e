"""kafka-python's tuples."""

from __future__ import annotations

from typing import Any, NamedTuple

from tidelog.types import record as sdk


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def ours(self) -> sdk.TopicPartition:
        """As the SDK has it."""
        return sdk.TopicPartition(self.topic, self.partition)


class OffsetAndMetadata(NamedTuple):
    """What a group commits for a partition."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class RecordMetadata(NamedTuple):
    """Where a record is stored. Sizes and checksums are Kafka's; here they are None and -1."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int | None
    checksum: None = None
    serialized_key_size: int = -1
    serialized_value_size: int = -1
    serialized_header_size: int = -1


class ConsumerRecord(NamedTuple):
    """A record. ``timestamp_type``: 0, the time of its creation."""

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


def theirs(place: sdk.TopicPartition) -> TopicPartition:
    """A partition as kafka-python has it."""
    return TopicPartition(place.topic, place.partition)
