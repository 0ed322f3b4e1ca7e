"""The ASGI application: middlewares around routes around an engine. Everything is an argument.

FastAPI holds the routes and the lifespan. Requests pass through the gateway's own middlewares and dispatcher only. The
framework's (exit stacks, telemetry, error pages) would double their cost and add nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property

import msgspec
from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from gateway.asgi.compression import CompressionMiddleware
from gateway.asgi.gatekeeper import GatekeeperMiddleware
from gateway.asgi.observation import ObservationMiddleware
from gateway.asgi.pacing import PacingMiddleware
from gateway.asgi.path import PathMiddleware
from gateway.asgi.problems import ProblemMiddleware
from gateway.asgi.request_id import RequestIdMiddleware
from gateway.gateway import Gateway
from gateway.hosts import AllowedHosts
from gateway.http.dispatch import Dispatcher
from gateway.openapi.document import document
from gateway.routes import (
    fetch,
    group_offsets,
    group_poll,
    groups,
    journal_peers,
    offsets,
    operations,
    produce,
    producers,
    records,
    topics,
    transactions,
)
from gateway.routes.typed_route import TypedRoute
from log_format.version import __version__

ROUTERS: Sequence[APIRouter] = (
    produce.router,
    producers.router,
    transactions.router,
    records.router,
    fetch.router,
    offsets.router,
    groups.router,
    group_offsets.router,
    group_poll.router,
    topics.router,
    journal_peers.router,
    operations.probes,
    operations.router,
)


class GatewayApplication(FastAPI):
    """Use ``create_app``."""

    def __init__(self, gateway: Gateway, routers: Sequence[APIRouter]) -> None:
        super().__init__(
            title="Tidelog",
            version=__version__,
            openapi_url=None,
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            lifespan=_lifespan(gateway),
        )
        routes = [route for router in routers for route in router.routes]
        typed = [route for route in routes if isinstance(route, TypedRoute)]
        assert len(typed) == len(routes), "every router needs route_class=TypedRoute"
        self.router.routes.extend(typed)
        self.state.gateway = gateway
        self.state.store_check = operations.StoreCheck()
        self._handle = _with_middlewares(Dispatcher(typed, gateway.forwarding), gateway)
        self.operations = OperationsApplication(self, gateway)

    @cached_property
    def openapi_document(self) -> bytes:
        """The OpenAPI document of all routes; making it takes a tenth of a second."""
        return msgspec.json.encode(document(self.router.routes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request or the lifespan."""
        scope["app"] = self
        if scope["type"] == "http":
            await self._handle(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.router.lifespan(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})


class OperationsApplication:
    """What the operations listener serves: the probes, the metrics, and what only operators may see.

    ``clients``: the application of the other listener.

    Nothing here waits for a thread that clients keep busy: no answer is compressed, no request forwarded.
    """

    def __init__(self, clients: GatewayApplication, gateway: Gateway) -> None:
        self._clients = clients
        routers = (operations.probes, operations.operators)
        routes = [route for router in routers for route in router.routes if isinstance(route, TypedRoute)]
        app: ASGIApp = _guarded(Dispatcher(routes), gateway, listens_on=gateway.settings.ops_host)
        self._handle = _observed(PacingMiddleware(app), gateway)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        scope["app"] = self._clients
        await self._handle(scope, receive, send)


def create_app(gateway: Gateway, routers: Sequence[APIRouter] = ROUTERS) -> GatewayApplication:
    """The gateway's application; its lifespan starts the engine and, at the end, drains it if the server did not.

    ``routers`` must use ``TypedRoute``. Where several paths match, the most literal is taken.
    """
    return GatewayApplication(gateway, routers)


def _lifespan(gateway: Gateway) -> Lifespan[FastAPI]:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await gateway.engine.start()
        try:
            yield
        finally:
            # The server drains on a signal, with a time limit; the lifespan must not wait again.
            if not gateway.engine.draining:
                await gateway.engine.drain()
            await gateway.membership.leave()
            gateway.forwarding.close()
            gateway.codec_pool.shutdown(wait=False, cancel_futures=True)

    return lifespan


def _with_middlewares(innermost: ASGIApp, gateway: Gateway) -> ASGIApp:
    """Read from the bottom: the last is the outermost."""
    app = _guarded(innermost, gateway, listens_on=gateway.settings.host)
    app = CompressionMiddleware(app, pool=gateway.codec_pool)
    app = PacingMiddleware(app)
    return _observed(app, gateway)


def _guarded(innermost: ASGIApp, gateway: Gateway, *, listens_on: str) -> ASGIApp:
    settings = gateway.settings
    hosts = AllowedHosts(host=listens_on, names=settings.allowed_hosts, advertised_url=settings.advertised_url)
    app: ASGIApp = GatekeeperMiddleware(innermost, draining=lambda: gateway.engine.draining, hosts=hosts)
    app = PathMiddleware(app)
    return ProblemMiddleware(app)


def _observed(app: ASGIApp, gateway: Gateway) -> ASGIApp:
    log_requests = gateway.settings.log_level in ("debug", "info")
    app = ObservationMiddleware(app, metrics=gateway.metrics, log_requests=log_requests)
    return RequestIdMiddleware(app)
