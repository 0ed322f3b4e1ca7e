"""A FastAPI route that calls its endpoint with the request and sends the response that it returns, and does nothing else.

FastAPI's own handler solves dependencies and opens exit stacks for each request, which costs more than a small produce
request itself; the gateway's endpoints parse by hand, so they need none of it. Errors pass through to the middleware that
translates them. Routers use it by ``APIRouter(route_class=DirectRoute)``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send


class DirectRoute(APIRoute):
    """``async def endpoint(request: Request) -> Response``."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.app = _direct(endpoint)


def _direct(endpoint: Callable[[Request], Awaitable[Response]]) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    return app
