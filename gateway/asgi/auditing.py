"""Audit events of requests; those of failed logins (401) and denials (403) are noted here.

Routes note administration and vending: they know what they change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.access.caller import CALLER, Caller
from gateway.asgi.throttling import HOP
from gateway.audit.event import AuditEvent, Kind
from gateway.audit.recorder import AuditRecorder
from gateway.http.dispatch import FOUND
from log_format.clock import Clock
from log_format.errors import ErrorCode, RequestRefused, TidelogError

DENIALS_MAX: Final = 20
"""Most denials noted for one request: it may name ten thousand partitions."""
Right = tuple[str | None, str | None, str | None]
"""Operation, resource type, resource."""
_NO_RIGHT: Final[Right] = (None, None, None)


class AuditMiddleware:
    """Middleware around authentication and authorization. ``find`` looks a route up."""

    def __init__(
        self, app: ASGIApp, *, recording: AuditRecorder, clock: Clock, find: Callable[[Scope], ASGIApp]
    ) -> None:
        self._app = app
        self._recording = recording
        self._clock = clock
        self._find = find

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request. Raise as the application does."""
        try:
            await self._app(scope, receive, send)
        except RequestRefused as refusal:
            if refusal.code is ErrorCode.UNAUTHENTICATED:
                if FOUND not in scope:
                    with suppress(RequestRefused):
                        self._find(scope)
                self._recording.note(audit_event(scope, "failed_login", _NO_RIGHT, self._clock.now_ms()))
            elif refusal.code is ErrorCode.UNAUTHORIZED:
                self._recording.note(audit_event(scope, "denial", _missing_right(refusal), self._clock.now_ms()))
            raise


def audit_event(scope: Scope, kind: Kind, right: Right, now_ms: int) -> AuditEvent:
    """Return an event for the request with this scope."""
    caller: Caller | None = scope.get(CALLER)
    operation, resource_type, resource = right
    return AuditEvent(
        time=now_ms,
        kind=kind,
        principal=None if caller is None else caller.principal,
        operation=operation,
        resource_type=resource_type,
        resource=resource,
        method=scope["method"],
        route=getattr(scope.get("route"), "path_format", None),
        request_id=scope["tidelog.request_id"],
        source=client_address(scope),
    )


def client_address(scope: Scope) -> str | None:
    """Return the client's address; for a forwarded request, as the forwarding gateway reports it. None: it is not known."""
    if HOP in scope:
        told: str | None = scope[HOP].source
        return told
    client = scope.get("client")
    return client[0] if client else None


def denial_events(scope: Scope, parts: Iterable[object], now_ms: int) -> list[AuditEvent]:
    """Return events for the denials among the parts of an answer, each right once, at most ``DENIALS_MAX``."""
    lacking: dict[Right, None] = {}
    for part in parts:
        if isinstance(part, TidelogError) and part.code is ErrorCode.UNAUTHORIZED:
            lacking[_missing_right(part)] = None
            if len(lacking) == DENIALS_MAX:
                break
    return [audit_event(scope, "denial", right, now_ms) for right in lacking]


def _missing_right(refusal: TidelogError) -> Right:
    fields = refusal.fields
    return fields.get("operation"), fields.get("resource_type"), fields.get("resource")
