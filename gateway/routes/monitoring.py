"""The history of metrics of all gateways, and the alarms of the gateway that answers."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.types import ASGIApp
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.gateway import answer_memory, engine_of, gateway_of
from gateway.groups.offsets.stalled import StalledGroup
from gateway.http import fields
from gateway.metrics_history.rollups import MINUTE_MS
from gateway.metrics_history.series import SERIES, Grid, Series
from gateway.monitoring.alarm_watch import Alarm
from gateway.openapi.problems import problems
from gateway.problem import refused
from gateway.routes.reserved_response import reserved_json
from gateway.routes.typed_route import TypedRoute
from log_format.errors import ErrorCode

router = APIRouter(route_class=TypedRoute, tags=["operations"])

POINTS_MAX: Final = 1_500
SERIES_MAX: Final = 16
DEFAULT_SERIES: Final = "produced_records,fetched_records,acknowledgement_p99_ms,lag_records"
DAY_MS: Final = 86_400_000
TICKET_AFTER_MS: Final = 5 * MINUTE_MS
_VALUE_BYTES: Final = 24
"""Estimated size of a value's JSON, and of making it."""


class HistoryQuery(fields.Parameters):
    """Which series, and of which time."""

    series: Annotated[
        str, Field(min_length=1, max_length=1_000, description=f"Names, comma-separated: {', '.join(SERIES)}")
    ] = DEFAULT_SERIES
    since: Annotated[
        fields.Timestamp | None,
        fields.NotNull(),
        fields.Digits,
        Field(description="Begin; 24 hours before `until` unless given"),
    ] = None
    until: Annotated[
        fields.Timestamp | None, fields.NotNull(), fields.Digits, Field(description="End; now unless given")
    ] = None
    step: Annotated[
        Annotated[int, fields.Between(MINUTE_MS, 366 * DAY_MS)] | None,
        fields.NotNull(),
        fields.Digits,
        Field(description="Length of a step in milliseconds, a multiple of 60000"),
    ] = None
    by: Annotated[
        Literal["cluster", "gateway", "group"],
        fields.OneOf("cluster", "gateway", "group"),
        Field(description="One series for all gateways, one for each, or, of lags, one for each group and topic"),
    ] = "cluster"


class HistorySeries(TypedDict):
    """A series: a value for each step; null where no gateway has one."""

    series: str
    gateway: NotRequired[str]
    group: NotRequired[str]
    topic: NotRequired[str]
    values: list[float | None]


class MetricsHistoryAnswer(TypedDict):
    """Series over equal steps from `since` on. `resolution_ms`: length of the intervals that they are made of. `complete`:
    whether all intervals were looked at; else the newest are missing."""

    since: fields.Timestamp
    step: fields.Count
    steps: fields.Count
    resolution_ms: fields.Count
    complete: bool
    series: list[HistorySeries]


class MonitoringAlarm(TypedDict):
    """An alarm. `about`: the values of its labels, such as the group and the topic. `since`: when it began to fire; if it is
    pending, when its threshold was passed first."""

    alarm: str
    severity: Literal["page", "ticket"]
    about: list[str]
    since: fields.Timestamp
    value: float
    said: str


class MonitoringNotice(TypedDict):
    """Something that may become an alarm. `about`: the group and the topic. `severity`: `ticket` after five minutes. `value`:
    seconds since `since`."""

    notice: Literal["ConsumerStalled"]
    severity: Literal["notice", "ticket"]
    about: list[str]
    since: fields.Timestamp
    value: float
    said: str


class MonitoringAlarms(TypedDict):
    """The alarms of this gateway; other gateways judge their own. `pending`: those whose thresholds are passed, but not for long
    enough to fire. `notices`: groups of the whole cluster that have unread records and have committed nothing for 30 seconds, at
    most 64."""

    gateway: str
    alarms: list[MonitoringAlarm]
    pending: list[MonitoringAlarm]
    notices: list[MonitoringNotice]


@router.get("/v1/monitoring/alarms")
@needs(Need("Describe", "cluster"))
async def monitoring_alarms(request: Request) -> MonitoringAlarms:
    """Read the alarms of this gateway that fire, those that are pending, the most urgent first, and groups that are stalled."""
    gateway = gateway_of(request)
    stalled, now_ms = await gateway.engine.groups.stalled.look(), gateway.engine.clock.now_ms()
    return {
        "gateway": gateway.settings.gateway_id,
        "alarms": [_told(one) for one in gateway.alarms.firing()],
        "pending": [_told(one) for one in gateway.alarms.pending()],
        "notices": [_noticed(one, now_ms) for one in stalled],
    }


@router.get(
    "/v1/monitoring/history",
    response_model=MetricsHistoryAnswer,
    responses=problems(ErrorCode.CORRUPT_SEGMENT),
)
@needs(Need("Describe", "cluster"))
async def monitoring_history(request: Request, query: Annotated[HistoryQuery, Query()]) -> ASGIApp:
    """Read rates, latencies, lags and requests to the store of all gateways, as of a few minutes ago."""
    names = _names(query.series)
    grid = _grid(query, engine_of(request).clock.now_ms())
    found = await gateway_of(request).history.reader.read(names, grid, query.by, answer_memory(request))

    def made() -> MetricsHistoryAnswer:
        return {
            "since": grid.since_ms,
            "step": grid.step_ms,
            "steps": grid.count,
            "resolution_ms": found.resolution_ms,
            "complete": found.is_complete,
            "series": [_described(one) for one in found.series],
        }

    return await reserved_json(request, made, size_bytes=_VALUE_BYTES * (1 + grid.count) * (1 + len(found.series)))


def _names(given: str) -> list[str]:
    names = list(dict.fromkeys(given.split(",")))
    if unknown := [name for name in names if name not in SERIES]:
        what = f"names no series: {unknown[0]!r}; there are {', '.join(SERIES)}"
        raise refused(f"The parameter series {what}.", [("series", what)])
    if len(names) > SERIES_MAX:
        what = f"must name at most {SERIES_MAX} series"
        raise refused(f"The parameter series {what}.", [("series", what)])
    return names


def _grid(query: HistoryQuery, now_ms: int) -> Grid:
    """Return the steps of the query: those that the time from ``since`` to ``until`` touches."""
    until_ms = now_ms if query.until is None else query.until
    since_ms = max(0, until_ms - DAY_MS) if query.since is None else query.since
    if since_ms >= until_ms:
        raise refused("The parameter since must be before until.", [("since", "must be before until")])
    step_ms = query.step or _step_for(until_ms - since_ms)
    if step_ms % MINUTE_MS:
        what = f"must be a multiple of {MINUTE_MS}"
        raise refused(f"The parameter step {what}.", [("step", what)])
    first_ms = since_ms // step_ms * step_ms
    count = -(-(until_ms - first_ms) // step_ms)
    if count > POINTS_MAX:
        what = f"makes {count} steps of the time; at most {POINTS_MAX}"
        raise refused(f"The parameter step {what}.", [("step", what)])
    return Grid(since_ms=first_ms, step_ms=step_ms, count=count)


def _step_for(length_ms: int) -> int:
    """Return the step for a time of this length: at most 750 steps, of whole minutes, quarter-hours or hours."""
    for step_minutes in (1, 5, 15, 60, 360, 1440):
        if length_ms <= 750 * step_minutes * MINUTE_MS:
            return step_minutes * MINUTE_MS
    return -(-length_ms // (750 * DAY_MS)) * DAY_MS


def _told(one: Alarm) -> MonitoringAlarm:
    return {
        "alarm": one.rule.name,
        "severity": one.rule.severity,
        "about": list(one.about),
        "since": one.since_ms,
        "value": round(one.value, 3),
        "said": one.said,
    }


def _noticed(one: StalledGroup, now_ms: int) -> MonitoringNotice:
    age_ms = max(0, now_ms - one.since_ms)
    return {
        "notice": "ConsumerStalled",
        "severity": "notice" if age_ms < TICKET_AFTER_MS else "ticket",
        "about": [one.group, one.topic],
        "since": one.since_ms,
        "value": age_ms / 1000,
        "said": one.said(now_ms),
    }


def _described(one: Series) -> HistorySeries:
    described: dict[str, Any] = {"series": one.name, "values": one.values}
    about = {"gateway": one.gateway, "group": one.group, "topic": one.topic}
    return described | {name: value for name, value in about.items() if value is not None}  # type: ignore[return-value]
