"""One produce request."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.deadline import Deadline
from tidelog.encode import Compression, compress
from tidelog.errors import GatewayError
from tidelog.record import ProduceResult
from tidelog.transport import Request, Transport, target


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
) -> ProduceResult:
    """Append what ``body`` holds, and say where it went; ``partition`` wins over what the records name.

    ``producer``: the headers by which the gateway knows the request again: then it is repeated until the deadline, unless the
    error ``is_final``. Without them a lost answer raises ``OutcomeUnknown``. Everything else as ``Transport.call``.
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
        topic=topic,
        is_final=is_final,
    )
    reply = transport.call(request, deadline)
    result = reply.decode(ProduceResult)
    for stored in result.partitions:
        if stored.count < 1 or stored.last_offset - stored.base_offset + 1 != stored.count or stored.base_offset < 0:
            raise reply.unexpected(f"{stored} is no range of offsets")
    return result
