"""Fetch of records: of one partition, of several, or of one as an event stream: parse, read, encode, answer."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.types import ASGIApp

from gateway.access.admission_check import AdmissionCheck
from gateway.access.needs import Need, needs
from gateway.codec.media_type import EVENT_STREAM, JSON, negotiate
from gateway.engine.fetch_answer import FetchAnswer, FetchFrom, FetchLimits
from gateway.gateway import answer_memory, engine_of, gateway_of, standing_of
from gateway.http import fields
from gateway.http.disconnect import cancel_on_disconnect
from gateway.http.parameters import accept_header
from gateway.log_engine import LogEngine
from gateway.openapi.problems import BODY_ERRORS, problems
from gateway.problem import refused, request_id
from gateway.quotas.limits import FETCH_BYTES
from gateway.quotas.spending import spending_of, spends
from gateway.routes import quota_charges
from gateway.routes.administration import note_denials
from gateway.routes.fetch_operation import (
    FETCHED,
    EventId,
    FetchBody,
    FetchedPartition,
    FetchedPartitions,
    FetchHeaders,
    FetchQuery,
)
from gateway.routes.fetched_records import event_stream_response, partition_response, partitions_response
from gateway.routes.history_records import history_response, may_be_history
from gateway.routes.typed_route import TypedRoute
from log_format.errors import ErrorCode

router = APIRouter(route_class=TypedRoute, tags=["fetch"])


@router.get(
    "/v1/topics/{topic}/partitions/{partition}/records",
    response_model=FetchedPartition,
    responses=FETCHED,
)
@needs(Need("Read", "topic", path="topic"))
@spends(FETCH_BYTES)
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
    kind = negotiate(accept_header(request))
    wanted = _start_position(topic, partition, query, headers.goes_on if kind == EVENT_STREAM else None)
    if kind == EVENT_STREAM:
        return await _follow(request, wanted, arrival_ms)
    limits = query.limits()
    is_at_end = engine.start_resolver.topics_at_known_ends([wanted]) is not None
    if gateway.lane is not None and not is_at_end and may_be_history(request, wanted, limits, kind):
        start = await engine.start_resolver.resolve_one(wanted, arrival_ms)
        if (response := await history_response(request, gateway.lane, start, limits, kind)) is not None:
            return response
        work = engine.fetcher.fetch_from([start], limits, answer_memory(request))
    else:
        work = engine.fetcher.fetch([wanted], limits, answer_memory(request), arrival_ms)
    found = await _wait(request, limits, work)
    await _recheck_rights(standing_of(request), [topic], found)
    quota_charges.charge_fetched(request, found)
    return partition_response(gateway, kind, found)


def _start_position(topic: str, partition: int, query: FetchQuery, last: EventId | None) -> FetchFrom:
    """Return where to read: where a stream's client continues, else at the offset or time. Raise ``RequestRefused``."""
    offset, timestamp_ms = (query.offset, query.timestamp) if last is None else (last.offset, None)
    if (offset is None) == (timestamp_ms is None):
        what = "exactly one of offset and timestamp must be given"
        raise refused(f"{what.capitalize()}.", [("offset", what)])
    return FetchFrom(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp_ms,
        filter=query.record_filter,
        topic_id=query.topic_id if last is None or last.topic_id is None else last.topic_id,
    )


async def _follow(request: Request, wanted: FetchFrom, arrival_ms: int) -> ASGIApp:
    engine, spending = engine_of(request), spending_of(request.scope)
    start = await engine.start_resolver.resolve_one(wanted, arrival_ms)
    if spending is not None:
        spending.begin_stream()
    return event_stream_response(
        request, engine.streams, start, answer_memory(request), spending, asked_id=wanted.topic_id
    )


@router.post(
    "/v1/fetch",
    response_model=FetchedPartitions,
    responses=problems(ErrorCode.NOT_ACCEPTABLE, *BODY_ERRORS),
)
@needs(Need("Read", "topic"))
@spends(FETCH_BYTES)
async def fetch_many(request: Request, body: FetchBody) -> ASGIApp:
    """Read several partitions in one request. Limits are totals; a partition that fails ends the wait."""
    gateway, engine = gateway_of(request), engine_of(request)
    negotiate(accept_header(request), (JSON,))
    found = await _fetch_readable(request, engine, body.wanted, body.limits(), engine.clock.monotonic_ms())
    quota_charges.charge_fetched(request, found)
    keys = [(one.topic, one.partition) for one in body.wanted]
    return partitions_response(gateway, b"{", keys, found, request_id(request))


async def _fetch_readable(
    request: Request, engine: LogEngine, wanted: Sequence[FetchFrom], limits: FetchLimits, arrival_ms: int
) -> FetchAnswer:
    """Return ``_fetch``'s answer, with an error for each partition that the caller may not read; if there are any, do not
    wait."""
    standing = standing_of(request)
    unreadable = await standing.unreadable(one.topic for one in wanted)
    if not unreadable:
        found = await _fetch(request, engine, wanted, limits, arrival_ms)
        if await _recheck_rights(standing, [one.topic for one in wanted], found):
            note_denials(request, found.parts)
        return found
    left = [one for one in wanted if one.topic not in unreadable]
    if left:
        found = await _fetch(request, engine, left, replace(limits, wait_ms_max=0), arrival_ms)
    else:
        found = FetchAnswer([], answer_memory(request).reserve(0))
    parts = iter(found.parts)
    found.parts = [unreadable.get(one.topic) or next(parts) for one in wanted]
    note_denials(request, found.parts)
    return found


async def _recheck_rights(standing: AdmissionCheck, topics: Sequence[str], found: FetchAnswer) -> bool:
    """Replace parts by an error where the caller lost the right to the topic while it waited, and return whether there are
    any. ``topics``: the topic of each part. Raise ``BackOff``."""
    try:
        unreadable = await standing.unreadable(topics)
    except BaseException:  # even if the client disconnected meanwhile
        found.reservation.release()
        raise
    if unreadable:
        found.parts = [unreadable.get(topic) or part for topic, part in zip(topics, found.parts, strict=True)]
    return bool(unreadable)


async def _fetch(
    request: Request, engine: LogEngine, wanted: Sequence[FetchFrom], limits: FetchLimits, arrival_ms: int
) -> FetchAnswer:
    """Return records that exist or arrive while the client waits. Raise ``ClientDisconnect``, and as ``Fetching.fetch`` does."""
    return await _wait(request, limits, engine.fetcher.fetch(wanted, limits, answer_memory(request), arrival_ms))


async def _wait(request: Request, limits: FetchLimits, work: Coroutine[Any, Any, FetchAnswer]) -> FetchAnswer:
    """Return the result of ``work``. Raise ``ClientDisconnect`` if the request may wait, and as ``work`` does."""
    return await (work if limits.wait_ms_max == 0 else cancel_on_disconnect(request, work))
