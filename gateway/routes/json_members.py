"""Reads a JSON body of a request that is not records: the counterpart of the records' decoders for everything else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from starlette.requests import Request

from gateway.codec.media_type import JSON, content_type
from gateway.gateway import gateway_of
from gateway.http.body import request_body
from gateway.http.json_request import Members, parse_object
from gateway.problem import refused

T = TypeVar("T")

INLINE_BYTES_MAX: Final = 64 * 1024
"""What is longer is parsed in a thread."""


async def json_members(request: Request, *, may_be_empty: bool = False) -> Members:
    """The members of the body's JSON object; an empty body is an empty object where that is allowed.

    Raises ``RequestRefused`` (``INVALID_REQUEST``, ``UNSUPPORTED_MEDIA_TYPE``, ``REQUEST_TOO_LARGE``).
    """
    return await json_parsed(request, lambda members: members, may_be_empty=may_be_empty)


async def json_parsed(request: Request, parse: Callable[[Members], T], *, may_be_empty: bool = False) -> T:
    """What ``parse`` makes of the members: in a thread, too, when the body is long. Raises as ``json_members`` and ``parse``."""
    gateway = gateway_of(request)
    async with request_body(request, gateway.body_limits, gateway.request_memory, pool=gateway.codec_pool) as body:
        if may_be_empty and not body.data.strip():
            return parse(parse_object(b"{}"))
        # What is not there needs no type.
        content_type(body.content_type, (JSON,), default=None if body.data else JSON)
        if not body.data.strip():
            raise refused("The body is empty: a JSON object is needed.", [("", "must be an object")])
        if len(body.data) <= INLINE_BYTES_MAX:
            return parse(parse_object(body.data))
        data = body.data
        return await asyncio.get_running_loop().run_in_executor(gateway.codec_pool, lambda: parse(parse_object(data)))
