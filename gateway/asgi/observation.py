"""Metrics and log of every request when it ends: method, route template, status, duration, bytes.

If the client disconnected before the answer began, the status is 499.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.telemetry.metrics import Metrics
from gateway.telemetry.structured_log import access_line

CLIENT_CLOSED: Final = 499
"""Not an HTTP status: no answer was sent."""
SENT_BYTES: Final = "tidelog.sent_bytes"
"""Key in a message with a piece of an answer's body: bytes of the body that another process has sent."""
FAILED_STATUS_MIN: Final = 400
"""Least status of failed requests, by the client's fault or the gateway's."""
BETWEEN_GATEWAYS: Final = "/gateways/"
"""Prefix of paths of the messages that gateways send each other, several a second."""


class ObservationMiddleware:
    """Middleware that measures requests, and logs those with a status of ``logs_from`` or more; None: none.

    A message of another gateway is logged only if it failed.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, logs_from: int | None) -> None:
        self._app = app
        self._metrics = metrics
        self._logs_from = logs_from

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        started_ns = time.perf_counter_ns()
        status = CLIENT_CLOSED
        received_bytes = 0
        sent_bytes = 0

        async def counting_receive() -> Message:
            nonlocal received_bytes
            message = await receive()
            if message["type"] == "http.request":
                received_bytes += len(message.get("body", b""))
            return message

        def counting_send(message: Message) -> Awaitable[None]:
            nonlocal status, sent_bytes
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                sent_bytes += len(message.get("body", b"")) + message.get(SENT_BYTES, 0)
            return send(message)

        self._metrics.begin_request()
        try:
            await self._app(scope, counting_receive, counting_send)
        finally:
            seconds = (time.perf_counter_ns() - started_ns) / 1e9
            route = getattr(scope.get("route"), "path_format", None)
            self._metrics.end_request(
                method=scope["method"],
                route=route,
                status=status,
                seconds=seconds,
                received_bytes=received_bytes,
                sent_bytes=sent_bytes,
            )
            if self._is_logged(scope, status):
                access_line(
                    _log_line(
                        scope,
                        route=route,
                        status=status,
                        seconds=seconds,
                        received_bytes=received_bytes,
                        sent_bytes=sent_bytes,
                    )
                )

    def _is_logged(self, scope: Scope, status: int) -> bool:
        if self._logs_from is None:
            return False
        return status >= (FAILED_STATUS_MIN if scope["path"].startswith(BETWEEN_GATEWAYS) else self._logs_from)


def _log_line(
    scope: Scope, *, route: str | None, status: int, seconds: float, received_bytes: int, sent_bytes: int
) -> dict[str, Any]:
    client = scope.get("client")
    return {
        "request_id": scope.get("tidelog.request_id"),
        "client": client[0] if client else None,
        "method": scope["method"],
        "route": route,
        "path": scope["raw_path"].decode("latin-1")[:512],
        "status": status,
        "duration_ms": round(seconds * 1000, 3),
        "received_bytes": received_bytes,
        "sent_bytes": sent_bytes,
    }
