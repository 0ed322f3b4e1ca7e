"""One produce request."""

from __future__ import annotations

from tidelog.deadline import Deadline
from tidelog.encode import Compression, compress
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
) -> ProduceResult:
    """Append what ``body`` holds, and say where it went; ``partition`` wins over what the records name.

    Raises ``OutcomeUnknown`` when the answer is lost: the request has nothing by which the gateway could recognise a
    second try. Everything else as ``Transport.call``.
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
        headers=headers,
        repeatable=False,
    )
    reply = transport.call(request, deadline)
    result = reply.decode(ProduceResult)
    for stored in result.partitions:
        if stored.count < 1 or stored.last_offset - stored.base_offset + 1 != stored.count or stored.base_offset < 0:
            raise reply.unexpected(f"{stored} is no range of offsets")
    return result
