"""The ASGI application: middlewares around routes around an engine. Everything is an argument.

FastAPI holds the routes and the lifespan. Requests pass through the gateway's own middlewares and dispatcher only. The
framework's own layers (exit stacks, telemetry, error pages) would double a request's cost and add nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property

import msgspec
from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from gateway.access.rights import Rights
from gateway.asgi.auditing import AuditMiddleware
from gateway.asgi.authentication import AuthenticationMiddleware, OpenPaths
from gateway.asgi.authorization import AuthorizationMiddleware
from gateway.asgi.basic import BasicMiddleware
from gateway.asgi.compression import CompressionMiddleware
from gateway.asgi.gatekeeper import GatekeeperMiddleware
from gateway.asgi.observation import BETWEEN_GATEWAYS, FAILED_STATUS_MIN, ObservationMiddleware
from gateway.asgi.pacing import PacingMiddleware
from gateway.asgi.path import PathMiddleware
from gateway.asgi.problems import ProblemMiddleware
from gateway.asgi.request_id import RequestIdMiddleware
from gateway.asgi.throttling import ThrottlingMiddleware
from gateway.delta_sharing import files as shared_files
from gateway.delta_sharing import shares, tables
from gateway.forwarding.arrival import ArrivalMiddleware
from gateway.gateway import Gateway
from gateway.http.dispatch import Dispatcher
from gateway.iceberg import configuration
from gateway.iceberg import planning as iceberg_planning
from gateway.iceberg import signing as iceberg_signing
from gateway.iceberg import tables as iceberg_tables
from gateway.network.hosts import AllowedHosts
from gateway.openapi.document import document
from gateway.registry import compatibility, configuring, schemas, server, subjects
from gateway.registry.context_path import ContextPathMiddleware
from gateway.routes import (
    access,
    access_acls,
    access_quotas,
    activity,
    commits,
    console,
    credentials,
    erasures,
    fetch,
    group_offsets,
    group_poll,
    groups,
    journal_peers,
    lag,
    monitoring,
    offsets,
    operations,
    own_rights,
    pins,
    produce,
    producers,
    queue_peers,
    queues,
    records,
    scheduled,
    segments,
    sql,
    topic_clones,
    topic_summaries,
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
    segments.router,
    commits.router,
    pins.router,
    sql.router,
    groups.router,
    group_offsets.router,
    group_poll.router,
    lag.router,
    queues.router,
    scheduled.router,
    erasures.router,
    topic_summaries.router,
    topics.router,
    topic_clones.router,
    access.router,
    access_acls.router,
    access_quotas.router,
    own_rights.router,
    credentials.router,
    journal_peers.router,
    queue_peers.router,
    activity.router,
    monitoring.router,
    operations.probes,
    operations.router,
    subjects.router,
    schemas.router,
    configuring.router,
    compatibility.router,
    server.router,
    shares.router,
    tables.router,
    shared_files.router,
    configuration.router,
    iceberg_tables.router,
    iceberg_planning.router,
    iceberg_signing.router,
    console.router,
)


class GatewayApplication(FastAPI):
    """The application of the clients' listener. Use ``create_app``."""

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
        self.gateway = gateway
        self.state.store_check = operations.StoreCheck()
        self.state.workers_page = None
        self._handle = _with_middlewares(Dispatcher(typed, gateway.forwarding), gateway, typed)
        self.operations = OperationsApplication(self, gateway)

    @cached_property
    def openapi_document(self) -> bytes:
        """OpenAPI document of all routes; making it takes a tenth of a second."""
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
    """The operations listener's application: probes, metrics, and what only operators may see. It asks for no credential.

    ``clients``: the application of the other listener. Nothing here waits for a thread that clients keep busy: no answer is
    compressed, no request forwarded.
    """

    def __init__(self, clients: GatewayApplication, gateway: Gateway) -> None:
        self._clients = clients
        routers = (operations.probes, operations.operators)
        routes = [route for router in routers for route in router.routes if isinstance(route, TypedRoute)]
        app: ASGIApp = _guarded(Dispatcher(routes), gateway, listens_on=gateway.settings.ops_host)
        self._handle = _observed(PacingMiddleware(app), gateway)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle a request."""
        scope["app"] = self._clients
        return self._handle(scope, receive, send)


def create_app(gateway: Gateway, routers: Sequence[APIRouter] = ROUTERS) -> GatewayApplication:
    """Return the gateway's application; its lifespan starts the engine and, at the end, drains it if the server did not.

    ``routers`` must use ``TypedRoute``. If several paths match, the most literal is taken.
    """
    return GatewayApplication(gateway, routers)


def _lifespan(gateway: Gateway) -> Lifespan[FastAPI]:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await gateway.engine.start()
        if gateway.recording is not None:
            gateway.recording.start()
        gateway.activity.start()
        gateway.alarms.start()
        if gateway.history.recorder is not None:
            gateway.history.recorder.start()
        try:
            yield
        finally:
            # The server drains on a signal, with a time limit; the lifespan must not wait again.
            if not gateway.engine.draining:
                await gateway.engine.drain()
            if gateway.recording is not None:
                await gateway.recording.stop()
            if gateway.history.recorder is not None:
                await gateway.history.recorder.stop()
            await gateway.activity.stop()
            await gateway.alarms.stop()
            await gateway.membership.leave()
            if gateway.lane is not None:
                await gateway.lane.stop()
            gateway.forwarding.close()
            gateway.vending.close()
            gateway.codec_pool.shutdown(wait=False, cancel_futures=True)
            gateway.compression_pool.shutdown(wait=False, cancel_futures=True)

    return lifespan


def _with_middlewares(dispatcher: Dispatcher, gateway: Gateway, routes: Sequence[TypedRoute]) -> ASGIApp:
    """Return the dispatcher with its middlewares. Read from the bottom: the last is the outermost."""
    app = _guarded(dispatcher, gateway, listens_on=gateway.settings.host, judged=_Judged(dispatcher, gateway, routes))
    app = CompressionMiddleware(app, pool=gateway.compression_pool)
    app = PacingMiddleware(app)
    return _observed(app, gateway)


class _Judged:
    """Authentication, authorization and quotas, each put around an application."""

    def __init__(self, dispatcher: Dispatcher, gateway: Gateway, routes: Sequence[TypedRoute]) -> None:
        self._find = dispatcher.find
        self._gateway = gateway
        opened = [route.path_format for route in routes if route.needs.is_open]
        self._messages = Dispatcher(route for route in routes if route.path_format.startswith(BETWEEN_GATEWAYS))
        self._open = OpenPaths(
            exact=frozenset(opened), prefixes=tuple(path.partition("{")[0] for path in opened if "{" in path)
        )

    def authorized(self, app: ASGIApp) -> ASGIApp:
        """Return ``app`` behind authorization. Goes inside the middleware that decodes the path."""
        rights: Rights = self._gateway.rights
        return AuthorizationMiddleware(app, find=self._find, rights=rights) if rights.enforced else app

    def throttled(self, app: ASGIApp) -> ASGIApp:
        """Return ``app`` behind quotas. Goes inside the middleware that looks the route up."""
        quotas = self._gateway.quotas
        return app if quotas is None else ThrottlingMiddleware(app, quotas=quotas)

    def authenticated(self, app: ASGIApp) -> ASGIApp:
        """Return ``app`` behind authentication, outside of all that may refuse. A request that another gateway passes on has its
        caller."""
        gateway = self._gateway
        if gateway.authentication is not None:
            app = AuthenticationMiddleware(app, authentication=gateway.authentication, open_paths=self._open)
            if gateway.recording is not None:
                app = AuditMiddleware(app, recording=gateway.recording, clock=gateway.clock, find=self._find)
        return BasicMiddleware(ArrivalMiddleware(app, gateway.hops, gateway.rights, self._messages))


def _guarded(innermost: ASGIApp, gateway: Gateway, *, listens_on: str, judged: _Judged | None = None) -> ASGIApp:
    settings = gateway.settings
    hosts = AllowedHosts(host=listens_on, names=settings.allowed_hosts, advertised_url=settings.advertised_url)
    app: ASGIApp = GatekeeperMiddleware(innermost, draining=lambda: gateway.engine.draining, hosts=hosts)
    app = app if judged is None else judged.authorized(judged.throttled(app))
    app = PathMiddleware(ContextPathMiddleware(app))
    app = app if judged is None else judged.authenticated(app)
    return ProblemMiddleware(app)


def _observed(app: ASGIApp, gateway: Gateway) -> ASGIApp:
    settings = gateway.settings
    logs_from = 0 if settings.log_requests == "all" else FAILED_STATUS_MIN
    app = ObservationMiddleware(
        app, metrics=gateway.metrics, logs_from=logs_from if settings.log_level in ("debug", "info") else None
    )
    return RequestIdMiddleware(app)
