"""Transactions: begun, described, committed, aborted. Their records come by the produce routes."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.gateway import engine_of
from gateway.http.direct_route import DirectRoute
from gateway.http.identifiers import IDENTIFIER, identifier
from gateway.http.json_request import Members
from gateway.http.json_response import json_response
from gateway.http.parameters import NO_PARAMETERS, path_text
from gateway.openapi.document import answer, operation
from gateway.openapi.document import request_body as body_of
from gateway.openapi.schemas import TOPIC_NAME, list_of, object_of
from gateway.routes.group_offsets import NEXT_OFFSET, OFFSET_ERRORS, member_of, next_offsets_of
from gateway.routes.groups import BODY_ERRORS, GENERATION, MEMBER_ERRORS, MEMBER_ID
from gateway.routes.json_members import json_members
from log_format import limits
from log_format.errors import ErrorCode
from log_format.transactions.row import NO_NUMBER, TransactionRow
from log_format.transactions.staged_offsets import StagedOffset, StagedOffsets

router = APIRouter(route_class=DirectRoute)

TIMEOUT_MS_DEFAULT: Final = 60_000
NUMBER_MAX: Final = 2**53 - 1
"""What every JSON parser keeps exactly."""

_ID: Final = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}
_LONG: Final = {"type": "integer", "format": "int64", "minimum": 0}
_NEW: Final = object_of(
    {
        "transactional_id": IDENTIFIER,
        "timeout_ms": {
            "type": "integer",
            "minimum": limits.TRANSACTION_TIMEOUT_MS_MIN,
            "maximum": limits.TRANSACTION_TIMEOUT_MS_MAX,
            "default": TIMEOUT_MS_DEFAULT,
        },
        "number": {"type": "integer", "minimum": 0, "maximum": NUMBER_MAX},
    },
    required=("transactional_id",),
    closed=True,
)
_BEGUN: Final = object_of(
    {
        "transaction_id": _ID,
        "producer_id": _ID,
        "epoch": {"type": "integer", "minimum": 0},
        "expires_at": _LONG,
        "last_number": {"type": ["integer", "null"], "format": "int64", "minimum": 0},
    },
    required=("transaction_id", "producer_id", "epoch", "expires_at"),
)
_PLACES: Final = object_of(
    {"partition": {"type": "integer", "minimum": 0}, "base_offset": _LONG, "last_offset": _LONG, "count": _LONG}
)
COMMITTED: Final = object_of(
    {
        "state": {"type": "string", "enum": ["committed"]},
        "topics": list_of(object_of({"topic": TOPIC_NAME, "partitions": list_of(_PLACES)})),
    }
)
_ABORTED: Final = object_of({"state": {"type": "string", "enum": ["aborted"]}})
_STATE: Final = object_of(
    {
        "state": {"type": "string", "enum": ["open", "committing", "committed", "aborted"]},
        "transactional_id": {"type": "string"},
        "producer_id": _ID,
        "epoch": {"type": "integer", "minimum": 0},
        "expires_at": _LONG,
        "topics": list_of(object_of({"topic": TOPIC_NAME, "partitions": list_of(_PLACES)})),
    },
    required=("state", "transactional_id", "producer_id", "epoch", "expires_at"),
)
_NOTHING: Final = body_of(object_of({}, closed=True), required=False, example={})
_BEGUN_EXAMPLE: Final = {
    "transaction_id": "t019aa7d9b4003f2a9c0d1e5b7f6a8c0d_91b3c5d7e9f0a2b4c6d8",
    "producer_id": "t019aa7d9b4003f2a9c0d1e5b7f6a8c0e_a1b3c5d7e9f0a2b4c6d8",
    "epoch": 3,
    "expires_at": 1763683260000,
    "last_number": 41,
}
_COMMITTED_EXAMPLE: Final = {
    "state": "committed",
    "topics": [
        {"topic": "flights", "partitions": [{"partition": 3, "base_offset": 41, "last_offset": 41, "count": 1}]}
    ],
}
_ENDED_ERRORS: Final = (
    ErrorCode.UNKNOWN_TRANSACTION,
    ErrorCode.TRANSACTION_NOT_OPEN,
    ErrorCode.FENCED_PRODUCER,
    ErrorCode.OUTCOME_UNKNOWN,
)


@router.post(
    "/v1/transactions",
    **operation(
        summary="Begin a transaction; an older one of the same transactional id is fenced and aborted",
        tag="transactions",
        body=body_of(_NEW, example={"transactional_id": "billing-7", "timeout_ms": TIMEOUT_MS_DEFAULT, "number": 42}),
        answers={201: answer("It is open", _BEGUN, example=_BEGUN_EXAMPLE)},
        errors=(ErrorCode.REQUEST_TOO_LARGE, ErrorCode.UNSUPPORTED_MEDIA_TYPE, ErrorCode.OUTCOME_UNKNOWN),
    ),
)
async def begin_transaction(request: Request) -> Response:
    """Begin a transaction.

    ``number`` is the client's own, kept with the transaction; who sends one is told ``last_number``, the newest that the
    transactional id has committed. Nothing of an older epoch is committed after this answer, so a client that repeats a piece of
    work knows by it whether an earlier try has committed it.
    """
    NO_PARAMETERS.parse(request)
    members = await json_members(request)
    transactional_id = transactional_id_of(members)
    timeout_ms = members.integer(
        "timeout_ms",
        minimum=limits.TRANSACTION_TIMEOUT_MS_MIN,
        maximum=limits.TRANSACTION_TIMEOUT_MS_MAX,
        default=TIMEOUT_MS_DEFAULT,
    )
    number = members.integer("number", minimum=0, maximum=NUMBER_MAX) if members.has("number") else NO_NUMBER
    members.finish()
    row = await engine_of(request).transactions.begin(transactional_id, timeout_ms, number)
    begun: dict[str, Any] = {
        "transaction_id": row.transaction_id,
        "producer_id": row.producer_id,
        "epoch": row.epoch,
        "expires_at": row.expires_at_ms,
    }
    if number != NO_NUMBER:
        begun["last_number"] = None if row.last_number == NO_NUMBER else row.last_number
    return json_response(begun, 201)


@router.get(
    "/v1/transactions/{transaction}",
    **operation(
        summary="What became of a transaction",
        tag="transactions",
        path=("transaction",),
        answers={200: answer("As it is now", _STATE)},
        errors=(ErrorCode.UNKNOWN_TRANSACTION, ErrorCode.OUTCOME_UNKNOWN),
    ),
)
async def describe_transaction(request: Request) -> Response:
    """Describe a transaction."""
    NO_PARAMETERS.parse(request)
    row = await engine_of(request).transactions.look(path_text(request, "transaction"))
    described: dict[str, Any] = {
        "state": row.state,
        "transactional_id": row.transactional_id,
        "producer_id": row.producer_id,
        "epoch": row.epoch,
        "expires_at": row.expires_at_ms,
    }
    if row.state == "committed":
        described["topics"] = topics_of(row)
    return json_response(described)


@router.post(
    "/v1/transactions/{transaction}:commit",
    **operation(
        summary="Make every record of the transaction visible, all or none",
        tag="transactions",
        path=("transaction",),
        body=_NOTHING,
        answers={200: answer("Every record is visible", COMMITTED, example=_COMMITTED_EXAMPLE)},
        errors=(*_ENDED_ERRORS, ErrorCode.STALE_GENERATION, ErrorCode.FENCED_MEMBER, *BODY_ERRORS),
    ),
)
async def commit_transaction(request: Request) -> Response:
    """Commit a transaction; again: the same answer."""
    NO_PARAMETERS.parse(request)
    (await json_members(request, may_be_empty=True)).finish()
    row = await engine_of(request).transactions.commit(path_text(request, "transaction"))
    return json_response({"state": "committed", "topics": topics_of(row)})


@router.post(
    "/v1/transactions/{transaction}:abort",
    **operation(
        summary="Drop every record of the transaction",
        tag="transactions",
        path=("transaction",),
        body=_NOTHING,
        answers={200: answer("Nothing of it will ever be visible", _ABORTED, example={"state": "aborted"})},
        errors=(*_ENDED_ERRORS, *BODY_ERRORS),
    ),
)
async def abort_transaction(request: Request) -> Response:
    """Abort a transaction; idempotent."""
    NO_PARAMETERS.parse(request)
    (await json_members(request, may_be_empty=True)).finish()
    await engine_of(request).transactions.abort(path_text(request, "transaction"))
    return json_response({"state": "aborted"})


@router.post(
    "/v1/transactions/{transaction}/offsets",
    **operation(
        summary="Offsets of a group, committed with the transaction",
        tag="transactions",
        path=("transaction",),
        body=body_of(
            object_of(
                {
                    "group": IDENTIFIER,
                    "member_id": MEMBER_ID,
                    "generation": GENERATION,
                    "offsets": list_of(NEXT_OFFSET),
                },
                required=("group", "offsets"),
                closed=True,
            ),
            example={"group": "billing", "offsets": [{"topic": "flights", "partition": 3, "offset": 42}]},
        ),
        answers={202: answer("They are part of the transaction", object_of({"staged": {"type": "integer"}}))},
        errors=(*_ENDED_ERRORS, *MEMBER_ERRORS, *OFFSET_ERRORS, *BODY_ERRORS),
    ),
)
async def add_offsets(request: Request) -> Response:
    """The group's rules are checked now, and again when the transaction is committed."""
    NO_PARAMETERS.parse(request)
    members = await json_members(request)
    staged = staged_offsets_of(members)
    members.finish()
    await engine_of(request).transactions.stage_offsets(path_text(request, "transaction"), staged)
    return json_response({"staged": len(staged.offsets)}, 202)


def staged_offsets_of(members: Members) -> StagedOffsets:
    """A group and the offsets to commit for it; faults are noted."""
    group = identifier(members, "group")
    member_id, generation = member_of(members)
    offsets = tuple(
        StagedOffset(topic=one.topic, partition=one.partition, offset=one.offset, metadata=one.metadata)
        for one in next_offsets_of(members, "offsets")
    )
    return StagedOffsets(group=group, member_id=member_id, generation=generation, offsets=offsets)


def transactional_id_of(members: Members) -> str:
    """The member ``transactional_id``; faults are noted."""
    return identifier(members, "transactional_id")


def topics_of(row: TransactionRow) -> list[dict[str, Any]]:
    """Where the records of a committed transaction are, as the contract has it."""
    return [
        {
            "topic": topic,
            "partitions": [
                {
                    "partition": place.partition,
                    "base_offset": place.base_offset,
                    "last_offset": place.base_offset + place.record_count - 1,
                    "count": place.record_count,
                }
                for place in places
            ],
        }
        for topic, places in groupby(row.places, key=lambda place: place.topic)
    ]
