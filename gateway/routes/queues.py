"""Queues: records shared one by one, locked, delivered and settled (docs/http-api.md, section 11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.types import ASGIApp

from gateway.access.needs import Need, needs
from gateway.gateway import allowing, answer_memory, check_transaction, engine_of, gateway_of, require, standing_of
from gateway.http import fields
from gateway.http.disconnect import cancel_on_disconnect, check_connected
from gateway.http.json_response import json_response
from gateway.memory_budget import Reservation
from gateway.openapi.problems import BODY_ERRORS, CHANGE_ERRORS, problems
from gateway.queues.dropped import Drops
from gateway.queues.queues import QueueDescription
from gateway.queues.redriving import RedriveRequest
from gateway.queues.redriving_typed import sources_of
from gateway.queues.settlement import Result
from gateway.quotas.limits import FETCH_BYTES
from gateway.quotas.spending import spends
from gateway.routes import quota_charges
from gateway.routes.queue_types import (
    DroppedRange,
    DroppedRecords,
    FilterOfQueue,
    Queue,
    QueuePage,
    QueuePartition,
    QueuesQuery,
    QueueSummary,
    QueueToPut,
    Receive,
    Received,
    Redrive,
    Redriven,
    Results,
    Settle,
    SettleHeaders,
)
from gateway.routes.received_records import received_response
from gateway.routes.transactions import require_write
from gateway.routes.typed_route import TypedRoute
from log_format.errors import ErrorCode
from log_format.queues.row import QueueFilter, QueueSettings

router = APIRouter(route_class=TypedRoute, tags=["queues"])


@router.put(
    "/v1/queues/{queue}",
    response_model=QueueSummary,
    responses=problems(*CHANGE_ERRORS, ErrorCode.UNKNOWN_TOPIC, ErrorCode.QUEUE_ALREADY_EXISTS)
    | {201: {"description": "The queue was made", "model": QueueSummary}},
)
@needs(Need("Alter", "group", path="queue"), Need("Read", "topic"), Need("Write", "topic"))
async def put_queue(request: Request, queue: fields.QueuePath, wanted: QueueToPut) -> ASGIApp:
    """Create a queue, or replace its settings. The topics must exist, the dead letter topic, too."""
    require(request, "Read", "topic", *wanted.topics)
    require(request, "Write", "topic", *([wanted.dead_letter_topic] if wanted.dead_letter_topic is not None else ()))
    has_start = "start" in wanted.model_fields_set
    settings, is_new = await engine_of(request).queues.put(queue, wanted.settings(), has_start=has_start)
    return json_response(_summary(queue, settings), 201 if is_new else 200)


@router.get("/v1/queues")
@needs()
async def list_queues(request: Request, query: Annotated[QueuesQuery, Query()]) -> QueuePage:
    """List queues by name, in pages."""
    found, more = await engine_of(request).queues.page(query.after, query.limit, allowing(request, "Describe", "group"))
    page: QueuePage = {"queues": [_summary(name, settings) for name, settings in found]}
    if more:
        page["next"] = found[-1][0]
    return page


@router.get("/v1/queues/{queue}", responses=problems(ErrorCode.UNKNOWN_QUEUE, ErrorCode.OUTCOME_UNKNOWN))
@needs(Need("Describe", "group", path="queue"))
async def describe_queue(request: Request, queue: fields.QueuePath) -> Queue:
    """Describe a queue, and its progress in each partition."""
    shown = allowing(request, "Describe", "topic")
    return _describe(queue, await engine_of(request).queues.describe(queue, shown), shown)


@router.delete(
    "/v1/queues/{queue}", status_code=204, responses=problems(ErrorCode.UNKNOWN_QUEUE, ErrorCode.OUTCOME_UNKNOWN)
)
@needs(Need("Delete", "group", path="queue"))
async def delete_queue(request: Request, queue: fields.QueuePath) -> None:
    """Delete a queue. Its topics are kept."""
    await engine_of(request).queues.delete(queue)


@router.post(
    "/v1/queues/{queue}:receive",
    response_model=Received,
    responses=problems(*BODY_ERRORS, ErrorCode.UNKNOWN_QUEUE, ErrorCode.OUTCOME_UNKNOWN),
)
@needs(Need("Read", "group", path="queue"), Need("Read", "topic"))
@spends(FETCH_BYTES)
async def receive(request: Request, queue: fields.QueuePath, wanted: Receive = Receive()) -> ASGIApp:  # noqa: B008
    """Receive records, locked for the caller. A record that is not settled before its lock expires is delivered again."""
    settings = await engine_of(request).queues.settings(queue)
    require(request, "Read", "topic", *settings.topics)
    work = engine_of(request).queues.receive(queue, wanted.wish(), answer_memory(request))
    received = await (work if wanted.max_wait_ms == 0 else cancel_on_disconnect(request, work))
    await _recheck_rights(request, queue, settings.topics, received.reservation)
    quota_charges.charge_fetched_bytes(request, received.size_bytes)
    return received_response(gateway_of(request), received)


@router.post(
    "/v1/queues/{queue}:settle",
    response_model=Results,
    responses=problems(
        *CHANGE_ERRORS,
        ErrorCode.UNKNOWN_QUEUE,
        ErrorCode.UNKNOWN_TRANSACTION,
        ErrorCode.TRANSACTION_NOT_OPEN,
        ErrorCode.FENCED_PRODUCER,
    )
    | {202: {"description": "They wait for the transaction", "model": Results}},
)
@needs(Need("Read", "group", path="queue"), Need("Read", "topic"), Need("Write", "transactional_id"))
async def settle(
    request: Request, queue: fields.QueuePath, headers: Annotated[SettleHeaders, Header()], wanted: Settle
) -> ASGIApp:
    """Accept, release, reject or renew received records. In a transaction they are settled when it commits."""
    require(request, "Read", "topic", *{one.topic: None for one in wanted.settlements})
    if headers.transaction_id is not None:
        await check_transaction(request, headers.transaction_id)
        await require_write(request, headers.transaction_id)
    await check_connected(request)
    settlements = [one.settlement() for one in wanted.settlements]
    engine = engine_of(request)
    if headers.transaction_id is None:
        results = await engine.queues.settle(queue, settlements)
        return json_response({"results": _results(wanted, results)}, 200)
    results = await engine.transactions.stage_settlements(headers.transaction_id, queue, settlements)
    return json_response({"results": _results(wanted, results)}, 202)


@router.post(
    "/v1/queues/{queue}:redrive",
    responses=problems(
        *CHANGE_ERRORS, ErrorCode.UNKNOWN_QUEUE, ErrorCode.UNKNOWN_TOPIC, ErrorCode.NO_DEAD_LETTER_TOPIC
    ),
)
@needs(Need("Alter", "group", path="queue"), Need("Read", "topic"), Need("Write", "topic"))
async def redrive(request: Request, queue: fields.QueuePath, wanted: Redrive = Redrive()) -> Redriven:  # noqa: B008
    """Produce the records of the queue's dead letter topic again, each once. A queue that reads dead letters of typed topics
    produces those that fit now to these topics; the others stay."""
    settings = await engine_of(request).queues.settings(queue)
    typed = sources_of(settings)
    letters = settings.topics if typed is not None else filter(None, [settings.dead_letter_topic])
    require(request, "Read", "topic", *letters)
    targets = settings.topics if typed is None else typed
    require(request, "Write", "topic", *(targets if wanted.to_topic is None else [wanted.to_topic]))
    require_target = partial(require, request, "Write", "topic")
    asked = RedriveRequest(wanted.to_topic, wanted.max_records, wanted.unproved, require_target)
    done = await engine_of(request).queues.redrive(queue, asked)
    return {"redriven": done.redriven} if typed is None else {"redriven": done.redriven, "refused": done.refused}


async def _recheck_rights(request: Request, queue: str, topics: Sequence[str], reservation: Reservation) -> None:
    """Raise if the caller lost a right while it waited, and release the answer's memory; its records stay locked until the
    locks expire."""
    try:
        for refusal in (await standing_of(request).unreadable(topics, queue)).values():
            raise refusal
    except BaseException:  # even if the client disconnected meanwhile
        reservation.release()
        raise


def _summary(name: str, settings: QueueSettings) -> QueueSummary:
    return {
        "queue": name,
        "topics": list(settings.topics),
        "start": settings.start if isinstance(settings.start, str) else {"timestamp": settings.start},
        "lock_ms": settings.lock_ms,
        "max_deliveries": settings.max_deliveries,
        "dead_letter_topic": settings.dead_letter_topic,
        "backoff_ms": list(settings.backoff_ms),
        "max_in_flight": settings.max_in_flight,
        "order": settings.order,
        "expired": settings.expired,
        "filter": None if settings.filter is None else _filter(settings.filter),
    }


def _filter(wanted: QueueFilter) -> FilterOfQueue:
    shown: FilterOfQueue = {"headers": list(wanted.headers)}
    if wanted.key is not None:
        shown["key"] = wanted.key
    return shown


def _describe(name: str, found: QueueDescription, shown: Callable[[str], bool]) -> Queue:
    partitions: list[QueuePartition] = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "start_offset": one.start_offset,
            "in_flight": one.in_flight,
            "delayed": one.delayed,
            "lag": one.lag,
            "blocked_ms": one.blocked_ms,
        }
        for one in found.partitions
    ]
    return {**_summary(name, found.settings), "partitions": partitions, "dropped": _dropped(found.drops, shown)}


def _dropped(drops: Drops, shown: Callable[[str], bool]) -> DroppedRecords:
    newest: list[DroppedRange] = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "first_offset": one.first,
            "last_offset": one.last,
            "deliveries": one.deliveries,
            "reason": one.reason,
            "at": at_ms,
        }
        for at_ms, one in drops.newest
        if shown(one.topic)
    ]
    return {"records": drops.records, "since": drops.since_ms, "newest": newest}


def _results(wanted: Settle, results: list[Result]) -> list[dict[str, Any]]:
    answered: list[dict[str, Any]] = []
    for asked, result in zip(wanted.settlements, results, strict=True):
        one: dict[str, Any] = {"topic": asked.topic, "partition": asked.partition}
        if asked.offset is not None:
            one["offset"] = asked.offset
        else:
            one |= {"first_offset": asked.first_offset, "last_offset": asked.last_offset}
        one["settled"] = result.is_settled
        if not result.is_settled:
            one["error_code"] = str(ErrorCode.LEASE_EXPIRED)
        if result.locked_until_ms is not None:
            one["locked_until_ms"] = result.locked_until_ms
        answered.append(one)
    return answered
