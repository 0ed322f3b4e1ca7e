"""Operations: liveness, readiness, metrics, limits, and the description of the API."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Annotated, Final, Literal, NotRequired

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs, open_to_all
from gateway.gateway import Gateway, allowing, gateway_of
from gateway.http import fields
from gateway.monitoring.maintenance_watch import MaintenanceLook, MaintenanceState
from gateway.openapi.docs_page import DOCS_HEADERS, DOCS_PAGE
from gateway.problem import as_tidelog_error
from gateway.routes.typed_route import TypedRoute
from gateway.telemetry import metrics
from gateway.telemetry.workers_page import WorkersPage
from log_format import limits
from log_format.access.acls import CLUSTER
from log_format.errors import BackOff, ErrorCode, StoreError, StoreReason, TidelogError
from log_format.version import __version__

probes = APIRouter(route_class=TypedRoute, tags=["operations"])
"""Routes on both listeners."""
router = APIRouter(route_class=TypedRoute, tags=["operations"])
"""Routes on the clients' listener only."""
operators = APIRouter(route_class=TypedRoute, tags=["operations"])
"""Routes on the operations listener only: the same paths, with details that clients need not know."""

STORE_CHECK_TRUSTED_MS: Final = 1_000
"""Time for which one check of the store answers every probe, so that probes do not load the store."""
STORE_CHECK_TIMEOUT_MS: Final = 5_000
"""Time after which a store counts as not answering."""

_LIMITS: Final = (
    "auto_create_topics",
    "request_bytes_max",
    "in_flight_bytes_max",
    "answer_bytes_max",
    "waiting_polls_max",
    "connections_max",
    "body_idle_ms",
    "body_total_ms",
)
_STORE_DIGITS: Final = 16
"""Hexadecimal digits of a store's digest: 64 bits tell the stores apart that one client may meet."""
_log = logging.getLogger("gateway.readiness")


class FailingWrites(TypedDict):
    """Writes of this gateway to its store have failed since `since`; `detail` says why, for people."""

    since: fields.Timestamp
    reason: Annotated[str, fields.OneOf(*map(str, StoreReason))]
    detail: str


class Status(TypedDict):
    """The state of the gateway. `failing_writes` is present while it can read and can't write."""

    status: str
    failing_writes: NotRequired[FailingWrites]


class ClusterGateway(TypedDict):
    """A live gateway."""

    id: str
    url: str
    started_at: fields.Timestamp
    owned_topics: fields.Count
    zone: Annotated[str | None, Field(description="Its availability zone; null: it was told none")]
    kafka: Annotated[str | None, Field(description="HOST:PORT for Kafka's clients; null: it has no such listener")]


class ClusterJournals(TypedDict):
    """Journals with topics, as this gateway knows them. `held_back`: why no further topic may move to a journal; null: it may."""

    in_use: fields.Count
    topics: fields.Count
    held_back: str | None


class Cluster(TypedDict):
    """The live gateways of one store. `limits` has settings of this gateway and limits of the format."""

    gateways: list[ClusterGateway]
    store: Annotated[
        str | None,
        Field(
            description=(
                "Its kind and a digest of its URI: the same for gateways of one store. Operators see the URI itself."
                " null: the caller may not describe the cluster"
            )
        ),
    ]
    version: str
    limits: dict[str, fields.Count]
    journals: ClusterJournals
    failing_writes: Annotated[
        FailingWrites | None, Field(description="Of the gateway that answers; null: its writes succeed")
    ]
    maintenance: NotRequired[Maintenance]


class Maintenance(TypedDict):
    """What is known of maintenance by its sign of life. `state`: `unknown`: the store has not answered yet; `never`: it gave no
    sign; `single`: it runs when somebody starts it; `regular`: at an interval; `overdue`: so it should, and does not.
    `failed_topics`: of the last round over all topics, which ended at `round_ended_at`."""

    state: MaintenanceState
    seen_at: fields.Timestamp | None
    round_ended_at: fields.Timestamp | None
    failed_topics: fields.Count


class ClusterQuery(fields.Parameters):
    """Additional parts of the cluster."""

    include: Annotated[
        Literal["maintenance"] | None,
        Field(description="`maintenance`: also when maintenance ran last, as of a minute ago at most"),
    ] = None


class StoreCheck:
    """Check whether the store answers, made at most once a second and for one request at a time."""

    def __init__(self) -> None:
        self._asking: asyncio.Task[TidelogError | None] | None = None
        self._asked_at_ms = -STORE_CHECK_TRUSTED_MS

    async def error(self, gateway: Gateway) -> TidelogError | None:
        """Return why the store does not answer; None if it does."""
        now_ms = gateway.clock.monotonic_ms()
        if self._asking is None or (self._asking.done() and now_ms - self._asked_at_ms >= STORE_CHECK_TRUSTED_MS):
            self._asked_at_ms = now_ms
            self._asking = asyncio.create_task(self._ask(gateway))
        return await asyncio.shield(self._asking)

    async def _ask(self, gateway: Gateway) -> TidelogError | None:
        try:
            async with asyncio.timeout(STORE_CHECK_TIMEOUT_MS / 1000):
                await gateway.engine.store_answers()
        except TimeoutError:
            return BackOff(f"The store did not answer within {STORE_CHECK_TIMEOUT_MS} ms.")
        except (StoreError, TidelogError, OSError) as error:
            _log.warning("the store does not answer", exc_info=error)
            known = as_tidelog_error(error)
            return known if known.status == 503 else BackOff("The store answered with an unexpected error.")
        return None


@probes.get("/healthz")
@open_to_all
async def healthz() -> Status:
    """Return whether the process is alive: its event loop runs."""
    return {"status": "alive"}


@probes.get("/readyz")
@open_to_all
async def readyz(request: Request) -> Status:
    """Return whether the gateway can serve: the store answers, and the gateway is not shutting down.

    503 `DRAINING` or `UNAVAILABLE` tells a load balancer to send requests elsewhere. A gateway that reads the store and can't
    write stays ready and says so: most often no other gateway can write either, and then nobody would serve readers.
    """
    gateway = gateway_of(request)
    if gateway.engine.draining:
        raise BackOff("The gateway is shutting down.", code=ErrorCode.DRAINING)
    check: StoreCheck = request.app.state.store_check
    error = await check.error(gateway)
    if error is not None:
        raise BackOff(error.detail, code=error.code) from error
    failing = _failing_writes(gateway)
    return {"status": "ready"} if failing is None else {"status": "ready", "failing_writes": failing}


@router.get("/metrics", response_class=PlainTextResponse)
@needs(Need("Describe", "cluster"))
async def scrape(request: Request) -> Response:
    """Return the metrics in Prometheus' text format.

    If several workers share the port, the metrics of all of them, each sample with the label `worker`.
    """
    workers: WorkersPage | None = request.app.state.workers_page
    page = None if workers is None else await workers.read()
    if page is None:
        return await scrape_one(request)
    return Response(page, headers={"content-type": metrics.CONTENT_TYPE})


@operators.get("/metrics", response_class=PlainTextResponse, include_in_schema=False)
@needs(Need("Describe", "cluster"))
async def scrape_one(request: Request) -> Response:
    """Return the metrics of this process alone."""
    gateway = gateway_of(request)
    gateway.metrics.request_memory.set(gateway.request_memory.used_bytes)
    gateway.metrics.answer_memory.set(gateway.answer_memory.used_bytes)
    await gateway.engine.measure()
    return Response(gateway.metrics.exposition(), headers={"content-type": metrics.CONTENT_TYPE})


@router.get("/v1/cluster")
@needs()
async def cluster(request: Request, query: Annotated[ClusterQuery, Query()]) -> Cluster:
    """List the live gateways of this store, as this one sees them, and its limits."""
    gateway = gateway_of(request)
    may_see = allowing(request, "Describe", "cluster")(CLUSTER)
    return await _cluster(gateway, query, store=_store_name(gateway.store_uri) if may_see else None)


@operators.get("/v1/cluster", include_in_schema=False)
@needs()
async def cluster_of_operators(request: Request, query: Annotated[ClusterQuery, Query()]) -> Cluster:
    """List the gateways as ``cluster`` does, with the store's URI, which is withheld from clients as a hint to attackers."""
    gateway = gateway_of(request)
    return await _cluster(gateway, query, store=gateway.store_uri)


def _store_name(uri: str) -> str:
    """Return a name that identifies the store without revealing its address: the SDK sends records only to gateways of its own
    store."""
    digest = hashlib.sha256(b"tidelog store " + uri.encode()).hexdigest()
    return f"{uri.partition(':')[0]}:{digest[:_STORE_DIGITS]}"


async def _cluster(gateway: Gateway, query: ClusterQuery, *, store: str | None) -> Cluster:
    journals = gateway.engine.journals
    in_use, topics = journals.count_in_use()
    found: Cluster = {
        "gateways": _gateways(gateway),
        "store": store,
        "version": __version__,
        "limits": {name: getattr(gateway.settings, name) for name in _LIMITS}
        | {"partition_count_max": limits.PARTITION_COUNT_MAX},
        "journals": {"in_use": in_use, "topics": topics, "held_back": journals.refusal_reason},
        "failing_writes": _failing_writes(gateway),
    }
    if query.include == "maintenance":
        found["maintenance"] = _maintenance(await gateway.maintenance.look())
    return found


def _maintenance(look: MaintenanceLook) -> Maintenance:
    sign = look.sign
    return {
        "state": look.state,
        "seen_at": None if sign is None else sign.seen_at,
        "round_ended_at": None if sign is None else sign.round_ended_at,
        "failed_topics": 0 if sign is None else sign.failed_topics,
    }


def _failing_writes(gateway: Gateway) -> FailingWrites | None:
    failing = None if gateway.writes is None else gateway.writes.failing()
    if failing is None:
        return None
    return {"since": failing.since_ms, "reason": str(failing.reason), "detail": failing.reason.said}


def _gateways(gateway: Gateway) -> list[ClusterGateway]:
    return [
        {
            "id": one.id,
            "url": one.url,
            "started_at": one.started_at,
            "owned_topics": one.owned_topics,
            "zone": one.zone,
            "kafka": one.kafka,
        }
        for one in gateway.membership.heartbeats()
    ]


@router.get("/openapi.json", include_in_schema=False)
@open_to_all
async def openapi_document(request: Request) -> Response:
    """Return the OpenAPI document of all routes; it does not change while the gateway runs."""
    loop, pool = asyncio.get_running_loop(), gateway_of(request).codec_pool
    made: bytes = await loop.run_in_executor(pool, lambda: request.app.openapi_document)
    return Response(made, media_type="application/json")


@router.get("/docs", include_in_schema=False)
@open_to_all
async def docs() -> Response:
    """Return a page that renders the OpenAPI document; it loads nothing from elsewhere."""
    return Response(DOCS_PAGE, headers=DOCS_HEADERS, media_type="text/html")
