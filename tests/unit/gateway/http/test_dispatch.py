"""From paths and methods to routes."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.access.needs import needs
from gateway.http.dispatch import Dispatcher, MethodNotAllowed
from gateway.routes.typed_route import TypedRoute
from log_format.errors import RequestRefused
from tests.support.awaited import run


@needs()
async def endpoint(_request: Request) -> Response:
    return Response()


def dispatcher() -> Dispatcher:
    router = APIRouter(route_class=TypedRoute)
    router.get("/v1/topics")(endpoint)
    router.post("/v1/topics")(endpoint)
    router.get("/v1/topics/{topic}")(endpoint)
    router.delete("/v1/topics/{topic}")(endpoint)
    router.post("/v1/topics/{topic}:delete-records")(endpoint)
    router.get("/files/{release}/{file:path}")(endpoint)
    return Dispatcher([route for route in router.routes if isinstance(route, TypedRoute)])


def dispatched(method: str, path: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": []}

    async def nothing(*_: object) -> Any:
        return None

    run(dispatcher()(scope, nothing, nothing))
    return scope


@pytest.mark.parametrize(
    ("method", "path", "template", "parameters"),
    [
        ("GET", "/v1/topics", "/v1/topics", {}),
        ("HEAD", "/v1/topics", "/v1/topics", {}),
        ("POST", "/v1/topics", "/v1/topics", {}),
        ("GET", "/v1/topics/a", "/v1/topics/{topic}", {"topic": "a"}),
        ("POST", "/v1/topics/a:delete-records", "/v1/topics/{topic}:delete-records", {"topic": "a"}),
        ("GET", "/files/r/a", "/files/{release}/{file}", {"release": "r", "file": "a"}),
        ("GET", "/files/r/a/b/c/d.js", "/files/{release}/{file}", {"release": "r", "file": "a/b/c/d.js"}),
    ],
)
def test_requests_find_their_routes(method: str, path: str, template: str, parameters: dict[str, str]) -> None:
    """Path and method name one route; the metrics know its template."""
    scope = dispatched(method, path)
    assert scope["route"].path_format == template
    assert scope["path_params"] == parameters


@pytest.mark.parametrize("path", ["/", "/v1/topics/", "/v1/topics/a/b", "/V1/topics", "//v1/topics"])
def test_unknown_paths(path: str) -> None:
    """404 NOT_FOUND; slashes at the end are not forgiven by a redirect, which would lose a body."""
    with pytest.raises(RequestRefused) as caught:
        dispatched("GET", path)
    assert (caught.value.status, str(caught.value.code)) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/topics", ["GET", "HEAD", "POST"]),
        ("PATCH", "/v1/topics/a", ["DELETE", "GET", "HEAD"]),
        ("GET", "/v1/topics/a:delete-records", ["POST"]),
        ("HEAD", "/v1/topics/a:delete-records", ["POST"]),
    ],
)
def test_wrong_methods_name_the_right_ones(method: str, path: str, allowed: list[str]) -> None:
    """405 lists the methods of the path, and only those."""
    with pytest.raises(MethodNotAllowed) as caught:
        dispatched(method, path)
    assert (caught.value.status, caught.value.allowed) == (405, allowed)
