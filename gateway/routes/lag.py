"""A list of topics with the groups that read them, and each group's lag."""

from __future__ import annotations

from typing import Annotated, Final, NotRequired

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.types import ASGIApp
from typing_extensions import TypedDict

from gateway.access.needs import needs
from gateway.gateway import allowing, engine_of
from gateway.groups.offsets.readers import TopicReaders
from gateway.http import fields
from gateway.routes.reserved_response import reserved_json
from gateway.routes.topics import TopicsQuery, topic_filter
from gateway.routes.typed_route import TypedRoute

router = APIRouter(route_class=TypedRoute, tags=["groups"])

_GROUP_TEXT_BYTES: Final = 1_024
"""Estimated size of a group's longest JSON, and of making it."""


class LagOfGroup(TypedDict):
    """A group's lag. `member_count`: members that subscribe to the topic. `lag` is null if nothing is committed for it."""

    group: str
    member_count: fields.Count
    lag: fields.Count | None


class TopicLag(TypedDict):
    """A topic and its groups, largest lag first, at most 100; `group_count` counts all."""

    topic: fields.TopicName
    groups: list[LagOfGroup]
    group_count: fields.Count


class TopicLags(TypedDict):
    """Topics that groups read. `next` is present if more follow; send it as `after`."""

    topics: list[TopicLag]
    next: NotRequired[str]


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
