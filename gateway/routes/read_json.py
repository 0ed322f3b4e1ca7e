"""JSON bodies of requests without records."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, TypeVar

from pydantic import BaseModel
from starlette.requests import Request

from gateway.codec.media_type import JSON, content_type
from gateway.gateway import gateway_of, request_memory
from gateway.http.body import request_body
from gateway.http.json_request import parse_model
from gateway.problem import refused

M = TypeVar("M", bound=BaseModel)

INLINE_BYTES_MAX: Final = 64 * 1024
"""Size above which a body is parsed and validated in a thread."""


async def read_json(request: Request, model: type[M], *, default: M | None = None) -> M:
    """Return the body as the model; ``default``, if there is one, for an empty body.

    Raises ``RequestRefused`` (``INVALID_REQUEST``, ``UNSUPPORTED_MEDIA_TYPE``, ``REQUEST_TOO_LARGE``), and as the model's
    validators do.
    """
    gateway = gateway_of(request)
    async with request_body(request, gateway.body_limits, request_memory(request), pool=gateway.codec_pool) as body:
        data = body.data
        is_empty = not data.strip()
        if is_empty and default is not None:
            return default
        # An absent body needs no media type.
        content_type(body.content_type, (JSON,), default=None if data else JSON)
        if is_empty:
            raise refused("The body is empty: a JSON object is needed.", [("", "must be an object")])
        if len(data) <= INLINE_BYTES_MAX:
            return parse_model(model, data)
        return await asyncio.get_running_loop().run_in_executor(gateway.codec_pool, partial(parse_model, model, data))
