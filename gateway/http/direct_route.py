"""A FastAPI route that only calls its endpoint with the request and sends the response.

FastAPI's own handler solves dependencies and opens exit stacks for each request. That costs more than a small produce request
itself. Produce, fetch and poll parse by hand and need none of it; other calls have ``ControlRoute``. Errors pass through to the
middleware that translates them. Routers use it by ``APIRouter(route_class=DirectRoute)``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send


class DirectRoute(APIRoute):
    """``async def endpoint(request: Request) -> ASGIApp``."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        # An operation of the OpenAPI document has its function's name.
        super().__init__(path, endpoint, **options | {"generate_unique_id_function": lambda route: route.name})
        self.app = direct(endpoint)


def direct(answer: Callable[[Request], Awaitable[ASGIApp]]) -> ASGIApp:
    """The application that sends what ``answer`` returns for a request."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await answer(Request(scope, receive, send))
        await response(scope, receive, send)

    return app
