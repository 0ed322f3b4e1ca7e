"""``TopicPartition`` and ``Message``, as confluent-kafka has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tidelog.compat.confluent_kafka.errors import KafkaError
from tidelog.types import record as sdk

OFFSET_BEGINNING: Final = -2
OFFSET_END: Final = -1
OFFSET_STORED: Final = -1000
OFFSET_INVALID: Final = -1001
TIMESTAMP_NOT_AVAILABLE: Final = 0
TIMESTAMP_CREATE_TIME: Final = 1
TIMESTAMP_LOG_APPEND_TIME: Final = 2


class TopicPartition:
    """A partition, and perhaps an offset in it. Two are equal by topic and partition."""

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = leader_epoch
        self.error: KafkaError | None = None

    def ours(self) -> sdk.TopicPartition:
        """As the SDK has it, without the offset."""
        return sdk.TopicPartition(self.topic, self.partition)

    def __eq__(self, other: object) -> bool:
        """By topic and partition."""
        return isinstance(other, TopicPartition) and self.ours() == other.ours()

    def __lt__(self, other: TopicPartition) -> bool:
        """By topic and partition."""
        return self.ours() < other.ours()

    def __hash__(self) -> int:
        """By topic and partition."""
        return hash(self.ours())

    def __repr__(self) -> str:
        """All of it."""
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset},error={self.error}}}"
        )


def theirs(place: sdk.TopicPartition, offset: int | None = None) -> TopicPartition:
    """A partition as confluent-kafka has it."""
    return TopicPartition(place.topic, place.partition, OFFSET_INVALID if offset is None else offset)


def ours(places: Iterable[TopicPartition]) -> list[sdk.TopicPartition]:
    """Partitions as the SDK has them."""
    return [place.ours() for place in places]


class Message:
    """A record, read or delivered, or what went wrong in its place."""

    __slots__ = ("_error", "_headers", "_key", "_offset", "_partition", "_timestamp", "_topic", "_value", "latency_s")

    def __init__(
        self,
        *,
        topic: str,
        partition: int | None,
        offset: int | None,
        timestamp_ms: int | None,
        key: Any,
        value: Any,
        headers: list[tuple[str, bytes | None]] | None = None,
        error: KafkaError | None = None,
    ) -> None:
        self._topic, self._partition, self._offset = topic, partition, offset
        self._timestamp, self._key, self._value = timestamp_ms, key, value
        self._headers, self._error = headers, error
        self.latency_s: float | None = None

    def topic(self) -> str:
        """Its topic."""
        return self._topic

    def partition(self) -> int | None:
        """Its partition."""
        return self._partition

    def offset(self) -> int | None:
        """Its offset."""
        return self._offset

    def key(self) -> Any:
        """Its key."""
        return self._key

    def value(self) -> Any:
        """Its value."""
        return self._value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Its headers; None: there are none."""
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        """The kind of its time, and milliseconds since the epoch."""
        if self._timestamp is None:
            return TIMESTAMP_NOT_AVAILABLE, -1
        return TIMESTAMP_CREATE_TIME, self._timestamp

    def error(self) -> KafkaError | None:
        """What went wrong; None: nothing."""
        return self._error

    def latency(self) -> float | None:
        """Seconds from ``produce`` to the acknowledgement."""
        return self.latency_s

    def leader_epoch(self) -> int | None:
        """None: partitions have no leaders."""
        return None

    def set_headers(self, value: list[tuple[str, bytes | None]] | None) -> None:
        """Put others in their place."""
        self._headers = value

    def set_key(self, value: Any) -> None:
        """Put another in its place."""
        self._key = value

    def set_value(self, value: Any) -> None:
        """Put another in its place."""
        self._value = value

    def __len__(self) -> int:
        """The value's bytes."""
        return 0 if self._value is None else len(self._value)
