"""From a path and a method to the route: exact paths by one look-up, the others by their patterns in order.

It replaces the framework's router for requests, whose price grows with the number of routes, and gives unknown routes and
methods the contract's errors.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.direct_route import DirectRoute
from log_format.errors import ErrorCode, RequestRefused


class MethodNotAllowed(RequestRefused):
    """405; ``allowed`` are the methods that the path has."""

    default_code = ErrorCode.METHOD_NOT_ALLOWED

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = sorted(allowed)
        super().__init__(f"The route exists, but only with {', '.join(self.allowed)}.")


class Dispatcher:
    """Calls the route that a request names; with several candidates the one declared first.

    Sets ``scope["route"]`` and ``scope["path_params"]``. Raises ``RequestRefused`` (404, 405).
    """

    def __init__(self, routes: Iterable[DirectRoute]) -> None:
        self._exact: dict[str, dict[str, DirectRoute]] = {}
        self._patterns: list[DirectRoute] = []
        for route in routes:
            if route.param_convertors:
                self._patterns.append(route)
            else:
                by_method = self._exact.setdefault(route.path_format, {})
                for method in route.methods or ():
                    by_method.setdefault(method, route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        await self._find(scope)(scope, receive, send)

    def _find(self, scope: Scope) -> ASGIApp:
        path: str = scope["path"]
        method: str = scope["method"]
        allowed: set[str] = set()
        by_method = self._exact.get(path)
        if by_method is not None:
            route = by_method.get(method)
            if route is not None:
                scope["route"] = route
                scope["path_params"] = {}
                return route.app
            allowed.update(by_method)
        for route in self._patterns:
            match = route.path_regex.match(path)
            if match is not None:
                if method in (route.methods or ()):
                    scope["route"] = route
                    scope["path_params"] = match.groupdict()
                    return route.app
                scope["route"] = route
                allowed.update(route.methods or ())
        if allowed:
            raise MethodNotAllowed(allowed)
        raise RequestRefused("There is no such route. GET /openapi.json lists them.", code=ErrorCode.NOT_FOUND)
