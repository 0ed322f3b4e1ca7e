"""Consumer groups: members, their assignments, and the groups themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Final, Literal, NotRequired, Self

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field, model_validator
from starlette.requests import Request
from starlette.types import ASGIApp
from typing_extensions import TypedDict

from gateway.access.caller import caller_of
from gateway.access.needs import Need, needs
from gateway.gateway import allowing, check_member, engine_of, gateway_of, owner_of, require
from gateway.groups.assignment.assignors import ASSIGNORS
from gateway.groups.bounds import (
    PATTERN_CHARACTERS_MAX,
    SESSION_TIMEOUT_MS_DEFAULT,
    SESSION_TIMEOUT_MS_MAX,
    SESSION_TIMEOUT_MS_MIN,
    SUBSCRIBED_TOPICS_MAX,
)
from gateway.groups.calls.groups import GroupDescription, JoinRequest, heartbeat_interval_ms
from gateway.http import fields
from gateway.http.validation import Fault, faults_error
from gateway.openapi.problems import BODY_ERRORS, problems
from gateway.problem import refused
from gateway.routes.administration import authorize_as_owner_or_administrator
from gateway.routes.reserved_response import reserved_json
from gateway.routes.typed_route import TypedRoute
from log_format.errors import DECODE_ERRORS, ErrorCode, RequestRefused
from log_format.groups.holdings import partition_keys
from log_format.groups.memory import row_bytes
from log_format.groups.row import Partitions, Reader
from log_format.topic.config import check_topic_name

router = APIRouter(route_class=TypedRoute, tags=["groups"])

MEMBER_ERRORS: Final = (
    ErrorCode.UNKNOWN_GROUP,
    ErrorCode.UNKNOWN_MEMBER,
    ErrorCode.FENCED_MEMBER,
    ErrorCode.STALE_GENERATION,
    ErrorCode.OUTCOME_UNKNOWN,
)

KnownTopics = Annotated[
    list[fields.TopicName], fields.ErrorMessage("must be a list of strings"), Field(max_length=SUBSCRIBED_TOPICS_MAX)
]
Generation = Annotated[int, fields.Between(0)]
State = Annotated[str, fields.OneOf("Empty", "Reconciling", "Stable")]


Pattern = Annotated[
    str,
    Field(
        min_length=1,
        max_length=PATTERN_CHARACTERS_MAX,
        description="A regular expression in Python's syntax. It must match a topic's whole name",
    ),
    fields.ErrorMessage(f"must have 1 to {PATTERN_CHARACTERS_MAX} characters"),
]


class Subscription(fields.Body):
    """The subscription of a member that joins: `topics` or `topic_pattern`."""

    topics: Annotated[KnownTopics | None, fields.NotNull(), Field(json_schema_extra={"minItems": 1})] = None
    topic_pattern: Annotated[Pattern | None, fields.NotNull()] = None
    assignor: Annotated[str, fields.OneOf(*ASSIGNORS)] = "range"
    session_timeout_ms: Annotated[int, fields.Between(SESSION_TIMEOUT_MS_MIN, SESSION_TIMEOUT_MS_MAX)] = (
        SESSION_TIMEOUT_MS_DEFAULT
    )
    client_id: fields.Identifier | None = None
    instance_id: fields.Identifier | None = None

    def subscription_faults(self) -> list[Fault]:
        """Return the errors of the fields in combination."""
        if (self.topics is None) == (self.topic_pattern is None):
            return [(("topics",), "or topic_pattern must be given, not both")]
        return [(("topics",), "must name a topic at least")] if self.topics == [] else []

    def joining(self, request: Request) -> JoinRequest:
        """Return the join for the engine. Raise ``RequestRefused`` (``INVALID_TOPIC_NAME``), ``Unauthorized``."""
        topics = tuple(sorted(set(self.topics or ())))
        require(request, "Read", "topic", *topics)
        for topic in topics:
            _check_topic(topic)
        caller = caller_of(request)
        return JoinRequest(
            reader=Reader(caller.principal, caller.groups) if gateway_of(request).rights.enforced else None,
            topics=topics,
            pattern=self.topic_pattern,
            assignor=self.assignor,
            session_timeout_ms=self.session_timeout_ms,
            client_id=self.client_id,
            instance_id=self.instance_id,
            owner=owner_of(request),
        )


class Join(Subscription, example={"topics": ["flights"]}):
    """The member that joins."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if found := self.subscription_faults():
            raise faults_error(found)
        return self


class Beat(fields.Body, example={"generation": 1}):
    """The generation that the member acknowledges."""

    generation: Generation

    @classmethod
    def plain(cls, data: bytes) -> PlainBeat | None:
        """Decode the body without the full model; None if that has to check it. The only name has two quotes, so the count of
        quotes reveals a duplicate."""
        if data.count(b'"') != 2:
            return None
        try:
            return _PLAIN_BEAT_DECODER.decode(data)
        except DECODE_ERRORS:
            return None


class PlainBeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A heartbeat decoded without ``Beat``, whose members it has."""

    generation: Annotated[int, msgspec.Meta(ge=0, le=fields.INT64_MAX)]


_PLAIN_BEAT_DECODER: Final = msgspec.json.Decoder(PlainBeat)


class GroupsQuery(fields.Parameters):
    """Page of the list of groups."""

    limit: fields.Limit = fields.LIST_LIMIT
    after: Annotated[str, Field(max_length=255, description="Only names after this one")] = ""


class GroupQuery(fields.Parameters):
    """Additional parts of a group's description."""

    include: Annotated[
        Literal["activity"] | None,
        Field(description="`activity`: also when each member was heard of and committed"),
    ] = None


class AssignedPartition(TypedDict):
    """A partition that a member may read now."""

    topic: fields.TopicName
    partition: fields.Partition


class Heard(TypedDict):
    """The newest generation, and the partitions that the member may read now."""

    generation: Generation
    assignment: list[AssignedPartition]
    heartbeat_interval_ms: Annotated[int, fields.Between(1)]


class Member(Heard):
    """A new member."""

    member_id: fields.Opaque


class GroupSummary(TypedDict):
    """A group in a list."""

    group: fields.Identifier
    state: State
    generation: Generation
    member_count: fields.Count


class GroupPage(TypedDict):
    """One page of groups. `next` is present if more follow; send it as `after`."""

    groups: list[GroupSummary]
    next: NotRequired[str]


class GroupMember(TypedDict):
    """A member of a group, and the partitions that it may read now.

    If they are included: `heard_at`, its last call, such as a heartbeat; null: not known. `committed_at`, its last commit; null:
    none, or not known.
    """

    member_id: fields.Opaque
    client_id: str | None
    instance_id: str | None
    assignment: list[AssignedPartition]
    topics: list[fields.TopicName]
    heard_at: NotRequired[fields.Timestamp | None]
    committed_at: NotRequired[fields.Timestamp | None]


class Group(TypedDict):
    """A group and its members."""

    group: fields.Identifier
    state: State
    generation: Generation
    assignor: str | None
    members: list[GroupMember]


@router.post(
    "/v1/groups/{group}/members",
    status_code=201,
    responses=problems(
        *BODY_ERRORS,
        ErrorCode.INCONSISTENT_ASSIGNOR,
        ErrorCode.UNKNOWN_MEMBER,
        ErrorCode.FENCED_MEMBER,
        ErrorCode.INVALID_TOPIC_NAME,
        ErrorCode.OUTCOME_UNKNOWN,
    ),
)
@needs(Need("Read", "group", path="group"), Need("Read", "topic"))
async def join_group(request: Request, group: fields.GroupPath, wanted: Join) -> Member:
    """Join a group. A static member that returns keeps its partitions."""
    joining = wanted.joining(request)
    _, joined = await engine_of(request).groups.join(group, joining)
    member = joined.member
    return {
        "member_id": member.member_id,
        "generation": member.acknowledged,
        "assignment": assignment_of(joined.readable),
        "heartbeat_interval_ms": heartbeat_interval_ms(member.session_timeout_ms),
    }


@router.post("/v1/groups/{group}/members/{member}/heartbeat", responses=problems(*MEMBER_ERRORS, *BODY_ERRORS))
@needs(Need("Read", "group", path="group"))
async def heartbeat(request: Request, group: fields.GroupPath, member: fields.MemberPath, beat: Beat) -> Heard:
    """Renew a member's session, and acknowledge a generation.

    The answer may name a newer generation. The member then stops reading the partitions that it lost, commits their offsets, and
    acknowledges the newer generation by a heartbeat.
    """
    live = await engine_of(request).groups.of_member(group, member)
    await check_member(request, group, member)
    heard = await live.heartbeat(member, beat.generation)
    live.note_told(member, heard.generation)
    return {
        "generation": heard.generation,
        "assignment": assignment_of(heard.readable),
        "heartbeat_interval_ms": heartbeat_interval_ms(heard.session_timeout_ms),
    }


@router.delete("/v1/groups/{group}/members/{member}", status_code=204, responses=problems(*MEMBER_ERRORS))
@needs(Need("Read", "group", path="group", or_alter_cluster=True))
async def leave_group(request: Request, group: fields.GroupPath, member: fields.MemberPath) -> None:
    """Leave a group. The member's partitions are reassigned immediately."""
    leave = partial(engine_of(request).groups.leave, group, member)
    await authorize_as_owner_or_administrator(request, _check_own(request, group, member), leave)


async def _check_own(request: Request, group: str, member: str) -> None:
    require(request, "Read", "group", group)
    await check_member(request, group, member)


@router.get("/v1/groups")
@needs()
async def list_groups(request: Request, query: Annotated[GroupsQuery, Query()]) -> GroupPage:
    """List groups by name, in pages."""
    shown = allowing(request, "Describe", "group")
    found, more = await engine_of(request).groups.page(query.after, query.limit, shown)
    page: GroupPage = {
        "groups": [
            {"group": one.name, "state": one.state, "generation": one.generation, "member_count": one.member_count}
            for one in found
        ]
    }
    if more:
        page["next"] = found[-1].name
    return page


@router.get(
    "/v1/groups/{group}", response_model=Group, responses=problems(ErrorCode.UNKNOWN_GROUP, ErrorCode.OUTCOME_UNKNOWN)
)
@needs(Need("Describe", "group", path="group"))
async def describe_group(request: Request, group: fields.GroupPath, query: Annotated[GroupQuery, Query()]) -> ASGIApp:
    """Describe a group: its members, and the partitions that each may read now, of topics that the caller may describe."""
    found = await engine_of(request).groups.describe(group)
    shown = allowing(request, "Describe", "topic")
    with_activity = query.include == "activity"
    return await reserved_json(
        request, lambda: _describe(group, found, shown, with_activity=with_activity), size_bytes=row_bytes(found.row)
    )


@router.delete(
    "/v1/groups/{group}",
    status_code=204,
    responses=problems(ErrorCode.UNKNOWN_GROUP, ErrorCode.GROUP_NOT_EMPTY, ErrorCode.OUTCOME_UNKNOWN),
)
@needs(Need("Delete", "group", path="group"))
async def delete_group(request: Request, group: fields.GroupPath) -> None:
    """Delete a group that has no members, with its offsets."""
    await engine_of(request).groups.delete(group)


def assignment_of(partitions: Partitions) -> list[AssignedPartition]:
    """Return the partitions as the API lists them, sorted."""
    return [{"topic": topic, "partition": number} for topic, number in sorted(partition_keys(partitions))]


def _check_topic(topic: str) -> None:
    try:
        check_topic_name(topic)
    except RequestRefused as refusal:
        raise refused(refusal.detail, [("/topics", refusal.detail)], code=ErrorCode.INVALID_TOPIC_NAME) from None


def _describe(name: str, found: GroupDescription, shown: Callable[[str], bool], *, with_activity: bool) -> Group:
    members: list[GroupMember] = []
    for member, readable in found.members:
        described: GroupMember = {
            "member_id": member.member_id,
            "client_id": member.client_id,
            "instance_id": member.instance_id,
            "assignment": [one for one in assignment_of(readable) if shown(one["topic"])],
            "topics": list(filter(shown, member.topics if member.pattern is None else sorted(member.target))),
        }
        if with_activity:
            described["heard_at"] = found.heard_ms.get(member.member_id)
            described["committed_at"] = found.committed_ms.get(member.member_id)
        members.append(described)
    return {
        "group": name,
        "state": found.state,
        "generation": 0 if found.row is None else found.row.generation,
        "assignor": None if found.row is None else found.row.assignor,
        "members": members,
    }
