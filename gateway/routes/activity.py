"""The last hour of the gateway that answers."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.requests import Request
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.gateway import gateway_of
from gateway.http import fields
from gateway.monitoring.activity import INTERVAL_MS, Point
from gateway.routes.typed_route import TypedRoute

router = APIRouter(route_class=TypedRoute, tags=["operations"])


class ActivityPoints(TypedDict):
    """A value for each point, oldest first. Rates are per second; latencies are null if nothing was committed."""

    at: list[fields.Timestamp]
    produced_records: list[float]
    produced_bytes: list[float]
    fetched_records: list[float]
    sent_bytes: list[float]
    commit_p50_ms: list[float | None]
    commit_p99_ms: list[float | None]
    acknowledgement_p50_ms: list[float | None]
    acknowledgement_p99_ms: list[float | None]


class LastHour(TypedDict):
    """Activity of this gateway in the last hour at most; other gateways report their own."""

    gateway: str
    interval_ms: fields.Count
    points: ActivityPoints


@router.get("/v1/activity")
@needs(Need("Describe", "cluster"))
async def activity(request: Request) -> LastHour:
    """Read rates and latencies of this gateway's last hour."""
    gateway = gateway_of(request)
    points = gateway.activity.points
    return {
        "gateway": gateway.settings.gateway_id,
        "interval_ms": INTERVAL_MS,
        "points": _columns(points),
    }


def _columns(points: Sequence[Point]) -> ActivityPoints:
    return {
        "at": [one.at_ms for one in points],
        "produced_records": [round(one.produced_records, 2) for one in points],
        "produced_bytes": [round(one.produced_bytes, 1) for one in points],
        "fetched_records": [round(one.fetched_records, 2) for one in points],
        "sent_bytes": [round(one.sent_bytes, 1) for one in points],
        "commit_p50_ms": [_rounded(one.commit_p50_ms) for one in points],
        "commit_p99_ms": [_rounded(one.commit_p99_ms) for one in points],
        "acknowledgement_p50_ms": [_rounded(one.acknowledgement_p50_ms) for one in points],
        "acknowledgement_p99_ms": [_rounded(one.acknowledgement_p99_ms) for one in points],
    }


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 2)
