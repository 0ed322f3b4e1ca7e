"""Consumer groups: members, what each may read, and the groups themselves."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from gateway.gateway import engine_of
from gateway.groups.assignors import ASSIGNORS
from gateway.groups.bounds import (
    PATTERN_CHARACTERS_MAX,
    SESSION_TIMEOUT_MS_DEFAULT,
    SESSION_TIMEOUT_MS_MAX,
    SESSION_TIMEOUT_MS_MIN,
    SUBSCRIBED_TOPICS_MAX,
)
from gateway.groups.groups import GroupDescription, Joining, heartbeat_interval_ms
from gateway.http.direct_route import DirectRoute
from gateway.http.identifiers import IDENTIFIER, optional_identifier, path_group
from gateway.http.json_request import Members
from gateway.http.json_response import json_response
from gateway.http.parameters import INT64_MAX, NO_PARAMETERS, QueryParameters, integer, path_text, text
from gateway.openapi.document import answer, operation
from gateway.openapi.document import request_body as body_of
from gateway.openapi.schemas import PARTITION, TOPIC_NAME, list_of, object_of
from gateway.problem import refused
from gateway.routes.held_response import held_json
from gateway.routes.json_members import json_members
from log_format.errors import ErrorCode, RequestRefused
from log_format.groups.holdings import keys_of
from log_format.groups.memory import row_bytes
from log_format.groups.row import Partitions
from log_format.topic.config import check_topic_name

router = APIRouter(route_class=DirectRoute)

LIST_LIMIT: Final = 1_000
LIST_LIMIT_MAX: Final = 10_000

JOIN_PROPERTIES: Final[dict[str, Any]] = {
    "topics": {**list_of(TOPIC_NAME), "minItems": 1},
    "topic_pattern": {
        "type": "string",
        "minLength": 1,
        "maxLength": PATTERN_CHARACTERS_MAX,
        "description": "Python's syntax; it must match a topic's whole name",
    },
    "assignor": {"type": "string", "enum": list(ASSIGNORS), "default": "range"},
    "session_timeout_ms": {
        "type": "integer",
        "minimum": SESSION_TIMEOUT_MS_MIN,
        "maximum": SESSION_TIMEOUT_MS_MAX,
        "default": SESSION_TIMEOUT_MS_DEFAULT,
    },
    "client_id": {**IDENTIFIER, "type": ["string", "null"]},
    "instance_id": {**IDENTIFIER, "type": ["string", "null"]},
}
JOIN_NAMES: Final = tuple(JOIN_PROPERTIES)
MEMBER_ID: Final = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}
GENERATION: Final = {"type": "integer", "format": "int64", "minimum": 0, "maximum": INT64_MAX}
ASSIGNMENT: Final = list_of(object_of({"topic": TOPIC_NAME, "partition": PARTITION}))
MEMBER_ERRORS: Final = (
    ErrorCode.UNKNOWN_GROUP,
    ErrorCode.UNKNOWN_MEMBER,
    ErrorCode.FENCED_MEMBER,
    ErrorCode.STALE_GENERATION,
    ErrorCode.OUTCOME_UNKNOWN,
)
BODY_ERRORS: Final = (ErrorCode.REQUEST_TOO_LARGE, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
_INTERVAL: Final = {"type": "integer", "minimum": 1}
_MEMBER_EXAMPLE: Final = "m01763683200000-5b0f3c52-9c0e-4a2f-8d3a-0c5f6f1f9f10"
_ASSIGNMENT_EXAMPLE: Final = [{"topic": "flights", "partition": 3}]
_LIST: Final = QueryParameters(
    integer("limit", "At most so many", minimum=1, maximum=LIST_LIMIT_MAX, default=LIST_LIMIT),
    text("after", "Go on after this name", length_max=255),
)
_SUMMARY: Final = object_of(
    {
        "group": IDENTIFIER,
        "state": {"type": "string", "enum": ["Empty", "Reconciling", "Stable"]},
        "generation": GENERATION,
        "member_count": {"type": "integer", "minimum": 0},
    }
)
_DESCRIBED: Final = object_of(
    {
        "group": IDENTIFIER,
        "state": {"type": "string", "enum": ["Empty", "Reconciling", "Stable"]},
        "generation": GENERATION,
        "assignor": {"type": ["string", "null"]},
        "members": list_of(
            object_of(
                {
                    "member_id": MEMBER_ID,
                    "client_id": {"type": ["string", "null"]},
                    "instance_id": {"type": ["string", "null"]},
                    "assignment": ASSIGNMENT,
                    "topics": list_of(TOPIC_NAME),
                }
            )
        ),
    }
)


@router.post(
    "/v1/groups/{group}/members",
    **operation(
        summary="Join a group",
        tag="groups",
        path=("group",),
        body=body_of(object_of(JOIN_PROPERTIES, required=(), closed=True), example={"topics": ["flights"]}),
        answers={
            201: answer(
                "A member; what it may read now",
                object_of(
                    {
                        "member_id": MEMBER_ID,
                        "generation": GENERATION,
                        "assignment": ASSIGNMENT,
                        "heartbeat_interval_ms": _INTERVAL,
                    }
                ),
                example={
                    "member_id": _MEMBER_EXAMPLE,
                    "generation": 1,
                    "assignment": _ASSIGNMENT_EXAMPLE,
                    "heartbeat_interval_ms": 3000,
                },
            )
        },
        errors=(
            *BODY_ERRORS,
            ErrorCode.INCONSISTENT_ASSIGNOR,
            ErrorCode.UNKNOWN_MEMBER,
            ErrorCode.INVALID_TOPIC_NAME,
            ErrorCode.OUTCOME_UNKNOWN,
        ),
    ),
)
async def join_group(request: Request) -> Response:
    """Join; a static member that comes back takes its old place."""
    NO_PARAMETERS.parse(request)
    name = path_group(request)
    members = await json_members(request)
    wanted = joining_of(members)
    members.finish()
    _, joined = await engine_of(request).groups.join(name, wanted)
    member = joined.member
    return json_response(
        {
            "member_id": member.member_id,
            "generation": member.acknowledged,
            "assignment": assignment_of(joined.readable),
            "heartbeat_interval_ms": heartbeat_interval_ms(member.session_timeout_ms),
        },
        201,
    )


@router.post(
    "/v1/groups/{group}/members/{member}/heartbeat",
    **operation(
        summary="Say that a member is alive, and acknowledge a generation",
        tag="groups",
        path=("group", "member"),
        body=body_of(object_of({"generation": GENERATION}, closed=True), example={"generation": 1}),
        answers={
            200: answer(
                "The newest generation, and what the member may read now",
                object_of({"generation": GENERATION, "assignment": ASSIGNMENT, "heartbeat_interval_ms": _INTERVAL}),
                example={"generation": 1, "assignment": _ASSIGNMENT_EXAMPLE, "heartbeat_interval_ms": 3000},
            )
        },
        errors=(*MEMBER_ERRORS, *BODY_ERRORS),
    ),
)
async def heartbeat(request: Request) -> Response:
    """A newer generation than the one that was sent: stop reading what was lost, commit for it, acknowledge."""
    NO_PARAMETERS.parse(request)
    name = path_group(request)
    members = await json_members(request)
    generation = members.integer("generation", minimum=0)
    members.finish()
    member_id = path_text(request, "member")
    group = await engine_of(request).groups.existing(name)
    heard = await group.heartbeat(member_id, generation)
    group.told(member_id, heard.generation)
    return json_response(
        {
            "generation": heard.generation,
            "assignment": assignment_of(heard.readable),
            "heartbeat_interval_ms": heartbeat_interval_ms(heard.session_timeout_ms),
        }
    )


@router.delete(
    "/v1/groups/{group}/members/{member}",
    **operation(
        summary="Leave a group; what the member had goes to others at once",
        tag="groups",
        path=("group", "member"),
        answers={204: answer("It is out", None)},
        errors=MEMBER_ERRORS,
    ),
)
async def leave_group(request: Request) -> Response:
    """Leave."""
    NO_PARAMETERS.parse(request)
    await engine_of(request).groups.leave(path_group(request), path_text(request, "member"))
    return Response(status_code=204)


@router.get(
    "/v1/groups",
    **operation(
        summary="List groups, by name",
        tag="groups",
        query=_LIST,
        answers={
            200: answer(
                "A page of them",
                object_of({"groups": list_of(_SUMMARY), "next": {"type": "string"}}, required=("groups",)),
                example={"groups": [{"group": "billing", "state": "Stable", "generation": 4, "member_count": 2}]},
            )
        },
    ),
)
async def list_groups(request: Request) -> Response:
    """A page; ``next`` is there when there is more."""
    query = _LIST.parse(request)
    found, more = await engine_of(request).groups.page(query["after"] or "", query["limit"])
    members: dict[str, Any] = {
        "groups": [
            {
                "group": one.name,
                "state": one.state,
                "generation": one.generation,
                "member_count": one.member_count,
            }
            for one in found
        ]
    }
    if more:
        members["next"] = found[-1].name
    return json_response(members)


@router.get(
    "/v1/groups/{group}",
    **operation(
        summary="Describe a group",
        tag="groups",
        path=("group",),
        answers={200: answer("The group and its members", _DESCRIBED)},
        errors=(ErrorCode.UNKNOWN_GROUP, ErrorCode.OUTCOME_UNKNOWN),
    ),
)
async def describe_group(request: Request) -> ASGIApp:
    """The group, its members, and what each may read now."""
    NO_PARAMETERS.parse(request)
    name = path_group(request)
    found = await engine_of(request).groups.describe(name)
    return await held_json(request, lambda: _described(name, found), size_bytes=row_bytes(found.row))


@router.delete(
    "/v1/groups/{group}",
    **operation(
        summary="Delete a group without members, offsets included",
        tag="groups",
        path=("group",),
        answers={204: answer("It is gone", None)},
        errors=(ErrorCode.UNKNOWN_GROUP, ErrorCode.GROUP_NOT_EMPTY, ErrorCode.OUTCOME_UNKNOWN),
    ),
)
async def delete_group(request: Request) -> Response:
    """Delete."""
    NO_PARAMETERS.parse(request)
    await engine_of(request).groups.delete(path_group(request))
    return Response(status_code=204)


def joining_of(members: Members) -> Joining:
    """What a body says of a member that joins; faults are noted.

    Raises ``RequestRefused`` (``INVALID_TOPIC_NAME``) where nothing but a topic's name is wrong.
    """
    names = members.texts("topics", count_max=SUBSCRIBED_TOPICS_MAX) if members.has("topics") else None
    pattern = members.text("topic_pattern") if members.has("topic_pattern") else None
    if (names is None) == (pattern is None):
        members.fault("topics", "or topic_pattern must be given, not both")
    elif names == []:
        members.fault("topics", "must name a topic at least")
    if pattern is not None and not 1 <= len(pattern) <= PATTERN_CHARACTERS_MAX:
        members.fault("topic_pattern", f"must have 1 to {PATTERN_CHARACTERS_MAX} characters")
    assignor = members.text("assignor") if members.has("assignor") else "range"
    if assignor not in ASSIGNORS:
        members.fault("assignor", f"must be one of {', '.join(ASSIGNORS)}")
    joining = Joining(
        topics=tuple(sorted(set(names or ()))),
        pattern=pattern,
        assignor=assignor,
        session_timeout_ms=members.integer(
            "session_timeout_ms",
            minimum=SESSION_TIMEOUT_MS_MIN,
            maximum=SESSION_TIMEOUT_MS_MAX,
            default=SESSION_TIMEOUT_MS_DEFAULT,
        ),
        client_id=optional_identifier(members, "client_id"),
        instance_id=optional_identifier(members, "instance_id"),
    )
    for topic in joining.topics:
        _check_topic(topic)
    return joining


def assignment_of(partitions: Partitions) -> list[dict[str, Any]]:
    """Partitions as the contract has them, in order."""
    return [{"topic": topic, "partition": number} for topic, number in sorted(keys_of(partitions))]


def _check_topic(topic: str) -> None:
    try:
        check_topic_name(topic)
    except RequestRefused as refusal:
        raise refused(refusal.detail, [("/topics", refusal.detail)], code=ErrorCode.INVALID_TOPIC_NAME) from None


def _described(name: str, found: GroupDescription) -> dict[str, Any]:
    return {
        "group": name,
        "state": found.state,
        "generation": 0 if found.row is None else found.row.generation,
        "assignor": None if found.row is None else found.row.assignor,
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "instance_id": member.instance_id,
                "assignment": assignment_of(readable),
                "topics": list(member.topics) if member.pattern is None else sorted(member.target),
            }
            for member, readable in found.members
        ],
    }
