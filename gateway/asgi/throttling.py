"""Enforcement of each caller's quotas, after authentication and authorization, before anything else.

1. A request that another gateway forwarded was counted there. Its usage is reported in the answer's head.
2. Requests that administer access are not counted, so that a quota that is too small can be corrected.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.access.caller import CALLER, Caller
from gateway.access.needs import Need
from gateway.http.dispatch import FOUND
from gateway.quotas.quotas import Admitted, Connection, Quotas
from gateway.quotas.spending import SPENDING, SPENT_HEADER, ForwardedSpending, LocalSpending

CONNECTION: Final = "tidelog.connection"
"""Key in a request's scope of its ``Connection``."""
HOP: Final = "tidelog.hop"
"""Key in the scope of a request that another gateway forwarded."""
_ADMINISTRATION: Final = Need("Alter", "cluster")


class ThrottlingMiddleware:
    """Middleware that enforces quotas, inside the one that looks the route up."""

    def __init__(self, app: ASGIApp, *, quotas: Quotas) -> None:
        self._app = app
        self._quotas = quotas

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request. Raise ``Throttled``."""
        caller: Caller | None = scope.get(CALLER)
        if caller is None:
            await self._app(scope, receive, send)
        elif HOP in scope:
            await self._for_another(caller.principal, scope, receive, send)
        else:
            admitted = self._admit(caller.principal, scope)
            spending = scope[SPENDING] = LocalSpending(self._quotas, caller.principal, admitted)
            try:
                await self._app(scope, receive, send)
            finally:
                spending.end()

    def _admit(self, principal: str, scope: Scope) -> Admitted | None:
        route = scope["route"] if FOUND in scope else None
        if route is not None and _ADMINISTRATION in route.needs.rights:
            return None
        connection: Connection | None = scope.get(CONNECTION)
        if connection is not None:
            connection.used_by(principal, self._quotas)
        return self._quotas.admit(principal, () if route is None else route.spends)

    async def _for_another(self, principal: str, scope: Scope, receive: Receive, send: Send) -> None:
        spending = scope[SPENDING] = ForwardedSpending(lambda quota: self._quotas.limits_rate(principal, quota))

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start" and (spent := spending.header()):
                message["headers"] = [*message.get("headers", ()), (SPENT_HEADER, spent)]
            await send(message)

        await self._app(scope, receive, tell)
