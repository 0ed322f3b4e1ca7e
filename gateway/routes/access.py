"""The caller's identity, and how callers are authenticated: whoami, tokens, roles."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp
from typing_extensions import TypedDict

from gateway.access.caller import Proof, caller_of
from gateway.access.needs import Need, needs
from gateway.access.token import NewToken, new_token
from gateway.gateway import engine_of, gateway_of
from gateway.http import access_fields, fields
from gateway.http.json_response import encode_json
from gateway.openapi.problems import BODY_ERRORS, CHANGE_ERRORS, problems
from gateway.problem import refused
from gateway.routes.reserved_response import reserved_json
from gateway.routes.typed_route import TypedRoute
from log_format.access.changes import CreateToken, DeleteRole, DeleteToken, PutRole, RotateToken
from log_format.access.row import CredentialRow, RoleRow, Secret
from log_format.errors import ErrorCode

router = APIRouter(route_class=TypedRoute, tags=["access"])

DAY_MS: Final = 86_400_000
EXPIRY_MS_DEFAULT: Final = 90 * DAY_MS
EXPIRY_MS_MAX: Final = 366 * DAY_MS
OVERLAP_MS_MAX: Final = 7 * DAY_MS
GROUPS_MAX: Final = 100
MEMBERS_MAX: Final = 1_000
_TEXT_BYTES: Final = 1_024
"""Estimated memory of a token or a role as an object and as JSON, without its names."""

Expiry = Annotated[fields.Timestamp | None, fields.NotNull()]


class TokenWish(
    fields.Body, example={"principal": "User:alice", "groups": ["Group:writers"], "description": "nightly job"}
):
    """The token to create. Default of `expires_at`: in 90 days; at most 366 days ahead."""

    principal: access_fields.User
    groups: Annotated[list[access_fields.Group], Field(max_length=GROUPS_MAX)] = Field(default_factory=list)
    description: Annotated[str, Field(max_length=1_024)] = ""
    expires_at: Expiry = None


class Rotation(fields.Body, example={"overlap_ms": DAY_MS}):
    """Time for which the previous secret remains valid, at most."""

    overlap_ms: Annotated[int, fields.Between(0, OVERLAP_MS_MAX)] = DAY_MS
    expires_at: Expiry = None


class Members(fields.Body, example={"members": ["User:alice", "Group:writers"]}):
    """The members of the role."""

    members: Annotated[list[access_fields.RoleMember], Field(max_length=MEMBERS_MAX)]


class TokensQuery(fields.Parameters):
    """Filter and page of the list of tokens."""

    limit: fields.Limit = fields.LIST_LIMIT
    after: Annotated[str, Field(max_length=1024, description="`next` of the previous page")] = ""
    principal: Annotated[
        access_fields.User | None, fields.NotNull(), Field(description="Only tokens of this principal")
    ] = None


class RolesQuery(fields.Parameters):
    """Page of the list of roles."""

    limit: fields.Limit = fields.LIST_LIMIT
    after: Annotated[str, Field(max_length=1024, description="`next` of the previous page")] = ""


class Me(TypedDict):
    """The caller as the gateway knows it."""

    principal: str
    groups: list[str]
    roles: list[str]
    super_user: bool
    authentication: Proof
    token_id: str | None
    expires_at: fields.Timestamp | None


class TokenSecret(TypedDict):
    """Times at which a secret was created and expires. The secret itself is not stored."""

    created_at: fields.Timestamp
    expires_at: fields.Timestamp


class Token(TypedDict):
    """A token with its valid secrets, newest first."""

    id: str
    principal: str
    groups: list[str]
    description: str
    created_at: fields.Timestamp
    secrets: list[TokenSecret]


class ShownToken(Token):
    """A token with its new secret, which is shown only this once."""

    token: str


class TokenPage(TypedDict):
    """One page of tokens. `next` is present if more follow; send it as `after`."""

    tokens: list[Token]
    next: NotRequired[str]


class Role(TypedDict):
    """A role and its members."""

    role: access_fields.RoleName
    members: list[str]


class RolePage(TypedDict):
    """One page of roles. `next` is present if more follow; send it as `after`."""

    roles: list[Role]
    next: NotRequired[str]


_ROTATION: Final = Rotation()


@router.get("/v1/whoami")
@needs()
async def whoami(request: Request) -> Me:
    """Return the caller's own identity, how it was authenticated, and when that expires."""
    caller, rights = caller_of(request), gateway_of(request).rights
    return {
        "principal": caller.principal,
        "groups": list(caller.groups),
        "roles": rights.roles_of(caller),
        "super_user": rights.is_super_user(caller),
        "authentication": caller.authentication,
        "token_id": caller.token_id,
        "expires_at": caller.expires_at_ms,
    }


@router.post(
    "/v1/access/tokens",
    status_code=201,
    response_model=ShownToken,
    responses=problems(ErrorCode.AUTH_DISABLED, *CHANGE_ERRORS),
)
@needs(Need("Alter", "cluster"))
async def create_token(request: Request, wanted: TokenWish) -> Response:
    """Create a token. Its text is in this answer only."""
    now_ms = gateway_of(request).clock.now_ms()
    made = new_token()
    row = CredentialRow(
        id=made.id,
        principal=wanted.principal,
        groups=tuple(dict.fromkeys(wanted.groups)),
        description=wanted.description,
        created_at_ms=now_ms,
        secrets=(_secret(made, now_ms, wanted.expires_at),),
    )
    await engine_of(request).access_table.decide(CreateToken(row=row))
    return _token_response(row, made, now_ms, 201)


@router.get("/v1/access/tokens", response_model=TokenPage, responses=problems(ErrorCode.AUTH_DISABLED))
@needs(Need("Alter", "cluster"))
async def list_tokens(request: Request, query: Annotated[TokensQuery, Query()]) -> ASGIApp:
    """List tokens by id, in pages, without their secrets, which the gateway does not store."""
    rows = (await engine_of(request).access_table.fresh()).credentials.values()
    now_ms = gateway_of(request).clock.now_ms()
    named = (row for row in rows if query.principal in (None, row.principal) and row.id > query.after)
    found = sorted(named, key=lambda row: row.id)
    listed = found[: query.limit]

    def made() -> TokenPage:
        page: TokenPage = {"tokens": [_describe_token(row, now_ms) for row in listed]}
        if len(found) > len(listed):
            page["next"] = listed[-1].id
        return page

    size_bytes = sum(_TEXT_BYTES + len(row.description) + 64 * len(row.groups) for row in listed)
    return await reserved_json(request, made, size_bytes=size_bytes)


@router.post(
    "/v1/access/tokens/{token}:rotate",
    response_model=ShownToken,
    responses=problems(ErrorCode.AUTH_DISABLED, ErrorCode.UNKNOWN_TOKEN, *CHANGE_ERRORS),
)
@needs(Need("Alter", "cluster"))
async def rotate_token(request: Request, token: access_fields.TokenPath, wanted: Rotation = _ROTATION) -> Response:
    """Give a token a new secret. The previous one stays valid for at most `overlap_ms`; older ones expire immediately."""
    now_ms = gateway_of(request).clock.now_ms()
    made = new_token(token)
    change = RotateToken(id=token, secret=_secret(made, now_ms, wanted.expires_at), overlap_ms=wanted.overlap_ms)
    decided = await engine_of(request).access_table.decide(change)
    return _token_response(decided.changes.credentials[0], made, now_ms, 200)


@router.delete(
    "/v1/access/tokens/{token}",
    status_code=204,
    responses=problems(ErrorCode.AUTH_DISABLED, ErrorCode.UNKNOWN_TOKEN, ErrorCode.OUTCOME_UNKNOWN),
)
@needs(Need("Alter", "cluster"))
async def revoke_token(request: Request, token: access_fields.TokenPath) -> None:
    """Revoke a token: on this gateway immediately, on others within 5 s."""
    await engine_of(request).access_table.decide(DeleteToken(id=token))


@router.get("/v1/access/roles", response_model=RolePage, responses=problems(ErrorCode.AUTH_DISABLED))
@needs(Need("Alter", "cluster"))
async def list_roles(request: Request, query: Annotated[RolesQuery, Query()]) -> ASGIApp:
    """List roles by name, in pages."""
    roles = (await engine_of(request).access_table.fresh()).roles
    names = sorted(name for name in roles if name > query.after)
    listed = names[: query.limit]

    def made() -> RolePage:
        page: RolePage = {"roles": [_role(roles[name]) for name in listed]}
        if len(names) > len(listed):
            page["next"] = listed[-1]
        return page

    size_bytes = sum(_TEXT_BYTES + 64 * len(roles[name].members) for name in listed)
    return await reserved_json(request, made, size_bytes=size_bytes)


@router.put(
    "/v1/access/roles/{role}",
    responses=problems(ErrorCode.AUTH_DISABLED, ErrorCode.OUTCOME_UNKNOWN, *BODY_ERRORS),
)
@needs(Need("Alter", "cluster"))
async def put_role(request: Request, role: access_fields.RolePath, wanted: Members) -> Role:
    """Create a role, or replace its members."""
    row = RoleRow(role=role, members=tuple(dict.fromkeys(wanted.members)))
    await engine_of(request).access_table.decide(PutRole(row=row))
    return _role(row)


@router.delete(
    "/v1/access/roles/{role}",
    status_code=204,
    responses=problems(ErrorCode.AUTH_DISABLED, ErrorCode.UNKNOWN_ROLE, ErrorCode.OUTCOME_UNKNOWN),
)
@needs(Need("Alter", "cluster"))
async def delete_role(request: Request, role: access_fields.RolePath) -> None:
    """Delete a role. ACLs that name it are kept."""
    await engine_of(request).access_table.decide(DeleteRole(role=role))


def _secret(made: NewToken, now_ms: int, expires_at_ms: int | None) -> Secret:
    """Return the new secret. Raise ``RequestRefused`` for an expiry that is in the past or too far ahead."""
    if expires_at_ms is None:
        expires_at_ms = now_ms + EXPIRY_MS_DEFAULT
    elif not now_ms < expires_at_ms <= now_ms + EXPIRY_MS_MAX:
        what = "must be in the future, and at most 366 days off"
        raise refused(f"expires_at {what}.", [("/expires_at", what)])
    return Secret(sha256=made.sha256, created_at_ms=now_ms, expires_at_ms=expires_at_ms)


def _token_response(row: CredentialRow, made: NewToken, now_ms: int, status: Literal[200, 201]) -> Response:
    shown: dict[str, Any] = {**_describe_token(row, now_ms), "token": made.text}
    return Response(encode_json(shown), status, {"cache-control": "no-store"}, media_type="application/json")


def _describe_token(row: CredentialRow, now_ms: int) -> Token:
    return {
        "id": row.id,
        "principal": row.principal,
        "groups": list(row.groups),
        "description": row.description,
        "created_at": row.created_at_ms,
        "secrets": [
            {"created_at": secret.created_at_ms, "expires_at": secret.expires_at_ms}
            for secret in row.secrets
            if secret is row.secrets[0] or secret.expires_at_ms > now_ms
        ],
    }


def _role(row: RoleRow) -> Role:
    return {"role": row.role, "members": list(row.members)}
