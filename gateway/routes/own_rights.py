"""The caller's own rights, for programs that offer only what the caller may do, such as the console."""

from __future__ import annotations

from typing import Annotated, Any, Final, cast

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from typing_extensions import TypedDict

from gateway.access.needs import needs
from gateway.gateway import allowing
from gateway.http import access_fields, fields
from gateway.openapi.problems import BODY_ERRORS, problems
from gateway.routes.typed_route import TypedRoute

router = APIRouter(route_class=TypedRoute, tags=["access"])

RIGHTS_PER_REQUEST_MAX: Final = 1_000


class AskedRight(access_fields.NamedRight):
    """A right that the caller may have."""


class AskedRights(
    fields.Body, example={"rights": [{"operation": "Delete", "resource_type": "topic", "resource": "flights"}]}
):
    """Rights that the caller may have."""

    rights: Annotated[list[AskedRight], Field(min_length=1, max_length=RIGHTS_PER_REQUEST_MAX)]


class OwnRights(TypedDict):
    """Whether the caller has each right, in the order of the request."""

    allowed: list[bool]


@router.post("/v1/whoami:test", responses=problems(*BODY_ERRORS))
@needs()
async def test_own_rights(request: Request, asked: AskedRights) -> OwnRights:
    """Return which of the given rights the caller has. The answer does not depend on whether their resources exist."""
    return {
        "allowed": [
            allowing(request, cast("Any", one.operation), cast("Any", one.resource_type))(one.resource)
            for one in asked.rights
        ]
    }
