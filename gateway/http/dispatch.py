"""Dispatch of a path and a method to a route: exact paths by one look-up, others by their patterns, the most literal first.

So ``/v1/topics/{topic}:delete-records`` is a resource of its own, never a topic of that name.

The dispatcher replaces the framework's router, whose cost grows with the number of routes, and answers unknown routes and methods
with the API's errors.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from log_format.errors import ErrorCode, RequestRefused

Forward = Callable[[ASGIApp, Scope, Receive, Send], Awaitable[None]]
"""Function that calls the route's application, or forwards the request to another gateway."""

FOUND: Final = "tidelog.found"
"""Key in a request's scope of its route's application, if it was looked up before."""
_OPEN_ENDED: Final = ":path}"
"""Ending of a parameter that may contain slashes."""
_PARAMETER: Final = re.compile(r"\{[^}]*\}")


class MethodNotAllowed(RequestRefused, code=ErrorCode.METHOD_NOT_ALLOWED):
    """405; ``allowed`` are the path's methods."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = sorted(allowed)
        super().__init__(f"The route exists, but only with {', '.join(self.allowed)}.")


def no_such_route() -> RequestRefused:
    """Return the 404 for a path without a route."""
    return RequestRefused("There is no such route. GET /openapi.json lists them.", code=ErrorCode.NOT_FOUND)


class Dispatcher:
    """Dispatcher of requests to the routes that they name.

    Sets ``scope["route"]`` and ``scope["path_params"]``. HEAD is dispatched like GET; the server omits the body. Raises
    ``RequestRefused`` (404, 405).
    """

    def __init__(self, routes: Iterable[APIRoute], forward: Forward | None = None) -> None:
        self._forward = forward
        self._exact: dict[str, dict[str, APIRoute]] = {}
        patterns: dict[str, tuple[re.Pattern[str], dict[str, APIRoute]]] = {}
        open_ended: set[str] = set()
        for route in routes:
            if route.param_convertors:
                by_method = patterns.setdefault(route.path_format, (route.path_regex, {}))[1]
                if _OPEN_ENDED in route.path:
                    open_ended.add(route.path_format)
            else:
                by_method = self._exact.setdefault(route.path_format, {})
            for method in route.methods or ():
                by_method.setdefault(method, route)
                if method == "GET":
                    by_method.setdefault("HEAD", route)
        special_first = sorted(patterns, key=lambda template: -len(_PARAMETER.sub("", template)))
        self._open_ended = [patterns[template] for template in special_first if template in open_ended]
        self._patterns: dict[int, list[tuple[re.Pattern[str], dict[str, APIRoute]]]] = {}
        """Patterns by their number of slashes: other parameters contain none."""
        for template in special_first:
            if template not in open_ended:
                self._patterns.setdefault(template.count("/"), []).append(patterns[template])
        for of_count in self._patterns.values():
            of_count.extend(self._open_ended)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle one request."""
        app: ASGIApp = scope.get(FOUND) or self.find(scope)
        if self._forward is None:
            return app(scope, receive, send)
        return self._forward(app, scope, receive, send)

    def find(self, scope: Scope) -> ASGIApp:
        """Return the application of the request's route. Raise ``RequestRefused``."""
        path: str = scope["path"]
        by_method = self._exact.get(path)
        parameters: dict[str, str] = {}
        if by_method is None:
            for pattern, candidates in self._patterns.get(path.count("/"), self._open_ended):
                # Not match: the end of its pattern would allow a trailing line break.
                match = pattern.fullmatch(path)
                if match is not None:
                    by_method = candidates
                    parameters = match.groupdict()
                    break
            else:
                raise no_such_route()
        route = by_method.get(scope["method"])
        # Also for a wrong method: the request is counted under the route that it missed.
        scope["route"] = route or next(iter(by_method.values()))
        scope["path_params"] = parameters
        if route is None:
            raise MethodNotAllowed(by_method)
        return route.app
