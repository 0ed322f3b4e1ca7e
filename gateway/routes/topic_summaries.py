"""``GET /v1/topics:summary``: topics in any order, page by page, with their readers, and all of them added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NotRequired

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.types import ASGIApp
from typing_extensions import TypedDict

from gateway.access.needs import needs
from gateway.engine.topic_survey import LISTED_NAMES_MAX, TopicFigures, figures_of
from gateway.gateway import allowing, engine_of
from gateway.groups.offsets.readers import TopicReaders
from gateway.http import fields
from gateway.problem import refused
from gateway.routes.lag import LagOfGroup
from gateway.routes.reserved_response import reserved_json
from gateway.routes.topics import LIST_AGE_MS_MAX, Damaged
from gateway.routes.typed_route import TypedRoute
from log_format import limits
from log_format.topic.arrivals import arrivals
from log_format.topic.state import TopicState

router = APIRouter(route_class=TypedRoute, tags=["topics"])

PAGE_MAX: Final = 1_000
AGE_MS_DEFAULT: Final = 10_000
GROUPS_SHOWN: Final = 3
DAMAGED_SHOWN: Final = 100
_ROW_BYTES: Final = 2_048
"""Estimated size of a topic's longest JSON, and of making it."""
_SPANS: Final = {"hour": (12, 300_000), "day": (24, 3_600_000)}
"""Number and length in milliseconds of the steps of an activity."""
_ORDERS: Final[Mapping[str, Callable[[TopicFigures], float | None]]] = {
    "partitions": lambda one: one.partition_count,
    "records": lambda one: one.record_count,
    "size": lambda one: one.size_bytes,
    "segments": lambda one: one.segment_count,
    "rate": lambda one: one.rate,
}
Sort = Literal["name", "partitions", "records", "size", "segments", "rate", "lag"]


class SummaryQuery(fields.Parameters):
    """Filter, order and page of topics."""

    search: Annotated[
        str, Field(max_length=limits.TOPIC_NAME_CHARACTERS_MAX, description="Only names that contain it, in any case")
    ] = ""
    read: Annotated[
        Literal["any", "none", "by", "not"],
        Field(description="`none`: only topics that no group reads; `by`, `not`: that `group` reads, or does not"),
    ] = "any"
    group: Annotated[str, Field(max_length=fields.IDENTIFIER_BYTES_MAX)] = ""
    sort: Sort = "name"
    order: Literal["asc", "desc"] = "asc"
    skip: Annotated[
        int, fields.Between(0, LISTED_NAMES_MAX), fields.Digits, Field(description="Topics before the page")
    ] = 0
    limit: Annotated[int, fields.Between(0, PAGE_MAX), fields.Digits, Field(description="Topics of the page")] = 100
    max_age_ms: Annotated[
        int,
        fields.Between(0, LIST_AGE_MS_MAX),
        fields.Digits,
        Field(description="Allowed staleness of the page, in milliseconds; saves requests to the store"),
    ] = AGE_MS_DEFAULT
    activity: Annotated[
        Literal["hour", "day"] | None,
        fields.NotNull(),
        Field(description="Also the records of each five minutes of the last hour, or of each hour of the last day"),
    ] = None


class TopicSummary(TypedDict):
    """A topic. `rate`: records a second between two looks; null before the second. `lag`: of all groups together; null: none has
    committed. `groups`: the three that are furthest behind. `activity`: records by their timestamps, the oldest step first."""

    name: fields.TopicName
    partition_count: fields.Count
    records: fields.Count
    size_bytes: fields.Count
    segments: fields.Count
    rate: float | None
    mode: Literal["own", "shared"]
    created_at: fields.Timestamp
    retention_ms: int
    schema: str | None
    lag: fields.Count | None
    group_count: fields.Count
    groups: list[LagOfGroup]
    activity: NotRequired[list[fields.Count]]


class TopicTotals(TypedDict):
    """All topics of the filter. `looked_at`: how many of them the sums and the order are of, as of some minutes ago at most; the
    others are still being looked at. `rate`: null before a second look at any of them."""

    topics: fields.Count
    looked_at: fields.Count
    damaged: fields.Count
    partitions: fields.Count
    records: fields.Count
    size_bytes: fields.Count
    segments: fields.Count
    rate: float | None


class TopicSummaries(TypedDict):
    """One page of topics, the damaged ones of the filter (at most 100), and the sums of all of the filter."""

    topics: list[TopicSummary]
    damaged: list[Damaged]
    total: TopicTotals


@router.get("/v1/topics:summary", response_model=TopicSummaries)
@needs()
async def summarize_topics(request: Request, query: Annotated[SummaryQuery, Query()]) -> ASGIApp:
    """List topics in any order, in pages, with their readers and the sums of all topics of the filter."""
    engine, now_ms = engine_of(request), engine_of(request).clock.now_ms()
    shown, search = allowing(request, "Describe", "topic"), query.search.lower()
    names = [
        name
        for name in await engine.administration.recent_names(query.max_age_ms)
        if search in name.lower() and shown(name)
    ]
    if len(names) > LISTED_NAMES_MAX:
        what = (
            f"selects {len(names)} topics; at most {LISTED_NAMES_MAX} are summed up: search for a part of their names"
        )
        raise refused(f"The request {what}.", [("search", what)])
    known = await engine.administration.survey.figures(names, query.max_age_ms)
    readers: Mapping[str, TopicReaders] = {}
    if query.sort == "lag" or query.read == "none":
        readers = await _readers(request, names)
    if query.read == "none":
        names = [name for name in names if name not in readers]
    elif query.read != "any" and query.group:
        # Asked by itself: of a topic's groups only those that are furthest behind are listed.
        reading = await _readers(request, names, only=query.group)
        names = [name for name in names if (name in reading) == (query.read == "by")]
    names = [name for name in names if name not in known or known[name].exists]
    page = _sorted(query, names, known, readers)[query.skip : query.skip + query.limit]
    states = await engine.administration.survey.look(
        [name for name in page if name not in known or known[name].problem is None], query.max_age_ms
    )
    readers = readers or await _readers(request, [state.topic for state in states])
    figures = [known[name] for name in names if name in known]
    damaged: list[Damaged] = [
        {"name": name, "error_code": problem.code, "detail": problem.detail}
        for name in names
        if (problem := known[name].problem if name in known else None) is not None
    ]

    def made() -> TopicSummaries:
        return {
            "topics": [
                _summary(
                    state,
                    known.get(state.topic) or figures_of(state, now_ms, None),
                    readers.get(state.topic),
                    query.activity,
                    now_ms,
                )
                for state in states
            ],
            "damaged": damaged[:DAMAGED_SHOWN],
            "total": {
                "topics": len(names),
                "looked_at": len(figures),
                "damaged": len(damaged),
                "partitions": sum(one.partition_count for one in figures),
                "records": sum(one.record_count for one in figures),
                "size_bytes": sum(one.size_bytes for one in figures),
                "segments": sum(one.segment_count for one in figures),
                "rate": sum(rates) if (rates := [one.rate for one in figures if one.rate is not None]) else None,
            },
        }

    return await reserved_json(request, made, size_bytes=_ROW_BYTES * (len(states) + min(len(damaged), DAMAGED_SHOWN)))


async def _readers(request: Request, names: Sequence[str], *, only: str | None = None) -> dict[str, TopicReaders]:
    """Return the groups of these topics that the caller may see, by topic. ``only``: this group alone."""
    shown = allowing(request, "Describe", "group")
    found, _ = await engine_of(request).groups.readers.page(
        "",
        len(names) + 1,
        topic_shown=frozenset(names).__contains__,
        group_shown=lambda name: only in (None, name) and shown(name),
    )
    return {one.topic: one for one in found}


def _sorted(
    query: SummaryQuery, names: list[str], known: Mapping[str, TopicFigures], readers: Mapping[str, TopicReaders]
) -> list[str]:
    """Return the names in the query's order; those whose value is not known come last, by name."""
    if query.sort == "name":
        return names[::-1] if query.order == "desc" else names
    value_of = _ORDERS.get(query.sort)

    def value(name: str) -> float | None:
        if value_of is None:
            return readers[name].lag if name in readers else None
        return None if name not in known else value_of(known[name])

    sign = -1 if query.order == "desc" else 1
    keyed = [(value(name), name) for name in names]
    return [name for _, _, name in sorted((found is None, sign * (found or 0), name) for found, name in keyed)]


def _summary(
    state: TopicState, figures: TopicFigures, readers: TopicReaders | None, activity: str | None, now_ms: int
) -> TopicSummary:
    config: dict[str, Any] = state.config.effective()
    summary: TopicSummary = {
        "name": state.topic,
        "partition_count": state.partition_count,
        "records": figures.record_count,
        "size_bytes": figures.size_bytes,
        "segments": figures.segment_count,
        "rate": figures.rate,
        "mode": "own" if state.attachment is None else "shared",
        "created_at": state.created_at_ms,
        "retention_ms": config["retention.ms"],
        "schema": config.get("value.schema") or config.get("key.schema"),
        "lag": readers.lag if readers else None,
        "group_count": readers.group_count if readers else 0,
        "groups": [
            {"group": one.group, "member_count": one.member_count, "lag": one.lag}
            for one in (readers.groups[:GROUPS_SHOWN] if readers else ())
        ],
    }
    if activity is not None:
        count, step_ms = _SPANS[activity]
        summary["activity"] = arrivals(state, now_ms, count, step_ms)
    return summary
