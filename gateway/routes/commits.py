"""The newest commits of a topic's table: when each was made, by which program, and what it did."""

from __future__ import annotations

from typing import Annotated, Final, NotRequired

from fastapi import APIRouter, Query
from pydantic import Field, field_validator
from starlette.requests import Request
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.gateway import engine_of
from gateway.http import fields
from gateway.openapi.problems import problems
from gateway.routes.typed_route import TypedRoute
from log_format.delta.commit_summary import CommitSummary
from log_format.errors import ErrorCode

router = APIRouter(route_class=TypedRoute, tags=["topics"])

COMMITS_DEFAULT: Final = 20
COMMITS_MAX: Final = 50
"""Most commits of one answer: each takes a read of the store."""


class CommitsQuery(fields.Parameters):
    """Page of the list of commits."""

    before: Annotated[fields.Offset, Field(description="Only versions below this one: `next` of the previous page")] = (
        fields.INT64_MAX
    )
    limit: Annotated[int, fields.Between(1, COMMITS_MAX)] = COMMITS_DEFAULT

    _digits = field_validator("*", mode="before")(fields.parse_number)


class TopicCommit(TypedDict):
    """One version of the table. `records` are new ones; `added` and `removed` count files. Null: the commit does not say.

    `marked`: of a typed topic, how many of the records are not of its schema (`data_error` says why).
    """

    version: fields.Count
    at: fields.Timestamp | None
    operation: str | None
    by: str | None
    records: fields.Count
    marked: NotRequired[fields.Count]
    added: fields.Count
    added_bytes: fields.Count
    removed: fields.Count


class TopicCommits(TypedDict):
    """Commits, newest first. `next` is present if more may follow; send it as `before`."""

    commits: list[TopicCommit]
    next: NotRequired[fields.Count]


@router.get("/v1/topics/{topic}/commits", responses=problems(ErrorCode.UNKNOWN_TOPIC))
@needs(Need("Describe", "topic", path="topic"))
async def list_commits(
    request: Request, topic: fields.TopicPath, query: Annotated[CommitsQuery, Query()]
) -> TopicCommits:
    """List the newest commits of a topic's table. Records that are still in a journal only are in none of them."""
    engine = engine_of(request)
    state = await engine.administration.describe(topic)
    found = await engine.history_plans.commits(state, query.before, query.limit)
    page: TopicCommits = {"commits": [_describe(version, one) for version, one in found]}
    if len(found) == query.limit and found[-1][0] > 0:
        page["next"] = found[-1][0]
    return page


def _describe(version: int, one: CommitSummary) -> TopicCommit:
    commit: TopicCommit = {
        "version": version,
        "at": one.at_ms,
        "operation": one.operation,
        "by": one.by,
        "records": one.record_count,
        "added": one.added_count,
        "added_bytes": one.added_bytes,
        "removed": one.removed_count,
    }
    if one.marked_count is not None:
        commit["marked"] = one.marked_count
    return commit
