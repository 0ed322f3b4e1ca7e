"""Produce requests, to a topic or staged for a transaction.

A request with a stamp is retried until its outcome is known or the deadline passes: the gateway recognizes it. Without a stamp,
a lost answer raises ``OutcomeUnknown``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from tidelog.bodies.encode import Compression, compress
from tidelog.calls.producers import Stamp
from tidelog.deadline import Deadline
from tidelog.errors import GatewayError
from tidelog.http.owners import RoutingKey
from tidelog.http.transport import Reply, Request, Transport, target
from tidelog.types.record import DeadLetter, PartitionRange, ProduceResult, ScheduledPlace

_PARTITION_COUNT: Final = "tidelog-partition-count"


class Stored(msgspec.Struct, frozen=True):
    """Answer to a produce request. ``duplicate``: the records were in the log already. ``partition_count``: the topic's; 0: not
    reported."""

    result: ProduceResult
    duplicate: bool
    partition_count: int


class _Produced(msgspec.Struct, frozen=True):
    topic: str
    partitions: tuple[PartitionRange, ...]
    duplicate: bool = False
    scheduled: tuple[ScheduledPlace, ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()


class _Staged(msgspec.Struct, frozen=True):
    staged: int


def produce(
    transport: Transport,
    topic: str,
    body: bytes,
    content_type: str,
    *,
    deadline: Deadline,
    partition: int | None = None,
    compression: Compression | None = None,
    stamp: Stamp | None = None,
    is_final: Callable[[GatewayError], bool] = lambda _error: False,
    patient: bool = False,
    is_shared: bool = False,
) -> Stored:
    """Append the records of ``body``.

    Args:
        partition: overrides the partitions that the records name.
        stamp: makes the request repeatable.
        is_final: returns whether an error must be raised without another attempt.
        is_shared: whether the topic commits through a journal, which any gateway can serve.

    Raises as ``Transport.call``.
    """
    place: tuple[str | int, ...] = ("topics", topic)
    if partition is not None:
        place = (*place, "partitions", partition)
    sent, headers = compress(body, compression)
    request = Request(
        method="POST",
        target=target(*place, "records"),
        body=sent,
        content_type=content_type,
        headers=headers if stamp is None else {**headers, **stamp.headers},
        repeatable=stamp is not None,
        routing_key=RoutingKey(topic, served_by_any=is_shared),
        is_final=is_final,
    )
    return transport.ask(request, deadline, _stored, patient=patient)


def stage(
    transport: Transport,
    topic: str,
    body: bytes,
    content_type: str,
    *,
    record_count: int,
    deadline: Deadline,
    transaction_id: str,
    stamp: Stamp,
    compression: Compression | None = None,
    is_final: Callable[[GatewayError], bool] = lambda _error: False,
) -> int:
    """Add the ``record_count`` records of ``body`` to a transaction, and return the topic's partition count, or 0.

    Raises as ``Transport.call``, and ``UnexpectedAnswer`` when another number of records was staged.
    """
    sent, headers = compress(body, compression)
    request = Request(
        method="POST",
        target=target("topics", topic, "records"),
        body=sent,
        content_type=content_type,
        headers={**headers, **stamp.headers, "Tidelog-Transaction": transaction_id},
        repeatable=True,
        routing_key=RoutingKey(topic),
        is_final=is_final,
    )

    def partition_count(reply: Reply) -> int:
        staged = reply.decode(_Staged).staged
        if staged != record_count:
            raise reply.unexpected(f"the gateway staged {staged} records, but {record_count} were sent")
        return _partition_count(reply)

    return transport.ask(request, deadline, partition_count)


def _stored(reply: Reply) -> Stored:
    produced = reply.decode(_Produced)
    for each in produced.partitions:
        if each.count < 1 or each.last_offset - each.base_offset + 1 != each.count or each.base_offset < 0:
            raise reply.unexpected(f"{each} is not a range of offsets")
    result = ProduceResult(produced.topic, produced.partitions, produced.scheduled, produced.dead_letters)
    return Stored(result, produced.duplicate, _partition_count(reply))


def _partition_count(reply: Reply) -> int:
    text = reply.headers.get(_PARTITION_COUNT, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
