"""The body of a request to the catalog."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request

from gateway.gateway import gateway_of, request_memory
from gateway.http.body import request_body


async def body_of(request: Request, bytes_max: int) -> bytes:
    """Return the whole body. Raise ``RequestRefused`` if it has more bytes; ``BackOff`` (``OVERLOADED``)."""
    gateway = gateway_of(request)
    limits = replace(gateway.body_limits, bytes_max=min(bytes_max, gateway.body_limits.bytes_max))
    async with request_body(request, limits, request_memory(request), pool=gateway.codec_pool) as body:
        return body.data
