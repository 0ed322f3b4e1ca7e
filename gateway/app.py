"""The ASGI application: middlewares around routes around an engine. Everything is an argument; nothing is read from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from gateway.asgi.compression import CompressionMiddleware
from gateway.asgi.gatekeeper import GatekeeperMiddleware
from gateway.asgi.observation import ObservationMiddleware
from gateway.asgi.pacing import PacingMiddleware
from gateway.asgi.path import PathMiddleware
from gateway.asgi.problems import ProblemMiddleware
from gateway.asgi.request_id import RequestIdMiddleware
from gateway.openapi import document
from gateway.routes import operations
from gateway.shell import Shell
from log_format.version import __version__

ROUTERS: Sequence[APIRouter] = (operations.router,)


def create_app(shell: Shell, routers: Sequence[APIRouter] = ROUTERS) -> FastAPI:
    """The gateway's application; its lifespan starts the engine and, if nobody did before, drains it.

    ``routers`` must use ``DirectRoute``. Their routes are matched in order: the more special path first.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await shell.engine.start()
        try:
            yield
        finally:
            await shell.engine.drain()
            shell.codec_pool.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(
        title="Tidelog",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        exception_handlers={HTTPException: _pass_on},
        middleware=_middlewares(shell, lambda scope: allowed_methods(app, scope)),
    )
    for router in routers:
        # Not include_router: it would make every route anew, and match through one more layer for each request.
        app.router.routes.extend(router.routes)
    app.state.shell = shell
    app.state.store_check = operations.StoreCheck()
    app.state.openapi_document = msgspec.json.encode(document(app.router.routes))
    return app


async def _pass_on(_request: Request, error: Exception) -> Response:
    """Keep the framework from answering by itself: ``ProblemMiddleware`` does."""
    raise error


def _middlewares(shell: Shell, allowed: Callable[[Scope], list[str]]) -> list[Middleware]:
    """Outermost first."""
    log_requests = shell.settings.log_level in ("debug", "info")
    return [
        Middleware(RequestIdMiddleware),
        Middleware(ObservationMiddleware, metrics=shell.metrics, log_requests=log_requests),
        Middleware(PacingMiddleware),
        Middleware(CompressionMiddleware, pool=shell.codec_pool),
        Middleware(ProblemMiddleware, allowed_methods=allowed),
        Middleware(PathMiddleware),
        Middleware(GatekeeperMiddleware, draining=lambda: shell.draining),
    ]


def allowed_methods(app: FastAPI, scope: Scope) -> list[str]:
    """The methods of all routes whose path matches, sorted, for ``Allow``."""
    methods: set[str] = set()
    for route in app.router.routes:
        if route.matches(scope)[0] is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return sorted(methods)
