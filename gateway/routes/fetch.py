"""Fetch: records of a partition, of several, or of one that is followed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any, Final, Literal

import pyarrow as pa
from fastapi import APIRouter
from starlette.requests import Request
from starlette.types import ASGIApp

from gateway.codec.arrow_answer import arrow_pieces
from gateway.codec.event_stream import PING, end_event, record_events
from gateway.codec.json_answer import Positions, failed_partition, json_pieces, ndjson_pieces
from gateway.codec.media_type import ARROW_STREAM, EVENT_STREAM, JSON, NDJSON, negotiate
from gateway.engine.answer_memory import AROUND_BYTES
from gateway.engine.bounds import EVENTS_BYTES_MAX
from gateway.engine.fetching import FetchAnswer, Fetched, FetchFrom, FetchLimits
from gateway.engine.following import Ended, Silence
from gateway.engine.open_topic import OpenTopic
from gateway.engine.reading import Records
from gateway.gateway import Gateway, answer_memory, engine_of, gateway_of
from gateway.http.direct_route import DirectRoute
from gateway.http.disconnect import unless_disconnected
from gateway.http.fetch_response import PIECE_TEXT_BYTES, EventStreamResponse, RecordsResponse
from gateway.http.json_request import checked
from gateway.http.parameters import (
    INT64_MAX,
    NO_PARAMETERS,
    QueryParameters,
    accepted,
    integer,
    integer_or_word,
    parse_integer,
    path_partition,
    path_topic,
)
from gateway.log_engine import LogEngine
from gateway.memory_budget import Memory
from gateway.openapi.document import answer, integer_header, media, operation
from gateway.openapi.document import request_body as body_of
from gateway.openapi.schemas import OFFSET, PARTITION, RECORD_EXAMPLE, TOPIC_NAME, list_of, object_of, ref
from gateway.problem import problem_bytes, refused, request_id
from gateway.routes.fetch_body import LIMITS, RECORDS_MAX, FetchBody
from gateway.routes.json_body import json_body
from log_format.errors import ErrorCode, TidelogError
from log_format.records.schema import RECORD_SCHEMA, TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN

router = APIRouter(route_class=DirectRoute)

_RECORD_TEXT_BYTES: Final = 96
"""About what JSON adds to a record's own bytes."""
_PART_TEXT_BYTES: Final = 512
"""And about what it has for each partition, or the time that takes: more of them are encoded in a thread."""

# What an answer covers when it is sent in pieces was reserved before it was read.
assert RECORDS_MAX * _RECORD_TEXT_BYTES + PIECE_TEXT_BYTES <= AROUND_BYTES

_NO_RECORDS: Final = RECORD_SCHEMA.empty_table()
_START_WORDS: Final = ("earliest", "latest")
_QUERY: Final = QueryParameters(
    integer_or_word("offset", "Where to begin; exactly one of this and `timestamp`", words=_START_WORDS),
    integer(
        "timestamp",
        "Begin with the first record, in offset order, of this time or later",
        minimum=TIMESTAMP_MS_MIN,
        maximum=TIMESTAMP_MS_MAX,
    ),
    *LIMITS,
)
_EXAMPLE: Final = {
    "topic": "flights",
    "partition": 3,
    "records": [RECORD_EXAMPLE],
    "next_offset": 42,
    "high_watermark": 42,
    "log_start_offset": 0,
}
_POSITION_HEADERS: Final = {
    "Tidelog-Next-Offset": integer_header("Where to go on"),
    "Tidelog-High-Watermark": integer_header("The offset that the next record gets"),
    "Tidelog-Log-Start-Offset": integer_header("The first offset that can be read"),
}
_LAST_EVENT_ID: Final = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "Event streams: where to go on; wins over `offset`",
    "schema": OFFSET,
}
_ERRORS: Final = (
    ErrorCode.UNKNOWN_TOPIC,
    ErrorCode.UNKNOWN_PARTITION,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.NOT_ACCEPTABLE,
    ErrorCode.CORRUPT_SEGMENT,
    ErrorCode.UNSUPPORTED_TABLE,
)
_START: Final = {"anyOf": [OFFSET, {"type": "string", "enum": list(_START_WORDS)}]}
_WANTED: Final = object_of(
    {
        "partitions": list_of(object_of({"topic": TOPIC_NAME, "partition": PARTITION, "offset": _START}, closed=True)),
        **{parameter.name: dict(parameter.schema) for parameter in LIMITS},
    },
    required=("partitions",),
    closed=True,
)
_FAILED: Final = object_of({"topic": TOPIC_NAME, "partition": PARTITION, "error": ref("Problem")})
_MANY: Final = object_of({"partitions": list_of({"anyOf": [ref("Fetched"), _FAILED]})})


@router.get(
    "/v1/topics/{topic}/partitions/{partition}/records",
    **operation(
        summary="Read a partition, waiting for records if there are none; or follow it",
        tag="fetch",
        path=("topic", "partition"),
        query=_QUERY,
        headers=(_LAST_EVENT_ID,),
        answers={
            200: answer(
                "Records, and where to go on",
                {
                    JSON: media(ref("Fetched"), example=_EXAMPLE),
                    NDJSON: media({"type": "string", "description": "A record a line"}),
                    ARROW_STREAM: media({"type": "string", "contentMediaType": ARROW_STREAM}),
                    EVENT_STREAM: media({"type": "string", "description": "Events `record` and `end`"}),
                },
                headers=_POSITION_HEADERS,
            )
        },
        errors=_ERRORS,
    ),
)
async def fetch(request: Request) -> ASGIApp:
    """Records from an offset or a time on."""
    engine = engine_of(request)
    arrival_ms = engine.clock.monotonic_ms()
    query = _QUERY.parse(request)
    kind = negotiate(accepted(request))
    topic, partition = path_topic(request), path_partition(request)
    last_event_id = request.headers.get("last-event-id") if kind == EVENT_STREAM else None
    start = _start(topic, partition, query, last_event_id)
    if kind == EVENT_STREAM:
        opened, state, offset = await engine.fetching.start_of(start, arrival_ms)
        positions = Positions(
            next_offset=offset,
            high_watermark=state.high_watermark(partition),
            log_start_offset=state.log_start(partition),
        )
        events = _events(answer_memory(request), engine, opened, partition, offset)
        return EventStreamResponse(request, events, headers=_headers(positions))
    found = await _fetched(request, engine, [start], _fetch_limits(query), arrival_ms)
    part = found.parts[0]
    if isinstance(part, TidelogError):
        found.reservation.release()
        raise part
    return _response(gateway_of(request), kind, part, found)


@router.post(
    "/v1/fetch",
    **operation(
        summary="Read several partitions at once; limits are totals",
        tag="fetch",
        body=body_of(
            _WANTED,
            example={"partitions": [{"topic": "flights", "partition": 3, "offset": "earliest"}], "max_wait_ms": 1000},
        ),
        answers={200: answer("What each gave, in the order of the request", _MANY, example={"partitions": [_EXAMPLE]})},
        errors=(ErrorCode.NOT_ACCEPTABLE, ErrorCode.REQUEST_TOO_LARGE, ErrorCode.UNSUPPORTED_MEDIA_TYPE),
    ),
)
async def fetch_many(request: Request) -> ASGIApp:
    """One answer for all of them; one that fails makes it answer at once."""
    gateway, engine = gateway_of(request), engine_of(request)
    NO_PARAMETERS.parse(request)
    negotiate(accepted(request), (JSON,))
    wanted, limits = await json_body(request, _wanted)
    found = await _fetched(request, engine, wanted, limits, engine.clock.monotonic_ms())
    identity = request_id(request)

    return many_response(gateway, b"{", [(one.topic, one.partition) for one in wanted], found, identity)


def many_response(
    gateway: Gateway, opening: bytes, keys: Sequence[tuple[str, int]], found: FetchAnswer, identity: str | None
) -> RecordsResponse:
    """The answer with several partitions, in the order of ``keys``; ``opening``: the object's first members, brace included."""

    def pieces() -> Iterator[bytes]:
        yield opening + b'"partitions":['
        separator = b""
        for (topic, partition), part in zip(keys, found.parts, strict=True):
            yield separator
            separator = b","
            if isinstance(part, TidelogError):
                yield failed_partition(topic, partition, problem_bytes(part, identity))
            else:
                yield from json_pieces(part.topic, part.partition, _table(part.records), _positions(part))
        yield b"]}"

    size = found.size_bytes + _RECORD_TEXT_BYTES * found.record_count + _PART_TEXT_BYTES * len(found.parts)
    return RecordsResponse(
        pieces, size_bytes=size, media_type=JSON, headers={}, reservation=found.reservation, pool=gateway.codec_pool
    )


async def _fetched(
    request: Request, engine: LogEngine, wanted: Sequence[FetchFrom], limits: FetchLimits, arrival_ms: int
) -> FetchAnswer:
    work = engine.fetching.fetch(wanted, limits, answer_memory(request), arrival_ms)
    if limits.wait_ms_max == 0:
        return await work
    return await unless_disconnected(request, work)


def _response(gateway: Gateway, kind: str, part: Fetched, found: FetchAnswer) -> RecordsResponse:
    positions = _positions(part)
    table = _table(part.records)
    makers: dict[str, Callable[[], Iterator[bytes]]] = {
        JSON: lambda: json_pieces(part.topic, part.partition, table, positions),
        NDJSON: lambda: ndjson_pieces(table),
        ARROW_STREAM: lambda: arrow_pieces(table),
    }
    return RecordsResponse(
        makers[kind],
        size_bytes=found.size_bytes + _RECORD_TEXT_BYTES * found.record_count,
        media_type=kind,
        headers=_headers(positions),
        reservation=found.reservation,
        pool=gateway.codec_pool,
    )


async def _events(
    memory: Memory, engine: LogEngine, topic: OpenTopic, partition: int, offset: int
) -> AsyncGenerator[bytes, None]:
    with engine.following.follow(topic, partition, offset, memory) as stream:
        while True:
            event = await stream.next()
            if isinstance(event, Silence):
                yield PING
            elif isinstance(event, Ended):
                yield end_event(event.reason if event.error is None else str(event.error.code), stream.offset)
                return
            else:
                reservation = event.reservation
                try:
                    if event.records.size_bytes <= EVENTS_BYTES_MAX:
                        data = b"".join(record_events(_table(event.records)))
                        # A slow reader holds the text of the events, not the row groups that they came from.
                        del event
                        reservation.cover(len(data))
                        reservation.shrink_to(len(data))
                        yield data
                    else:
                        for piece in record_events(_table(event.records)):
                            yield piece
                finally:
                    reservation.release()


def _start(topic: str, partition: int, query: dict[str, Any], last_event_id: str | None) -> FetchFrom:
    offset: int | Literal["earliest", "latest"] | None = query["offset"]
    timestamp_ms: int | None = query["timestamp"]
    if last_event_id is not None:
        try:
            return FetchFrom(topic=topic, partition=partition, offset=parse_integer(last_event_id, 0, INT64_MAX))
        except ValueError as error:
            raise refused(f"Last-Event-ID {error}.", [("Last-Event-ID", str(error))]) from None
    if (offset is None) == (timestamp_ms is None):
        what = "exactly one of offset and timestamp must be given"
        raise refused(f"{what.capitalize()}.", [("offset", what)])
    return FetchFrom(topic=topic, partition=partition, offset=offset, timestamp_ms=timestamp_ms)


def _fetch_limits(values: dict[str, Any]) -> FetchLimits:
    return FetchLimits(
        records_max=values["max_records"],
        bytes_max=values["max_bytes"],
        bytes_min=values["min_bytes"],
        wait_ms_max=values["max_wait_ms"],
    )


def _wanted(data: bytes) -> tuple[list[FetchFrom], FetchLimits]:
    """The partitions and limits of a body. Raises ``RequestRefused``."""
    body = checked(FetchBody, data)
    return body.wanted(), body.limits()


def _positions(part: Fetched) -> Positions:
    return Positions(
        next_offset=part.records.next_offset,
        high_watermark=part.high_watermark,
        log_start_offset=part.log_start_offset,
    )


def _headers(positions: Positions) -> dict[str, int]:
    return {
        "tidelog-next-offset": positions.next_offset,
        "tidelog-high-watermark": positions.high_watermark,
        "tidelog-log-start-offset": positions.log_start_offset,
    }


def _table(records: Records) -> pa.Table:
    return pa.concat_tables(records.tables) if records.tables else _NO_RECORDS
