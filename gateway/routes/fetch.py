"""Fetch records of a partition, of several, or of one that is followed: parse, read, encode, answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fastapi import APIRouter
from starlette.requests import Request
from starlette.types import ASGIApp

from gateway.codec.media_type import EVENT_STREAM, JSON, negotiate
from gateway.engine.fetch_answer import FetchAnswer, FetchFrom, FetchLimits
from gateway.gateway import answer_memory, engine_of, gateway_of
from gateway.http.direct_route import DirectRoute
from gateway.http.disconnect import unless_disconnected
from gateway.http.json_request import checked
from gateway.http.parameters import (
    INT64_MAX,
    NO_PARAMETERS,
    accepted,
    parse_integer,
    path_partition,
    path_topic,
)
from gateway.log_engine import LogEngine
from gateway.problem import refused, request_id
from gateway.routes.fetch_body import FetchBody
from gateway.routes.fetch_operation import FETCH, FETCH_MANY, QUERY
from gateway.routes.fetched_records import events_response, many_response, one_response
from gateway.routes.json_body import json_body

router = APIRouter(route_class=DirectRoute)


@router.get("/v1/topics/{topic}/partitions/{partition}/records", **FETCH)
async def fetch(request: Request) -> ASGIApp:
    """Records from an offset or a time on."""
    gateway, engine = gateway_of(request), engine_of(request)
    arrival_ms = engine.clock.monotonic_ms()
    query = QUERY.parse(request)
    kind = negotiate(accepted(request))
    wanted = _wanted(request, query, kind)
    if kind == EVENT_STREAM:
        start = await engine.locating.start_of(wanted, arrival_ms)
        return events_response(request, engine.following, start, answer_memory(request))
    found = await _fetched(request, engine, [wanted], _limits(query), arrival_ms)
    return one_response(gateway, kind, found)


@router.post("/v1/fetch", **FETCH_MANY)
async def fetch_many(request: Request) -> ASGIApp:
    """One answer for all of them; one that fails makes it answer at once."""
    gateway, engine = gateway_of(request), engine_of(request)
    NO_PARAMETERS.parse(request)
    negotiate(accepted(request), (JSON,))
    wanted, limits = await json_body(request, _many_wanted)
    found = await _fetched(request, engine, wanted, limits, engine.clock.monotonic_ms())
    keys = [(one.topic, one.partition) for one in wanted]
    return many_response(gateway, b"{", keys, found, request_id(request))


async def _fetched(
    request: Request, engine: LogEngine, wanted: Sequence[FetchFrom], limits: FetchLimits, arrival_ms: int
) -> FetchAnswer:
    """What is there, or comes while the client waits. Raises ``ClientDisconnect``, and as ``Fetching.fetch``."""
    work = engine.fetching.fetch(wanted, limits, answer_memory(request), arrival_ms)
    return await (work if limits.wait_ms_max == 0 else unless_disconnected(request, work))


def _wanted(request: Request, query: dict[str, Any], kind: str) -> FetchFrom:
    """The partition, and where to begin. Raises ``RequestRefused``."""
    topic, partition = path_topic(request), path_partition(request)
    last_event_id = request.headers.get("last-event-id") if kind == EVENT_STREAM else None
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


def _limits(values: dict[str, Any]) -> FetchLimits:
    return FetchLimits(
        records_max=values["max_records"],
        bytes_max=values["max_bytes"],
        bytes_min=values["min_bytes"],
        wait_ms_max=values["max_wait_ms"],
    )


def _many_wanted(data: bytes) -> tuple[list[FetchFrom], FetchLimits]:
    """The partitions and limits of a body. Raises ``RequestRefused``."""
    body = checked(FetchBody, data)
    return body.wanted(), body.limits()
