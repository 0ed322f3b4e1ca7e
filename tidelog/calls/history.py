"""Plans of history: which segments hold the records of a partition from an offset on."""

from __future__ import annotations

import msgspec

from tidelog.calls.requests import read_of
from tidelog.deadline import Deadline
from tidelog.http.owners import Owned
from tidelog.http.transport import Transport, target
from tidelog.types.record import TopicPartition


class Footer(msgspec.Struct, frozen=True):
    """Where a segment's footer begins, and the CRC-32 (zlib) of it."""

    position: int
    crc32: int


class PlannedSegment(msgspec.Struct, frozen=True):
    """A Parquet object and the offsets to take of it, ``[start_offset, end_offset)``.

    ``url``: None where the store signs none.
    """

    key: str
    url: str | None
    size_bytes: int
    stored_bytes: int
    footer: Footer
    start_offset: int
    end_offset: int


class Plan(msgspec.Struct, frozen=True):
    """Every record of the partition up to ``next_offset`` is in one of ``segments``, which are in order."""

    high_watermark: int
    next_offset: int
    segments: tuple[PlannedSegment, ...] = ()
    topic_id: str | None = None


def plan_history(
    transport: Transport, place: TopicPartition, offset: int, bytes_max: int, deadline: Deadline, *, about: Owned
) -> Plan:
    """The plan from ``offset`` on, of about ``bytes_max`` stored bytes. Raises what ``Transport.call`` raises."""
    where = target("topics", place.topic, "partitions", place.partition, "segments", offset=offset, max_bytes=bytes_max)
    return transport.call(read_of(where, about=about), deadline, patient=True).decode(Plan)
