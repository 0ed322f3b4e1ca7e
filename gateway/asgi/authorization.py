"""Authorization by the path: a request whose path names something that its caller may not use is refused before other errors.

The route is looked up here, and stored for the dispatcher. The dispatcher refuses unknown routes and methods: a caller learns
what it may not do before that, and what does not exist after all other checks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.access.caller import CALLER
from gateway.access.needs import Needs
from gateway.access.rights import Rights
from gateway.http.dispatch import FOUND
from gateway.http.parameters import ENCODED_SLASH
from log_format.access.acls import CLUSTER
from log_format.errors import RequestRefused


class AuthorizationMiddleware:
    """Middleware that authorizes. ``find`` looks a route up; routes have ``needs``."""

    def __init__(self, app: ASGIApp, *, find: Callable[[Scope], ASGIApp], rights: Rights) -> None:
        self._app = app
        self._find = find
        self._rights = rights

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle one request. Raise ``Unauthorized``, ``BackOff``."""
        try:
            scope[FOUND] = self._find(scope)
        except RequestRefused:
            pass  # the dispatcher refuses it
        else:
            declared: Needs = scope["route"].needs
            for need in declared.judged_ahead:
                if need.or_alter_cluster and self._rights.allows(scope[CALLER], "Alter", CLUSTER, CLUSTER):
                    continue
                name = CLUSTER if need.path is None else scope["path_params"][need.path].replace(ENCODED_SLASH, "/")
                self._rights.require(scope[CALLER], need.operation, need.resource_type, name)
        return self._app(scope, receive, send)
