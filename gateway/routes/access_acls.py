"""ACLs: add, list, delete, and test what they allow."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from typing import Annotated, Any, Final, NotRequired, Self, cast

from fastapi import APIRouter, Query
from pydantic import Field, model_validator
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from gateway.access.caller import Caller
from gateway.access.needs import Need, needs
from gateway.access.rights import Reason
from gateway.gateway import engine_of, gateway_of
from gateway.http import access_fields, fields
from gateway.http.json_response import encode_json
from gateway.http.parameters import parameters_refusal
from gateway.http.validation import faults_error
from gateway.openapi.problems import BODY_ERRORS, CHANGE_ERRORS, problems
from gateway.problem import refused
from gateway.routes.typed_route import TypedRoute
from log_format.access.acls import Acl, Acls, entry_acls
from log_format.access.changes import AddAcls, DeleteAcls
from log_format.errors import ErrorCode

router = APIRouter(route_class=TypedRoute, tags=["access"])

ACLS_PER_REQUEST_MAX: Final = 1_000
_CURSOR: Final = "is not a `next` of this list"
Matches = Callable[[Acl], bool]


class AclEntry(fields.Body):
    """One ACL, identified by all its members."""

    principal: access_fields.Principal
    operation: access_fields.OperationField
    resource_type: access_fields.ResourceTypeField
    resource: str
    pattern: access_fields.PatternField = "literal"
    permission: access_fields.PermissionField = "allow"

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        what = access_fields.resource_fault(self.resource_type, self.resource, self.pattern)
        if what is not None:
            raise faults_error([(("resource",), what)])
        return self

    def acl(self) -> Acl:
        """Return the ACL as the access table has it."""
        return Acl(*cast("Any", self.model_dump().values()))


class NewAcls(
    fields.Body,
    example={
        "acls": [
            {
                "principal": "User:alice",
                "operation": "Write",
                "resource_type": "topic",
                "resource": "flights",
                "pattern": "prefix",
                "permission": "allow",
            }
        ]
    },
):
    """ACLs to add."""

    acls: Annotated[list[AclEntry], Field(min_length=1, max_length=ACLS_PER_REQUEST_MAX)]


class AclFilter(fields.Parameters):
    """Filter for ACLs: matches those that are equal in all given members."""

    principal: Annotated[str | None, fields.NotNull()] = None
    operation: Annotated[access_fields.OperationField | None, fields.NotNull()] = None
    resource_type: Annotated[access_fields.ResourceTypeField | None, fields.NotNull()] = None
    resource: Annotated[str | None, fields.NotNull()] = None
    pattern: Annotated[access_fields.PatternField | None, fields.NotNull()] = None
    permission: Annotated[access_fields.PermissionField | None, fields.NotNull()] = None

    def matches(self) -> Matches:
        """Return the predicate that decides whether an ACL matches."""
        named = [(Acl._fields.index(name), value) for name, value in self._named().items()]
        return lambda acl: all(acl[index] == value for index, value in named)

    def _named(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in Acl._fields if getattr(self, name) is not None}


class AclsQuery(AclFilter):
    """Filter and page of the list of ACLs."""

    limit: fields.Limit = fields.LIST_LIMIT
    after: Annotated[str, Field(max_length=2048, description="`next` of the previous page")] = ""


class Question(
    access_fields.NamedRight,
    example={"principal": "User:alice", "operation": "Write", "resource_type": "topic", "resource": "flights"},
):
    """Whether the principal, with these groups, may do the operation."""

    principal: access_fields.Principal
    groups: Annotated[list[access_fields.Group], Field(max_length=100)] = Field(default_factory=list)


class AclObject(TypedDict):
    """One ACL."""

    principal: str
    operation: access_fields.OperationField
    resource_type: access_fields.ResourceTypeField
    resource: str
    pattern: access_fields.PatternField
    permission: access_fields.PermissionField


class AclList(TypedDict):
    """ACLs, each with all its members."""

    acls: list[AclObject]


class AclPage(AclList):
    """One page of ACLs. `next` is present if more follow; send it as `after`."""

    next: NotRequired[str]


class Answer(TypedDict):
    """Whether the operation is allowed, and why. `acl` is the ACL that decided."""

    allowed: bool
    reason: Reason
    acl: AclObject | None


@router.post(
    "/v1/access/acls",
    status_code=201,
    response_model=AclList,
    responses=problems(ErrorCode.AUTH_DISABLED, *CHANGE_ERRORS)
    | {200: {"description": "All of them were there.", "model": AclList}},
)
@needs(Need("Alter", "cluster"))
async def add_acls(request: Request, wanted: NewAcls) -> Response:
    """Add ACLs, all or nothing: 201, or 200 if all existed already."""
    acls = tuple(entry.acl() for entry in wanted.acls)
    decided = await engine_of(request).access_table.decide(AddAcls(acls=acls))
    return _json({"acls": [_describe(acl) for acl in acls]}, 201 if decided.changes else 200)


@router.get("/v1/access/acls", response_model=AclPage, responses=problems(ErrorCode.AUTH_DISABLED))
@needs(Need("Alter", "cluster"))
async def list_acls(request: Request, query: Annotated[AclsQuery, Query()]) -> Response:
    """List ACLs by principal, resource type, pattern and resource, in pages."""
    acls = (await engine_of(request).access_table.fresh()).acls
    after = _parse_cursor(query.after)
    pool = gateway_of(request).codec_pool
    return await asyncio.get_running_loop().run_in_executor(
        pool, lambda: _json(_page(acls, query.matches(), after, query.limit), 200)
    )


@router.delete(
    "/v1/access/acls",
    response_model=AclList,
    responses=problems(ErrorCode.AUTH_DISABLED, ErrorCode.OUTCOME_UNKNOWN),
)
@needs(Need("Alter", "cluster"))
async def delete_acls(request: Request, query: Annotated[AclFilter, Query()]) -> Response:
    """Delete the ACLs that are equal in all given members; at least one must be given."""
    if not query.model_fields_set:
        raise parameters_refusal([(name, "or another member of an ACL must be given") for name in ("principal",)])
    decided = await engine_of(request).access_table.decide(DeleteAcls(matches=query.matches()))
    pool = gateway_of(request).codec_pool
    return await asyncio.get_running_loop().run_in_executor(
        pool, lambda: _json({"acls": [_describe(acl) for acl in decided.deleted]}, 200)
    )


@router.post("/v1/access:test", responses=problems(ErrorCode.AUTH_DISABLED, *BODY_ERRORS))
@needs(Need("Alter", "cluster"))
async def test_access(request: Request, asked: Question) -> Answer:
    """Say whether a principal may do something, and which ACL decides."""
    caller = Caller(asked.principal, tuple(asked.groups))
    await engine_of(request).access_table.fresh()
    found = gateway_of(request).rights.judge(
        caller, cast("Any", asked.operation), cast("Any", asked.resource_type), asked.resource
    )
    acl = None if found.acl is None else _describe(found.acl)
    return {"allowed": found.allowed, "reason": found.reason, "acl": acl}


def _page(acls: Acls, matches: Matches, after: tuple[str, int], limit: int) -> AclPage:
    key, bit = after
    keys = (one for one in acls.entries if one >= key)
    found: list[tuple[str, Acl]] = []
    # An entry has an ACL at least, so that many entries are enough, but for those that do not match.
    for one in sorted(keys):
        if len(found) > limit:
            break
        found += [
            (one, acl) for acl in entry_acls(one, acls.entries[one]) if (one != key or acl.bit > bit) and matches(acl)
        ]
    page: AclPage = {"acls": [_describe(acl) for _, acl in found[:limit]]}
    if len(found) > limit:
        last_key, last = found[limit - 1]
        page["next"] = base64.urlsafe_b64encode(f"{last.bit}\n{last_key}".encode()).decode().rstrip("=")
    return page


def _parse_cursor(cursor: str) -> tuple[str, int]:
    """Return the position that the cursor names. Raise ``RequestRefused`` for a cursor of another list."""
    if not cursor:
        return "", 0
    try:
        bit, _, key = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode().partition("\n")
        return key, int(bit)
    except (ValueError, binascii.Error):
        raise refused(f"after {_CURSOR}.", [("after", _CURSOR)]) from None


def _describe(acl: Acl) -> AclObject:
    return cast("AclObject", acl._asdict())


def _json(made: Any, status: int) -> Response:
    return Response(encode_json(made), status, media_type="application/json")
