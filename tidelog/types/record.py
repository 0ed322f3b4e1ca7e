"""What a user sends and gets. ``msgspec.Struct`` instead of dataclasses: hundreds of thousands of them are made a second."""

from __future__ import annotations

from typing import Any

import msgspec

from log_format.limits import HEADER_BYTES_MIN, HEADERS_FREE

Headers = tuple[tuple[str, bytes | None], ...]
"""In order, duplicates kept."""


def headers_bytes(headers: Headers) -> int:
    """What a record's headers count, as gateways count them (``log_format.records.size``)."""
    size = sum(len(name.encode()) + len(value or b"") for name, value in headers)
    return max(size, (len(headers) - HEADERS_FREE) * HEADER_BYTES_MIN)


class TopicPartition(msgspec.Struct, frozen=True, order=True):
    """A partition of a topic."""

    topic: str
    partition: int


class RecordMetadata(msgspec.Struct, frozen=True, gc=False):
    """Where an acknowledged record is. ``timestamp_ms``: None when the gateway stamped it (``LogAppendTime``).

    A delayed record has no offset yet: -1. ``scheduled_id`` names it until it is delivered at ``deliver_at_ms``. Where a
    transaction has delayed records for a topic these are None, and the offset of each of its records there is -1.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    scheduled_id: str | None = None
    deliver_at_ms: int | None = None

    @property
    def timestamp(self) -> int | None:
        """``timestamp_ms``, by kafka-python's name."""
        return self.timestamp_ms


class Record(msgspec.Struct, frozen=True):
    """A record as it is in the log. A null value is a tombstone.

    ``key`` and ``value`` are ``bytes | None``, unless the consumer has deserializers.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: Headers = ()

    @property
    def timestamp(self) -> int:
        """``timestamp_ms``, by kafka-python's name."""
        return self.timestamp_ms


class SentRecord(msgspec.Struct, frozen=True):
    """What ``on_delivery`` gets.

    ``offset`` is None when the record was not acknowledged. ``partition`` is then None too, unless it was chosen already.
    """

    topic: str
    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


class PartitionRange(msgspec.Struct, frozen=True):
    """The offsets ``base_offset`` to ``last_offset`` that ``count`` records of one request got in one partition."""

    partition: int
    base_offset: int
    last_offset: int
    count: int


class ScheduledPlace(msgspec.Struct, frozen=True):
    """A delayed record of a request: its id, when it is due, and its place in the request."""

    id: str
    deliver_at: int
    index: int


class ProduceResult(msgspec.Struct, frozen=True):
    """The result of a request, or of a table sent as several: its ranges in the order of sending.

    ``scheduled``: the delayed records. The indices of a table sent as several are those within each request.
    """

    topic: str
    partitions: tuple[PartitionRange, ...]
    scheduled: tuple[ScheduledPlace, ...] = ()

    @property
    def count(self) -> int:
        """How many records were stored."""
        return sum(stored.count for stored in self.partitions) + len(self.scheduled)
