"""Messages of other gateways: bodies of requests that a gateway sends by itself, with its hop."""

from __future__ import annotations

from starlette.requests import Request

from gateway.forwarding.arrival import hop_of
from gateway.gateway import gateway_of
from gateway.http.body import BodyLimits, request_body
from gateway.http.dispatch import no_such_route


async def peer_message(request: Request, bytes_max: int) -> tuple[bytes, str]:
    """Return the body of another gateway's own message, and its sender. Raise ``RequestRefused`` (404 for a client's request)."""
    gateway, hop = gateway_of(request), hop_of(request.scope)
    if hop is None or hop.passed:
        raise no_such_route()
    limits = BodyLimits(bytes_max=bytes_max, total_ms=gateway.body_limits.total_ms)
    async with request_body(request, limits, gateway.request_memory, pool=gateway.codec_pool) as body:
        return body.data, hop.sender
