"""Fetch records of a partition, of several, or of one that is followed: parse, read, encode, answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.types import ASGIApp

from gateway.codec.media_type import EVENT_STREAM, JSON, negotiate
from gateway.engine.fetch_answer import FetchAnswer, FetchFrom, FetchLimits
from gateway.gateway import answer_memory, engine_of, gateway_of
from gateway.http import fields
from gateway.http.disconnect import unless_disconnected
from gateway.http.parameters import accepted
from gateway.log_engine import LogEngine
from gateway.openapi.problems import BODY_ERRORS, problems
from gateway.problem import refused, request_id
from gateway.routes.fetch_operation import (
    FETCHED,
    FetchBody,
    FetchedPartition,
    FetchedPartitions,
    FetchHeaders,
    FetchQuery,
)
from gateway.routes.fetched_records import events_response, many_response, one_response
from gateway.routes.typed_route import TypedRoute
from log_format.errors import ErrorCode

router = APIRouter(route_class=TypedRoute, tags=["fetch"])


@router.get(
    "/v1/topics/{topic}/partitions/{partition}/records",
    response_model=FetchedPartition,
    responses=FETCHED,
)
async def fetch(
    request: Request,
    topic: fields.TopicPath,
    partition: fields.PartitionPath,
    query: Annotated[FetchQuery, Query()],
    headers: Annotated[FetchHeaders, Header()],
) -> ASGIApp:
    """Read a partition, waiting for records if there are none, or follow it as an event stream."""
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
    responses=problems(ErrorCode.NOT_ACCEPTABLE, *BODY_ERRORS),
)
async def fetch_many(request: Request, body: FetchBody) -> ASGIApp:
    """Read several partitions at once. Limits are totals; a partition that fails ends the wait."""
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
