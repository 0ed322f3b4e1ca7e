"""Producers: ids for idempotent requests."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.engine.producer_ids import PLAIN_EPOCH
from gateway.gateway import engine_of
from gateway.http.direct_route import DirectRoute
from gateway.http.identifiers import IDENTIFIER
from gateway.http.json_response import json_response
from gateway.http.parameters import NO_PARAMETERS
from gateway.openapi.document import answer, operation
from gateway.openapi.document import request_body as body_of
from gateway.openapi.schemas import object_of
from gateway.routes.json_members import json_members
from gateway.routes.transactions import transactional_id_of
from log_format.errors import ErrorCode

router = APIRouter(route_class=DirectRoute)

_NEW_PRODUCER: Final = object_of({"transactional_id": IDENTIFIER}, required=(), closed=True)
_PRODUCER: Final = object_of(
    {
        "producer_id": {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
        "epoch": {"type": "integer", "format": "int32", "minimum": 0},
    }
)
_EXAMPLE: Final = {"producer_id": "p019aa7d9b4003f2a9c0d1e5b7f6a8c0d_91b3c5d7e9f0a2b4c6d8", "epoch": 0}


@router.post(
    "/v1/producers",
    **operation(
        summary="Get a producer id, with which requests to append are in the log once however often they are sent",
        tag="produce",
        body=body_of(_NEW_PRODUCER, required=False, example={}),
        answers={201: answer("An id that nobody else has", _PRODUCER, example=_EXAMPLE)},
        errors=(ErrorCode.REQUEST_TOO_LARGE, ErrorCode.UNSUPPORTED_MEDIA_TYPE, ErrorCode.OUTCOME_UNKNOWN),
    ),
)
async def create_producer(request: Request) -> Response:
    """Without a transactional id nothing is written: the id proves itself. With one, older epochs are fenced."""
    NO_PARAMETERS.parse(request)
    members = await json_members(request, may_be_empty=True)
    if members.has("transactional_id"):
        transactional_id = transactional_id_of(members)
        members.finish()
        row = await engine_of(request).transactions.new_epoch(transactional_id)
        return json_response({"producer_id": row.producer_id, "epoch": row.epoch}, 201)
    members.finish()
    producer_id = await engine_of(request).producer_ids.issue()
    return json_response({"producer_id": producer_id, "epoch": PLAIN_EPOCH}, 201)
