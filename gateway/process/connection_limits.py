"""Limits of a listener: connections, connections from one address, idle times, and starts of requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from starlette.types import Receive, Scope, Send

from gateway.asgi.request_id import request_id_of
from gateway.network.client_addresses import ClientAddresses
from gateway.problem import overloaded, problem_response
from gateway.process.request_starts import RequestStarts

TOLD_MAX: Final = 32
"""Connections beyond an address's limit that still get a refusal; further ones are closed without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of a listener. Times are milliseconds. ``idle_ms``: between requests; ``head_ms``: for a request's head."""

    connections_max: int
    accepted_max: int
    """Number of connections above which new ones are closed immediately. Between ``connections_max`` and this they get a
    refusal."""
    addresses: ClientAddresses
    head_ms: int
    idle_ms: int
    body_idle_ms: int
    write_stall_ms: int
    starts: RequestStarts = field(default_factory=RequestStarts)


async def refuse_requests(why: str, scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer every request of a connection beyond the limits (ASGI)."""
    request_id = request_id_of(scope)
    headers = {"connection": "close", "x-request-id": request_id}
    await problem_response(overloaded(why), request_id, headers=headers)(scope, _receive, send)
