"""One produce request, or one that stages records for a transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tidelog.bodies.encode import Compression, compress
from tidelog.deadline import Deadline
from tidelog.errors import GatewayError
from tidelog.http.owners import Owned
from tidelog.http.transport import Reply, Request, Transport, target
from tidelog.types.record import ProduceResult

_PARTITION_COUNT: Final = "tidelog-partition-count"


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
    producer: Mapping[str, str] | None = None,
    is_final: Callable[[GatewayError], bool] = lambda _error: False,
    learn: Callable[[str, int], None] = lambda _topic, _partition_count: None,
) -> ProduceResult:
    """Append what ``body`` holds, and say where it went; ``partition`` wins over what the records name.

    ``producer``: the headers by which the gateway knows the request again: then it is repeated until the deadline, unless the
    error ``is_final``. Without them a lost answer raises ``OutcomeUnknown``. ``learn`` is told the topic and how many partitions
    it has. Everything else as ``Transport.call``.
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
        headers={**headers, **(producer or {})},
        repeatable=producer is not None,
        about=Owned(topic),
        is_final=is_final,
    )
    reply = transport.call(request, deadline)
    result = reply.decode(ProduceResult)
    learn(topic, _partition_count(reply))
    for stored in result.partitions:
        if stored.count < 1 or stored.last_offset - stored.base_offset + 1 != stored.count or stored.base_offset < 0:
            raise reply.unexpected(f"{stored} is no range of offsets")
    return result


def stage(
    transport: Transport,
    topic: str,
    body: bytes,
    content_type: str,
    *,
    deadline: Deadline,
    compression: Compression | None,
    transaction_id: str,
    producer: Mapping[str, str],
    is_final: Callable[[GatewayError], bool],
    learn: Callable[[str, int], None],
) -> int:
    """Add what ``body`` holds to a transaction, once however often it is repeated; how many records it was.

    Raises what ``Transport.call`` raises; ``UnexpectedAnswer`` when what answered does not know transactions.
    """
    sent, headers = compress(body, compression)
    request = Request(
        method="POST",
        target=target("topics", topic, "records"),
        body=sent,
        content_type=content_type,
        headers={**headers, **producer, "Tidelog-Transaction": transaction_id},
        repeatable=True,
        about=Owned(topic),
        is_final=is_final,
    )
    reply = transport.call(request, deadline)
    staged = reply.decode(_Staged).staged
    learn(topic, _partition_count(reply))
    return staged


def _partition_count(reply: Reply) -> int:
    """How many partitions the topic has; 0: nothing is said of it."""
    text = reply.headers.get(_PARTITION_COUNT, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
