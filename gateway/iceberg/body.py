"""The body of a request to the catalog."""

from __future__ import annotations

from starlette.requests import Request

from gateway.gateway import gateway_of, request_memory
from gateway.http.body import request_body


async def body_of(request: Request) -> bytes:
    """Return the whole body. Raise ``RequestRefused``, ``BackOff`` (``OVERLOADED``)."""
    gateway = gateway_of(request)
    async with request_body(request, gateway.body_limits, request_memory(request), pool=gateway.codec_pool) as body:
        return body.data
