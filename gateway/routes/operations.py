"""Operations: is it alive, can it serve, what does it measure, which limits does it have, what can it be asked."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway import metrics
from gateway.codec.media_type import negotiate
from gateway.gateway import Gateway, gateway_of
from gateway.http.direct_route import DirectRoute
from gateway.http.dispatch import no_such_route
from gateway.http.home_page import HOME_HEADERS, HOME_PAGE, HTML
from gateway.http.json_response import json_response
from gateway.http.parameters import NO_PARAMETERS, accepted
from gateway.openapi import document as openapi
from gateway.openapi.docs_page import DOCS_HEADERS, DOCS_PAGE
from gateway.openapi.document import answer, operation
from gateway.openapi.schemas import COUNT, TIMESTAMP, list_of, object_of
from gateway.problem import MEDIA_TYPE, as_tidelog_error
from log_format import limits
from log_format.errors import BackOff, ErrorCode, StoreError, TidelogError
from log_format.version import __version__

probes = APIRouter(route_class=DirectRoute)
"""On both listeners."""
router = APIRouter(route_class=DirectRoute)
"""On the clients' listener only."""
operators = APIRouter(route_class=DirectRoute)
"""On the operations listener only: the same paths, and what clients need not know."""

STORE_CHECK_TRUSTED_MS: Final = 1_000
"""How long one look at the store answers every probe: probes must not load the store."""
STORE_CHECK_TIMEOUT_MS: Final = 5_000
"""A store that needs longer does not answer."""

_STATUS: Final = object_of({"status": {"type": "string"}})
_LIMITS: Final = (
    "request_bytes_max",
    "in_flight_bytes_max",
    "answer_bytes_max",
    "waiting_polls_max",
    "connections_max",
    "body_idle_ms",
    "body_total_ms",
)
_STORE_DIGITS: Final = 16
"""Of a digest in hexadecimal: 64 bits, for stores that one client may meet."""
_log = logging.getLogger("gateway.readiness")


class StoreCheck:
    """Whether the store answers, asked at most once a second and by one request at a time."""

    def __init__(self) -> None:
        self._asking: asyncio.Task[TidelogError | None] | None = None
        self._asked_at_ms = -STORE_CHECK_TRUSTED_MS

    async def error(self, gateway: Gateway) -> TidelogError | None:
        """Why the store does not answer; None when it does."""
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
            return known if known.status == 503 else BackOff("The store does not answer as it should.")
        return None


@probes.get(
    "/healthz",
    **operation(
        summary="The process is alive",
        tag="operations",
        answers={200: answer("It is", _STATUS, example={"status": "alive"})},
    ),
)
async def healthz(request: Request) -> Response:
    """Answer as long as the event loop turns."""
    NO_PARAMETERS.parse(request)
    return json_response({"status": "alive"})


@probes.get(
    "/readyz",
    **operation(
        summary="The gateway can serve: the store answers and it is not shutting down",
        tag="operations",
        answers={200: answer("It can", _STATUS, example={"status": "ready"})},
    ),
)
async def readyz(request: Request) -> Response:
    """503 ``DRAINING`` or ``UNAVAILABLE`` tells a balancer to send others."""
    NO_PARAMETERS.parse(request)
    gateway = gateway_of(request)
    if gateway.engine.draining:
        raise BackOff("The gateway is shutting down.", code=ErrorCode.DRAINING)
    check: StoreCheck = request.app.state.store_check
    error = await check.error(gateway)
    if error is not None:
        raise BackOff(error.detail, code=error.code)
    return json_response({"status": "ready"})


@probes.get(
    "/metrics",
    **operation(
        summary="Metrics in Prometheus' text format",
        tag="operations",
        answers={200: answer("The metrics", {"text/plain": openapi.media({"type": "string"})})},
    ),
)
async def scrape(request: Request) -> Response:
    """Everything in the registry."""
    NO_PARAMETERS.parse(request)
    gateway = gateway_of(request)
    gateway.metrics.request_memory.set(gateway.request_memory.used_bytes)
    gateway.metrics.answer_memory.set(gateway.answer_memory.used_bytes)
    await gateway.engine.measure()
    return Response(gateway.metrics.exposition(), headers={"content-type": metrics.CONTENT_TYPE})


_CLUSTER: Final = object_of(
    {
        "gateways": list_of(
            object_of(
                {"id": {"type": "string"}, "url": {"type": "string"}, "started_at": TIMESTAMP, "owned_topics": COUNT}
            )
        ),
        "store": {
            "type": "string",
            "description": "Its kind and a digest of its URI: the same for gateways of one store. Operators see the URI itself",
        },
        "version": {"type": "string"},
        "limits": {"type": "object", "additionalProperties": COUNT},
    }
)


@router.get(
    "/v1/cluster",
    **operation(
        summary="The gateways of this store, and the limits of this one",
        tag="operations",
        answers={200: answer("The cluster", _CLUSTER)},
    ),
)
async def cluster(request: Request) -> Response:
    """The live gateways as this one sees them; limits are its settings of the same name, and the format's."""
    NO_PARAMETERS.parse(request)
    gateway = gateway_of(request)
    return json_response(_cluster(gateway, store=_store_name(gateway.store_uri)))


@operators.get("/v1/cluster", include_in_schema=False)
async def cluster_of_operators(request: Request) -> Response:
    """The same with the store's URI, which says where to attack and what to guess."""
    NO_PARAMETERS.parse(request)
    gateway = gateway_of(request)
    return json_response(_cluster(gateway, store=gateway.store_uri))


def _store_name(uri: str) -> str:
    """Tells stores apart without saying where they are: the SDK sends records only to gateways of the store that it knows."""
    digest = hashlib.sha256(b"tidelog store " + uri.encode()).hexdigest()
    return f"{uri.partition(':')[0]}:{digest[:_STORE_DIGITS]}"


def _cluster(gateway: Gateway, *, store: str) -> dict[str, Any]:
    return {
        "gateways": _gateways(gateway),
        "store": store,
        "version": __version__,
        "limits": {name: getattr(gateway.settings, name) for name in _LIMITS}
        | {"partition_count_max": limits.PARTITION_COUNT_MAX},
    }


def _gateways(gateway: Gateway) -> list[dict[str, Any]]:
    return [
        {"id": one.id, "url": one.url, "started_at": one.started_at, "owned_topics": one.owned_topics}
        for one in gateway.membership.heartbeats()
    ]


@router.get("/openapi.json", include_in_schema=False)
async def openapi_document(request: Request) -> Response:
    """The OpenAPI document of all routes; it does not change while the gateway runs."""
    NO_PARAMETERS.parse(request)
    return Response(request.app.state.openapi_document, media_type="application/json")


@router.get("/", include_in_schema=False)
async def home(request: Request) -> Response:
    """A page for people who open the gateway's address in a browser; for programs there is no such route."""
    NO_PARAMETERS.parse(request)
    wanted = accepted(request) or ""
    if HTML not in wanted or negotiate(wanted, (MEDIA_TYPE, HTML)) != HTML:
        raise no_such_route()
    return Response(HOME_PAGE, headers=HOME_HEADERS, media_type=HTML)


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """A page that renders the OpenAPI document; it loads nothing from elsewhere."""
    NO_PARAMETERS.parse(request)
    return Response(DOCS_PAGE, headers=DOCS_HEADERS, media_type="text/html")
