"""Quotas: how much each principal may use."""

from __future__ import annotations

from typing import Annotated, Any, Final, NotRequired, cast

import msgspec
from fastapi import APIRouter, Path, Query
from pydantic import AfterValidator, Field, WithJsonSchema
from starlette.requests import Request
from starlette.types import ASGIApp
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.gateway import engine_of
from gateway.http import access_fields, fields
from gateway.openapi.problems import BODY_ERRORS, problems
from gateway.problem import refused
from gateway.routes.reserved_response import reserved_json
from gateway.routes.typed_route import TypedRoute
from log_format.access.acls import EVERY
from log_format.access.changes import PutQuota
from log_format.access.row import QuotaRow
from log_format.errors import ErrorCode

router = APIRouter(route_class=TypedRoute, tags=["access"])

QUOTA_MAX: Final = 10**12
_TEXT_BYTES: Final = 512
"""Estimated memory of a quota as an object and as JSON, without its principal."""
_PRINCIPAL_RULE: Final = f"must be {access_fields.USER} and a name, or {EVERY}"


def _principal(text: str) -> str:
    if text != EVERY and not access_fields.is_principal(text, access_fields.USER):
        raise refused(f"The principal of a quota {_PRINCIPAL_RULE}.", [("principal", _PRINCIPAL_RULE)])
    return text


PrincipalPath = Annotated[
    str,
    AfterValidator(_principal),
    WithJsonSchema({"type": "string", "pattern": "^(User:.+|[*])$", "examples": ["User:alice", EVERY]}),
    Path(description="User, percent-encoded; `*`: every user without a quota of its own"),
]
Limit = Annotated[int, fields.Between(1, QUOTA_MAX)] | None


class QuotaWish(fields.Body, example={"produce_bytes_per_s": 10_000_000, "requests_per_s": 1_000}):
    """Quota of a principal, on all gateways together. An absent member sets no limit."""

    produce_bytes_per_s: Limit = None
    fetch_bytes_per_s: Limit = None
    requests_per_s: Limit = None
    partitions_created_per_minute: Limit = None
    connections: Limit = None
    event_streams: Limit = None


class QuotasQuery(fields.Parameters):
    """Page of the list of quotas."""

    limit: fields.Limit = fields.LIST_LIMIT
    after: Annotated[str, Field(max_length=1024, description="`next` of the previous page")] = ""


class Quota(TypedDict):
    """Quota of a principal, on all gateways together; null: unlimited."""

    principal: str
    produce_bytes_per_s: Limit
    fetch_bytes_per_s: Limit
    requests_per_s: Limit
    partitions_created_per_minute: Limit
    connections: Limit
    event_streams: Limit


class QuotaPage(TypedDict):
    """One page of quotas. `next` is present if more follow; send it as `after`."""

    quotas: list[Quota]
    next: NotRequired[str]


@router.get("/v1/access/quotas", response_model=QuotaPage, responses=problems(ErrorCode.AUTH_DISABLED))
@needs(Need("Alter", "cluster"))
async def list_quotas(request: Request, query: Annotated[QuotasQuery, Query()]) -> ASGIApp:
    """List quotas by principal, in pages."""
    rows = (await engine_of(request).access_table.fresh()).quotas
    names = sorted(name for name in rows if name > query.after)
    listed = names[: query.limit]

    def made() -> QuotaPage:
        page: QuotaPage = {"quotas": [_quota(rows[name]) for name in listed]}
        if len(names) > len(listed):
            page["next"] = listed[-1]
        return page

    return await reserved_json(request, made, size_bytes=sum(_TEXT_BYTES + len(name) for name in listed))


@router.get("/v1/access/quotas/{principal}", responses=problems(ErrorCode.AUTH_DISABLED))
@needs(Need("Alter", "cluster"))
async def describe_quota(request: Request, principal: PrincipalPath) -> Quota:
    """Describe a principal's own quota. A quota without limits and one that was never set look the same."""
    rows = (await engine_of(request).access_table.fresh()).quotas
    return _quota(rows.get(principal) or QuotaRow(principal=principal))


@router.put(
    "/v1/access/quotas/{principal}",
    responses=problems(ErrorCode.AUTH_DISABLED, ErrorCode.OUTCOME_UNKNOWN, *BODY_ERRORS),
)
@needs(Need("Alter", "cluster"))
async def put_quota(request: Request, principal: PrincipalPath, wanted: QuotaWish) -> Quota:
    """Set a principal's quota, replacing the previous one."""
    members: dict[str, Any] = wanted.model_dump()
    row = QuotaRow(principal=principal, **members)
    await engine_of(request).access_table.decide(PutQuota(row=row))
    return _quota(row)


def _quota(row: QuotaRow) -> Quota:
    return cast("Quota", msgspec.structs.asdict(row))
