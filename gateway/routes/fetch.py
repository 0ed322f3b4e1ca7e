"""Fetch records of a partition, of several, or of one that is followed: parse, read, encode, answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.types import ASGIApp

from gateway.codec.media_type import ARROW_STREAM, EVENT_STREAM, JSON, NDJSON, negotiate
from gateway.engine.fetch_answer import FetchAnswer, FetchFrom, FetchLimits
from gateway.gateway import answer_memory, engine_of, gateway_of
from gateway.http import fields
from gateway.http.disconnect import unless_disconnected
from gateway.http.parameters import accepted
from gateway.log_engine import LogEngine
from gateway.openapi.problems import BODY_ERRORS, problems
from gateway.openapi.schemas import binary, integer_headers, text
from gateway.problem import refused, request_id
from gateway.routes.fetch_body import FetchBody, FetchHeaders, FetchQuery
from gateway.routes.fetched_records import (
    FETCHED_EXAMPLE,
    FetchedPartition,
    FetchedPartitions,
    events_response,
    many_response,
    one_response,
)
from gateway.routes.typed_route import TypedRoute
from log_format.errors import ErrorCode

router = APIRouter(route_class=TypedRoute, tags=["fetch"])

_ERRORS: Final = (
    ErrorCode.UNKNOWN_TOPIC,
    ErrorCode.UNKNOWN_PARTITION,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.NOT_ACCEPTABLE,
    ErrorCode.CORRUPT_SEGMENT,
    ErrorCode.UNSUPPORTED_TABLE,
)
_ANSWER: Final = {
    "content": {
        JSON: {"example": FETCHED_EXAMPLE},
        NDJSON: text("A record a line"),
        ARROW_STREAM: binary("The table's columns"),
        EVENT_STREAM: text("Events `record` and `end`"),
    },
    "headers": integer_headers(
        Tidelog_Next_Offset="Where to go on",
        Tidelog_High_Watermark="The offset that the next record gets",
        Tidelog_Log_Start_Offset="The first offset that can be read",
    ),
}


@router.get(
    "/v1/topics/{topic}/partitions/{partition}/records",
    response_model=FetchedPartition,
    responses=problems(*_ERRORS) | {200: _ANSWER},
)
async def fetch(
    request: Request,
    topic: fields.TopicPath,
    partition: fields.PartitionPath,
    query: Annotated[FetchQuery, Query()],
    headers: Annotated[FetchHeaders, Header()],
) -> ASGIApp:
    """Read a partition, waiting for records if there are none; or follow it."""
    gateway, engine = gateway_of(request), engine_of(request)
    arrival_ms = engine.clock.monotonic_ms()
    kind = negotiate(accepted(request))
    offset, timestamp_ms = query.offset, query.timestamp
    if kind == EVENT_STREAM and headers.last_event_id is not None:
        offset, timestamp_ms = headers.last_event_id, None
    if (offset is None) == (timestamp_ms is None):
        what = "exactly one of offset and timestamp must be given"
        raise refused(f"{what.capitalize()}.", [("offset", what)])
    wanted = FetchFrom(topic=topic, partition=partition, offset=offset, timestamp_ms=timestamp_ms)
    if kind == EVENT_STREAM:
        start = await engine.locating.start_of(wanted, arrival_ms)
        return events_response(request, engine.following, start, answer_memory(request))
    found = await _fetched(request, engine, [wanted], query.limits(), arrival_ms)
    return one_response(gateway, kind, found)


@router.post(
    "/v1/fetch",
    response_model=FetchedPartitions,
    responses=problems(ErrorCode.NOT_ACCEPTABLE, *BODY_ERRORS)
    | {200: {"content": {JSON: {"example": {"partitions": [FETCHED_EXAMPLE]}}}}},
)
async def fetch_many(request: Request, body: FetchBody) -> ASGIApp:
    """Read several partitions at once; limits are totals, and one that fails makes it answer at once."""
    gateway, engine = gateway_of(request), engine_of(request)
    negotiate(accepted(request), (JSON,))
    found = await _fetched(request, engine, body.wanted, body.limits(), engine.clock.monotonic_ms())
    keys = [(one.topic, one.partition) for one in body.wanted]
    return many_response(gateway, b"{", keys, found, request_id(request))


async def _fetched(
    request: Request, engine: LogEngine, wanted: Sequence[FetchFrom], limits: FetchLimits, arrival_ms: int
) -> FetchAnswer:
    """What is there, or comes while the client waits. Raises ``ClientDisconnect``, and as ``Fetching.fetch``."""
    work = engine.fetching.fetch(wanted, limits, answer_memory(request), arrival_ms)
    return await (work if limits.wait_ms_max == 0 else unless_disconnected(request, work))
