"""Producers: ids for idempotent requests."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter
from starlette.requests import Request
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.engine.producer_ids import PLAIN_EPOCH
from gateway.gateway import engine_of, owner_of, require
from gateway.http import fields
from gateway.openapi.problems import CHANGE_ERRORS, problems
from gateway.routes.typed_route import TypedRoute

router = APIRouter(route_class=TypedRoute, tags=["produce"])


class NewProducer(fields.Body, example={}):
    """The producer to create. With `transactional_id` its older epochs are fenced."""

    transactional_id: Annotated[fields.Identifier | None, fields.NotNull()] = None


class Producer(TypedDict):
    """The producer's id and epoch, for the headers of its requests."""

    producer_id: fields.Opaque
    epoch: fields.Count


_WITHOUT_TRANSACTIONS: Final = NewProducer()


@router.post("/v1/producers", status_code=201, responses=problems(*CHANGE_ERRORS))
@needs(Need("Write", "transactional_id"))
async def create_producer(request: Request, wanted: NewProducer = _WITHOUT_TRANSACTIONS) -> Producer:
    """Get a producer id, with which requests are idempotent: a repeated request is appended once.

    Without a transactional id nothing is written: the id is signed. With one, older epochs are fenced.
    """
    if wanted.transactional_id is None:
        return {
            "producer_id": await engine_of(request).producer_ids.issue(owner=owner_of(request)),
            "epoch": PLAIN_EPOCH,
        }
    require(request, "Write", "transactional_id", wanted.transactional_id)
    row = await engine_of(request).transactions.new_epoch(wanted.transactional_id, owner_of(request))
    return {"producer_id": row.producer_id, "epoch": row.epoch}
