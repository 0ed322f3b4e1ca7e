"""A route of the catalog: parameters are read as Iceberg's clients send them, unknown ones are ignored, and answers are JSON.

Iceberg's API is another's contract, so it is read leniently. It is not in the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from gateway.http.json_response import json_response
from gateway.http.parameters import PARAMETERS_MAX, path_text
from gateway.problem import refused
from gateway.routes.reserved_response import reserved_json
from gateway.routes.typed_route import TypedRoute
from log_format.errors import ErrorCode, RequestRefused

TOPICS: Final = "topics"
"""Namespace of the topics' tables."""
NAMESPACES: Final = (TOPICS,)


class Large(NamedTuple):
    """An answer that may be long. ``make`` returns it, from immutable values; ``size_bytes`` is about how large it is as JSON."""

    make: Callable[[], Any]
    size_bytes: int
    is_secret: bool = False
    """Whether no cache may keep the answer."""


class IcebergRoute(TypedRoute):
    """Route of ``async def endpoint(request: Request) -> Any``: a value to send as JSON, ``Large``, or None: 204."""

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        answer = await self.endpoint(request)
        if isinstance(answer, Large):
            sent = await reserved_json(request, answer.make, size_bytes=answer.size_bytes)
            await sent(scope, receive, _uncached(send) if answer.is_secret else send)
        elif answer is None:
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})
        else:
            await json_response(answer, 200)(scope, receive, send)


def _uncached(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"cache-control", b"no-store")]}
        await send(message)

    return sending


def query_of(request: Request) -> dict[str, str]:
    """Return the parameters of the query; of a repeated one the last counts. Raise ``RequestRefused``."""
    raw: bytes = request.scope["query_string"]
    try:
        return dict(parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX))
    except ValueError:  # also of what is not UTF-8
        raise refused("The query can't be read.") from None


def namespace_asked(request: Request) -> str:
    """Return the namespace in the path. Raise ``RequestRefused`` (404) for an unknown one."""
    return known_namespace(path_text(request, "namespace"), f". Topics are in the namespace {TOPICS!r}.")


def known_namespace(namespace: str, advice: str = "") -> str:
    """Return the namespace. Raise ``RequestRefused`` (404) for an unknown one, in words that Iceberg's clients compare."""
    if namespace not in NAMESPACES:
        raise RequestRefused(f"Namespace does not exist: {dotted(namespace)}{advice}", code=ErrorCode.NOT_FOUND)
    return namespace


def dotted(namespace: str) -> str:
    """Return a namespace as people write it: Iceberg's clients send a mark between its parts."""
    return namespace[:100].replace("\x1f", ".")
