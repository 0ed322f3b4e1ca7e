"""Authentication of every request, before anything else: before the route is looked up or any of the body is read.

The operations listener has no such middleware. With ``auth=off`` each caller is ``User:anonymous``. A request that another
gateway forwards already has its caller. A client certificate is used if there is no header ``Authorization``.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.access.authentication import Authentication
from gateway.access.caller import CALLER
from gateway.network.certificate import CLIENT_CERTIFICATE


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPaths:
    """Paths that need no credential: those that are ``exact``, and all that begin with one of ``prefixes``."""

    exact: frozenset[str]
    prefixes: tuple[str, ...]

    def has(self, path: str) -> bool:
        """Return whether a request to the path needs no credential."""
        return path in self.exact or path.startswith(self.prefixes)


class AuthenticationMiddleware:
    """Middleware that authenticates. ``open_paths``: paths of requests that need no credential."""

    def __init__(self, app: ASGIApp, *, authentication: Authentication, open_paths: OpenPaths) -> None:
        self._app = app
        self._authentication = authentication
        self._open_paths = open_paths

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle one request. Raise ``Unauthenticated``, ``BackOff``."""
        if CALLER in scope or self._open_paths.has(scope["path"]):
            return self._app(scope, receive, send)
        caller = self._authentication.authenticate_now(scope.get(CLIENT_CERTIFICATE), scope["headers"])
        if caller is None:
            return self._authenticate_slowly(scope, receive, send)
        scope[CALLER] = caller
        return self._app(scope, receive, send)

    async def _authenticate_slowly(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[CALLER] = await self._authentication.authenticate(scope.get(CLIENT_CERTIFICATE), scope["headers"])
        await self._app(scope, receive, send)
