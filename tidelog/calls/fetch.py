"""Fetch requests: one partition as Arrow, or many as JSON with one common wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tidelog.bodies.chunk import Chunk
from tidelog.bodies.encode import ARROW, JSON
from tidelog.bodies.json_record import JsonRecord
from tidelog.deadline import Deadline
from tidelog.errors import GatewayError
from tidelog.http.owners import RoutingKey
from tidelog.http.problem import error_from_problem
from tidelog.http.transport import Reply, Request, Transport, target
from tidelog.limits import fetched_bytes_max
from tidelog.types.filter import Filter
from tidelog.types.record import TopicPartition


class Fetched(msgspec.Struct, frozen=True):
    """Answer for a partition: perhaps a chunk, and the end of its log."""

    place: TopicPartition
    chunk: Chunk | None
    next_offset: int
    high_watermark: int
    topic_id: str | None = None
    """Id of the records' topic; None from gateways that do not report it yet."""


class FetchFailed(msgspec.Struct, frozen=True):
    """Error of a single partition."""

    place: TopicPartition
    error: GatewayError


class FetchLimits(msgspec.Struct, frozen=True):
    """Parameters ``max_records``, ``max_bytes``, ``max_wait_ms`` and filter of the API."""

    records_max: int
    bytes_max: int
    wait_ms: int
    filter: Filter | None = None


class _JsonPartition(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    records: tuple[JsonRecord, ...] = ()
    next_offset: int = 0
    high_watermark: int = 0
    topic_id: str | None = None
    error: dict[str, Any] | None = None


class _JsonAnswer(msgspec.Struct, frozen=True):
    partitions: tuple[_JsonPartition, ...]


def fetch_arrow(
    transport: Transport,
    place: TopicPartition,
    offset: int,
    limits: FetchLimits,
    deadline: Deadline,
    *,
    routing_key: RoutingKey,
) -> Fetched:
    """Fetch records of one partition from ``offset`` on. Raises ``OffsetOutOfRange`` and what ``Transport.call`` raises."""
    import pyarrow as pa  # noqa: PLC0415 - the SDK works without it

    where = target(
        "topics", place.topic, "partitions", place.partition, "records",
        offset=offset, max_records=limits.records_max, max_bytes=limits.bytes_max, max_wait_ms=limits.wait_ms,
        **({} if limits.filter is None else limits.filter.query()),
    )  # fmt: skip
    request = Request(
        method="GET",
        target=where,
        headers={"Accept": ARROW},
        repeatable=True,
        reads=True,
        routing_key=routing_key,
        answer_bytes_max=fetched_bytes_max(limits.bytes_max, limits.records_max, as_json=False),
        wait_ms=limits.wait_ms,
    )
    reply = transport.call(request, deadline, patient=True)
    try:
        with pa.ipc.open_stream(reply.body) as reader:
            table = reader.read_all()
        next_offset = int(reply.headers["tidelog-next-offset"])
        high_watermark = int(reply.headers["tidelog-high-watermark"])
        first = table.column("offset")[0].as_py() if table.num_rows else next_offset
        last = table.column("offset")[-1].as_py() if table.num_rows else next_offset - 1
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise reply.unexpected(f"{type(error).__name__}: {error}") from error
    _check_range(reply, offset, first, last, next_offset)
    if next_offset == offset < high_watermark:
        raise reply.unexpected(f"there are records up to {high_watermark}, but the answer has none from {offset} on")
    chunk = Chunk(place, [], table, next_offset) if table.num_rows else None
    return Fetched(place, chunk, next_offset, high_watermark, reply.headers.get("tidelog-topic-id"))


def fetch_many(
    transport: Transport,
    positions: Sequence[tuple[TopicPartition, int]],
    limits: FetchLimits,
    deadline: Deadline,
    *,
    routing_key: RoutingKey,
) -> list[Fetched | FetchFailed]:
    """Fetch records of many partitions, waiting until any has one. Raises what ``Transport.call`` raises."""
    wanted = {} if limits.filter is None else {"filter": limits.filter.member()}
    body = {
        "partitions": [
            {"topic": place.topic, "partition": place.partition, "offset": offset, **wanted}
            for place, offset in positions
        ],
        "max_records": limits.records_max,
        "max_bytes": limits.bytes_max,
        "max_wait_ms": limits.wait_ms,
    }
    request = Request(
        method="POST",
        target=target("fetch"),
        body=msgspec.json.encode(body),
        content_type=JSON,
        repeatable=True,
        reads=True,
        routing_key=routing_key,
        answer_bytes_max=fetched_bytes_max(limits.bytes_max, limits.records_max, as_json=True),
        wait_ms=limits.wait_ms,
    )
    reply = transport.call(request, deadline, patient=True)
    found: list[Fetched | FetchFailed] = []
    answers = reply.decode(_JsonAnswer).partitions
    if [(answer.topic, answer.partition) for answer in answers] != [(p.topic, p.partition) for p, _ in positions]:
        raise reply.unexpected("the answer is about other partitions than were requested")
    for answer, (place, offset) in zip(answers, positions, strict=True):
        if answer.error is not None:
            found.append(FetchFailed(place, error_from_problem(answer.error)))
            continue
        try:
            records = [record.record(place) for record in answer.records]
        except ValueError as error:
            raise reply.unexpected(str(error)) from error
        first = records[0].offset if records else answer.next_offset
        last = records[-1].offset if records else answer.next_offset - 1
        _check_range(reply, offset, first, last, answer.next_offset)
        chunk = Chunk(place, records, None, answer.next_offset) if records else None
        found.append(Fetched(place, chunk, answer.next_offset, answer.high_watermark, answer.topic_id))
    return found


def _check_range(reply: Reply, offset: int, first: int, last: int, next_offset: int) -> None:
    if not offset <= first <= last + 1 <= next_offset:
        raise reply.unexpected(
            f"offset {offset} was requested, but the answer has [{first}, {last}] and continues at {next_offset}"
        )
