"""Which requests are lines of the log."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from gateway.asgi import observation
from gateway.asgi.observation import FAILED_STATUS_MIN, ObservationMiddleware
from gateway.telemetry.metrics import Metrics


@pytest.mark.parametrize(
    ("logs_from", "told"),
    [
        (0, [("/v1/topics", 200), ("/v1/topics", 404), ("/gateways/journal-offers", 503)]),
        (FAILED_STATUS_MIN, [("/v1/topics", 404), ("/gateways/journal-offers", 503)]),
        (None, []),
    ],
)
async def test_messages_between_gateways_are_lines_where_they_fail(
    monkeypatch: pytest.MonkeyPatch, logs_from: int | None, told: list[tuple[str, int]]
) -> None:
    """There are several a second, and each would wake the thread that writes lines. What clients ask for is a line as ever."""
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(observation, "access_line", lines.append)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": scope["status"], "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        del message

    observed = ObservationMiddleware(app, metrics=Metrics(), logs_from=logs_from)
    for path, status in (
        ("/v1/topics", 200),
        ("/v1/topics", 404),
        ("/gateways/journal-offers", 200),
        ("/gateways/journal-offers", 503),
    ):
        await observed({"method": "POST", "path": path, "raw_path": path.encode(), "status": status}, receive, send)
    assert [(line["path"], line["status"]) for line in lines] == told
