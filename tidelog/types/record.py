"""Records and their places. They are ``msgspec.Struct`` and no dataclasses: hundreds of thousands are created a second."""

from __future__ import annotations

from typing import Any

import msgspec

from log_format.limits import HEADER_BYTES_MIN, HEADERS_FREE

Headers = tuple[tuple[str, bytes | None], ...]
"""Headers in order; duplicates are kept."""


def headers_bytes(headers: Headers) -> int:
    """Return the size of a record's headers, as gateways count it (``log_format.records.size``)."""
    size = sum(len(name.encode()) + len(value or b"") for name, value in headers)
    return max(size, (len(headers) - HEADERS_FREE) * HEADER_BYTES_MIN)


class TopicPartition(msgspec.Struct, frozen=True, order=True):
    """A partition of a topic."""

    topic: str
    partition: int


class RecordMetadata(msgspec.Struct, frozen=True, gc=False):
    """Place of an acknowledged record. ``timestamp_ms``: None when the gateway stamped it (``LogAppendTime``).

    A delayed record has no offset yet: -1. ``scheduled_id`` identifies it until it is delivered at ``deliver_at_ms``. In a
    transaction with delayed records for a topic, both are None and every record of that topic has offset -1.

    A record that is not of its topic's schemas may go to another topic (``data.on.error=dead-letter``). Then ``topic`` is
    that one, and ``dead_letter_reason`` says why; partition and offset are -1 if a repeated request does not tell them.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    scheduled_id: str | None = None
    deliver_at_ms: int | None = None
    dead_letter_reason: str | None = None

    @property
    def timestamp(self) -> int | None:
        """``timestamp_ms``, by kafka-python's name."""
        return self.timestamp_ms


class Record(msgspec.Struct, frozen=True):
    """A record of the log. A null value is a tombstone.

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
    """Record as passed to ``on_delivery``.

    ``offset`` is None when the record was not acknowledged. ``partition`` is then None, too, unless it was already chosen.
    """

    topic: str
    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


class PartitionRange(msgspec.Struct, frozen=True):
    """Offsets ``base_offset`` to ``last_offset`` of the ``count`` records that one request stored in one partition."""

    partition: int
    base_offset: int
    last_offset: int
    count: int


class ScheduledPlace(msgspec.Struct, frozen=True):
    """A delayed record of a request: its id, its delivery time, and its index in the request."""

    id: str
    deliver_at: int
    index: int


class DeadLetter(msgspec.Struct, frozen=True):
    """A record of a request that is not of its topic's schemas, and went to ``topic``, the one of dead letters.

    ``index``: in the request. ``partition`` and ``offset``: -1 where an earlier try of the request put it there.
    """

    index: int
    topic: str
    reason: str
    partition: int = -1
    offset: int = -1


class ProduceResult(msgspec.Struct, frozen=True):
    """Result of a request, or of a table sent as several requests: offset ranges in the order of sending.

    ``scheduled``: the delayed records; ``dead_letters``: those that went to the topic of dead letters, which ``count``
    leaves out. For a table sent as several requests, indices count within each request.
    """

    topic: str
    partitions: tuple[PartitionRange, ...]
    scheduled: tuple[ScheduledPlace, ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()

    @property
    def count(self) -> int:
        """Number of stored records."""
        return sum(stored.count for stored in self.partitions) + len(self.scheduled)
