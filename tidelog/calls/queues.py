"""Calls about one queue. Source: docs/http-api.md section 11.

A receive whose answer is lost is retried: records that it locked come again when their locks expire. A settlement is retried,
too: under its own lease a repeated one changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tidelog import limits
from tidelog.bodies.encode import JSON
from tidelog.bodies.json_record import JsonRecord
from tidelog.calls.pages import paged
from tidelog.calls.requests import json_request, read_request
from tidelog.deadline import Deadline
from tidelog.errors import LeaseExpired
from tidelog.http.owners import RoutingKey
from tidelog.http.transport import Reply, Request, Transport, target
from tidelog.limits import fetched_bytes_max
from tidelog.types.queue import Queue
from tidelog.types.record import Record, TopicPartition


class ReceivedRecord(JsonRecord, frozen=True, kw_only=True):
    """A record in the answer to ``:receive``."""

    topic: str
    partition: int
    delivery_count: int
    lease: str
    locked_until_ms: int

    def stored(self) -> Record:
        """Return the record as bytes. Raises ``ValueError`` for invalid base64."""
        return self.record(TopicPartition(self.topic, self.partition))


class Settlement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Action on the records of one lease from ``first_offset`` to ``last_offset``, both inclusive."""

    topic: str
    partition: int
    lease: str
    action: str
    delay_ms: int = -1
    lock_ms: int = -1
    reason: str = ""
    begun: bool | None = None
    """Whether a program has received the records. False, for a release: the delivery does not count. True, for a renewal: it
    counts from now on."""
    first_offset: int
    last_offset: int

    def place(self) -> tuple[object, ...]:
        """Return a sort key that places settlements next to those with which they may merge."""
        what = (self.action, self.delay_ms, self.lock_ms, self.reason, str(self.begun))
        return (self.topic, self.partition, self.lease, *what, self.first_offset, self.last_offset)

    def merges_with(self, other: Settlement) -> bool:
        """Return whether ``other`` continues this range and is otherwise equal."""
        return (
            other.first_offset == self.last_offset + 1
            and msgspec.structs.replace(other, first_offset=self.first_offset, last_offset=self.last_offset) == self
        )


class SettledResult(msgspec.Struct, frozen=True):
    """Result of one settlement."""

    settled: bool
    error_code: str | None = None


class Locked(Protocol):
    """A record of a queue that is locked for this client."""

    @property
    def queue(self) -> str:
        """Name of the queue."""

    def take_settlement(self, action: str) -> Settlement:
        """Return the settlement for the caller to send. Raises ``RuntimeError`` if the record is already settled."""


class _Received(msgspec.Struct, frozen=True):
    records: tuple[ReceivedRecord, ...]


class _Settled(msgspec.Struct, frozen=True):
    results: tuple[SettledResult, ...]


class _Redriven(msgspec.Struct, frozen=True):
    redriven: int


class QueueCalls:
    """Calls about one queue. Thread-safe. All of them raise what ``Transport.call`` raises."""

    def __init__(self, transport: Transport, queue: str) -> None:
        self.queue = queue
        self._transport = transport
        self._routing_key = RoutingKey.of_queue(queue)

    def put(self, settings: Mapping[str, Any], deadline: Deadline) -> Queue:
        """Create the queue, or replace its settings."""
        return self._call("PUT", deadline, body=settings).decode(Queue)

    def describe(self, deadline: Deadline) -> Queue:
        """Return the queue's settings and its progress in each partition."""
        return self._call("GET", deadline, reads=True).decode(Queue)

    def delete(self, deadline: Deadline) -> None:
        """Delete the queue. Not retried: a retry could delete a new queue of the same name."""
        self._call("DELETE", deadline, repeatable=False)

    def redrive(self, to_topic: str | None, max_records: int | None, unproved: str | None, deadline: Deadline) -> int:
        """Produce dead letters again, and return their number. Not retried: a retry would only count the rest."""
        given = {"to_topic": to_topic, "max_records": max_records, "unproved": unproved}
        body = {name: value for name, value in given.items() if value is not None}
        return self._call("POST", deadline, "redrive", body, repeatable=False).decode(_Redriven).redriven

    def receive(
        self,
        *,
        records_max: int,
        bytes_max: int,
        wait_ms: int,
        lock_ms: int,
        client_id: str | None,
        deadline: Deadline,
        begun_max: int | None = None,
    ) -> tuple[ReceivedRecord, ...]:
        """Lock records and return them; wait for the first. ``begun_max``: this many count as delivered immediately; None:
        all."""
        body = {"max_records": records_max, "max_bytes": bytes_max, "max_wait_ms": wait_ms, "lock_ms": lock_ms}
        if begun_max is not None and begun_max < records_max:
            body["begun_max"] = begun_max
        request = Request(
            method="POST",
            target=target("queues", self.queue, action="receive"),
            body=msgspec.json.encode(body if client_id is None else body | {"client_id": client_id}),
            content_type=JSON,
            repeatable=True,
            reads=True,
            routing_key=self._routing_key,
            answer_bytes_max=fetched_bytes_max(bytes_max, records_max, as_json=True),
            wait_ms=wait_ms,
        )
        return self._transport.call(request, deadline, patient=True).decode(_Received).records

    def settle(self, settlements: Sequence[Settlement], deadline: Deadline) -> tuple[SettledResult, ...]:
        """Send settlements, and return a result for each, in order. Settled ones are in the store."""
        reply = self._call("POST", deadline, "settle", {"settlements": settlements})
        results = reply.decode(_Settled).results
        if len(results) != len(settlements):
            raise reply.unexpected(f"{len(results)} results for {len(settlements)} settlements")
        return results

    def _call(
        self,
        method: str,
        deadline: Deadline,
        action: str = "",
        body: object = None,
        *,
        repeatable: bool = True,
        reads: bool = False,
    ) -> Reply:
        where = target("queues", self.queue, action=action)
        request = json_request(method, where, body, repeatable=repeatable, reads=reads, routing_key=self._routing_key)
        return self._transport.call(request, deadline, patient=True)


def accept_in_transaction(
    transport: Transport, transaction_id: str, records: Iterable[Locked], deadline: Deadline
) -> None:
    """Accept records when the transaction commits. Raises ``LeaseExpired`` if a lock has expired, else as ``Transport.call``."""
    by_queue: dict[str, list[Settlement]] = {}
    for record in records:
        by_queue.setdefault(record.queue, []).append(record.take_settlement("accept"))
    for queue, settlements in by_queue.items():
        for first in range(0, len(settlements), limits.SETTLEMENTS_MAX):
            some = settlements[first : first + limits.SETTLEMENTS_MAX]
            request = Request(
                method="POST",
                target=target("queues", queue, action="settle"),
                body=msgspec.json.encode({"settlements": some}),
                content_type=JSON,
                headers={"Tidelog-Transaction": transaction_id},
                repeatable=True,
                routing_key=RoutingKey.of_queue(queue),
            )
            results = transport.call(request, deadline).decode(_Settled).results
            late = [one for one, result in zip(some, results, strict=True) if not result.settled]
            if late:
                place = f"{late[0].topic}/{late[0].partition}/{late[0].first_offset}"
                raise LeaseExpired(
                    f"The locks of {place} and of {len(late) - 1} further records have expired.", status=409
                )


def list_queues(transport: Transport, deadline: Deadline) -> list[Queue]:
    """Return all queues, sorted by name. Raises what ``Transport.call`` raises."""
    return list(
        paged("queues", Queue, lambda after: transport.call(read_request(target("queues", after=after)), deadline))
    )
