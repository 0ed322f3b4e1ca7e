"""The lag of a group, and a list of topics with the groups that read them and their lag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, NotRequired

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.types import ASGIApp
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.gateway import allowing, engine_of
from gateway.groups.offsets.lag import PartitionLag
from gateway.groups.offsets.readers import TopicReaders
from gateway.http import fields
from gateway.openapi.problems import problems
from gateway.routes.reserved_response import reserved_json
from gateway.routes.topics import TopicsQuery, topic_filter
from gateway.routes.typed_route import TypedRoute
from log_format.errors import ErrorCode

router = APIRouter(route_class=TypedRoute, tags=["groups"])

_LAG_TEXT_BYTES: Final = 400
"""Estimated memory of a partition's lag as an object and as JSON."""
_GROUP_TEXT_BYTES: Final = 1_024
"""Estimated size of a group's longest JSON, and of making it."""


class LagOfGroup(TypedDict):
    """A group's lag. `member_count`: members that subscribe to the topic. `lag`: number of unread records, counted from the log
    start where nothing is committed."""

    group: str
    member_count: fields.Count
    lag: fields.Count


class TopicLag(TypedDict):
    """A topic and its groups, largest lag first, at most 100; `group_count` counts all."""

    topic: fields.TopicName
    groups: list[LagOfGroup]
    group_count: fields.Count


class TopicLags(TypedDict):
    """Topics that groups read. `next` is present if more follow; send it as `after`."""

    topics: list[TopicLag]
    next: NotRequired[str]


class LagQuery(fields.Parameters):
    """Additional parts of a group's lag."""

    include: Annotated[
        Literal["unread"] | None,
        Field(description="`unread`: also what is unread, counted from the log start where nothing is committed"),
    ] = None


class LagOfPartition(TypedDict):
    """The lag of a partition. Null: no offset is committed; `unread` and `unread_ms`, if they are included, count from the log
    start then."""

    partition: fields.Partition
    committed_offset: fields.Count | None
    high_watermark: fields.Count
    lag: fields.Count | None
    lag_ms: fields.Count | None
    unread: NotRequired[fields.Count]
    unread_ms: NotRequired[fields.Count]


class LagOfTopic(TypedDict):
    """The lag of a topic's partitions."""

    topic: fields.TopicName
    partitions: list[LagOfPartition]


class Lag(TypedDict):
    """The lag of every partition that the group subscribes to or has offsets for. `total`: of partitions with a committed offset;
    `unread`, if it is included: of all."""

    topics: list[LagOfTopic]
    total: fields.Count
    unread: NotRequired[fields.Count]


@router.get(
    "/v1/groups/{group}/lag", response_model=Lag, responses=problems(ErrorCode.UNKNOWN_GROUP, ErrorCode.OUTCOME_UNKNOWN)
)
@needs(Need("Describe", "group", path="group"))
async def group_lag(request: Request, group: fields.GroupPath, query: Annotated[LagQuery, Query()]) -> ASGIApp:
    """Return a group's lag: records and time between its committed offsets and the high watermarks."""
    found = await engine_of(request).groups.lag.of_group(group, allowing(request, "Describe", "topic"))
    return await reserved_json(
        request, lambda: _lag(found, with_unread=query.include == "unread"), size_bytes=_LAG_TEXT_BYTES * len(found)
    )


def _lag(found: Sequence[PartitionLag], *, with_unread: bool) -> Lag:
    topics: dict[str, list[LagOfPartition]] = {}
    for one in found:
        described: LagOfPartition = {
            "partition": one.partition,
            "committed_offset": one.committed_offset,
            "high_watermark": one.high_watermark,
            "lag": one.lag,
            "lag_ms": one.lag_ms,
        }
        if with_unread:
            described |= {"unread": one.unread, "unread_ms": one.unread_ms}
        topics.setdefault(one.topic, []).append(described)
    listed: list[LagOfTopic] = [{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()]
    lag: Lag = {"topics": listed, "total": sum(one.lag or 0 for one in found)}
    if with_unread:
        lag["unread"] = sum(one.unread for one in found)
    return lag


@router.get("/v1/lag", response_model=TopicLags)
@needs()
async def topic_lags(request: Request, query: Annotated[TopicsQuery, Query()]) -> ASGIApp:
    """List topics with the groups that read them and their lag in records, known as of a few seconds ago, in pages."""
    found, next_after = await engine_of(request).groups.readers.page(
        query.after,
        query.limit,
        topic_shown=topic_filter(query, allowing(request, "Describe", "topic")),
        group_shown=allowing(request, "Describe", "group"),
    )

    def made() -> TopicLags:
        page: TopicLags = {"topics": [_describe(one) for one in found]}
        if next_after is not None:
            page["next"] = next_after
        return page

    return await reserved_json(request, made, size_bytes=_GROUP_TEXT_BYTES * sum(1 + len(one.groups) for one in found))


def _describe(one: TopicReaders) -> TopicLag:
    return {
        "topic": one.topic,
        "groups": [
            {"group": group.group, "member_count": group.member_count, "lag": group.lag} for group in one.groups
        ],
        "group_count": one.group_count,
    }
