"""Plans for reading history: the segments with a partition's records from an offset on."""

from __future__ import annotations

import msgspec

from tidelog.calls.requests import read_request
from tidelog.deadline import Deadline
from tidelog.http.owners import RoutingKey
from tidelog.http.transport import Transport, target
from tidelog.types.record import TopicPartition


class Footer(msgspec.Struct, frozen=True):
    """Position of a segment's footer, and the footer's CRC-32 (zlib)."""

    position: int
    crc32: int


class PlannedSegment(msgspec.Struct, frozen=True):
    """A Parquet object, and the offsets to read from it, ``[start_offset, end_offset)``.

    ``url``: None if the store does not sign URLs.
    """

    key: str
    url: str | None
    size_bytes: int
    stored_bytes: int
    footer: Footer
    start_offset: int
    end_offset: int


class Plan(msgspec.Struct, frozen=True):
    """Segments, in order, that contain every record of the partition up to ``next_offset``."""

    high_watermark: int
    next_offset: int
    segments: tuple[PlannedSegment, ...] = ()
    topic_id: str | None = None


def plan_history(
    transport: Transport,
    place: TopicPartition,
    offset: int,
    bytes_max: int,
    deadline: Deadline,
    *,
    routing_key: RoutingKey,
) -> Plan:
    """Return the plan from ``offset`` on, of about ``bytes_max`` stored bytes. Raises what ``Transport.call`` raises."""
    where = target("topics", place.topic, "partitions", place.partition, "segments", offset=offset, max_bytes=bytes_max)
    return transport.call(read_request(where, routing_key=routing_key), deadline, patient=True).decode(Plan)
