"""How many connections a listener takes, how many from one address, how long each may be idle, and how requests are begun."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from starlette.types import Receive, Scope, Send

from gateway.asgi.request_id import request_id_of
from gateway.client_addresses import ClientAddresses
from gateway.problem import overloaded, problem_response
from gateway.process.request_starts import RequestStarts

TOLD_MAX: Final = 32
"""Connections beyond an address's share that still get a refusal; further ones are cut without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Times are milliseconds. ``idle_ms``: between requests; ``head_ms``: for a request's head."""

    connections_max: int
    accepted_max: int
    """Connections beyond this are cut; between the two bounds they are told why they are not served."""
    addresses: ClientAddresses
    head_ms: int
    idle_ms: int
    body_idle_ms: int
    write_stall_ms: int
    starts: RequestStarts = field(default_factory=RequestStarts)


async def refusing(why: str, scope: Scope, _receive: Receive, send: Send) -> None:
    """Answers on a connection beyond the limits."""
    request_id = request_id_of(scope)
    headers = {"connection": "close", "x-request-id": request_id}
    await problem_response(overloaded(why), request_id, headers=headers)(scope, _receive, send)
