"""Calls about undelivered delayed records: list, describe, cancel. All of them raise what ``Transport.call`` raises."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidelog.bodies.json_record import JsonHeader, exact
from tidelog.calls.pages import paged
from tidelog.calls.requests import json_request, read_request
from tidelog.deadline import Deadline
from tidelog.http.transport import Reply, Transport, target
from tidelog.types.scheduled import DelayedRecord, ScheduledRecord


class _Entry(msgspec.Struct, frozen=True):
    id: str
    deliver_at: int
    key: str | None = None
    key_base64: str | None = None

    def scheduled(self) -> ScheduledRecord:
        return ScheduledRecord(self.id, self.deliver_at, exact(self.key, self.key_base64))


class _Content(msgspec.Struct, frozen=True):
    partition: int
    timestamp: int
    key: str | None = None
    key_base64: str | None = None
    value: str | None = None
    value_base64: str | None = None
    headers: tuple[JsonHeader, ...] = ()


class _Described(msgspec.Struct, frozen=True):
    id: str
    deliver_at: int
    record: _Content


def list_scheduled(transport: Transport, topic: str, timeout_ms: float) -> Iterator[ScheduledRecord]:
    """Yield all undelivered records, sorted by id. ``timeout_ms`` is the limit of one page. Raises ``UnknownTopic``."""

    def page(after: str | None) -> Reply:
        where = target("topics", topic, "scheduled", after=after)
        return transport.call(read_request(where), Deadline(timeout_ms))

    return (entry.scheduled() for entry in paged("scheduled", _Entry, page))


def describe_scheduled(transport: Transport, topic: str, scheduled_id: str, deadline: Deadline) -> DelayedRecord:
    """Return one undelivered record. Raises ``UnknownScheduled``, ``UnknownTopic``."""
    where = target("topics", topic, "scheduled", scheduled_id)
    found = transport.call(read_request(where), deadline).decode(_Described)
    record = found.record
    return DelayedRecord(
        found.id,
        found.deliver_at,
        record.partition,
        record.timestamp,
        exact(record.key, record.key_base64),
        exact(record.value, record.value_base64),
        tuple((header.key, exact(header.value, header.value_base64)) for header in record.headers),
    )


def cancel_scheduled(transport: Transport, topic: str, scheduled_id: str, deadline: Deadline) -> None:
    """Cancel one undelivered record. Raises ``AlreadyDelivered``, ``UnknownScheduled``, ``UnknownTopic``, ``OutcomeUnknown``."""
    where = target("topics", topic, "scheduled", scheduled_id)
    transport.call(json_request("DELETE", where, repeatable=False), deadline)
