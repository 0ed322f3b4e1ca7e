"""A route of the registry's API: parameters and bodies are read as Confluent's clients send them, answers have its media types.

Confluent's API is another's contract, so it is read as leniently as there: unknown parameters and members are ignored, and a flag
is true for ``true`` only. It is not in the OpenAPI document.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from gateway.codec.media_type import JSON, OCTET_STREAM, content_type, negotiate
from gateway.gateway import gateway_of, request_memory
from gateway.http.body import request_body
from gateway.http.json_response import encode_json
from gateway.http.parameters import PARAMETERS_MAX, accept_header
from gateway.problem import refused
from gateway.registry_problem import MEDIA_TYPE
from gateway.routes.administration import administer
from gateway.routes.read_json import INLINE_BYTES_MAX
from gateway.routes.reserved_response import reserve_answer
from gateway.routes.typed_route import TypedRoute
from log_format.errors import DECODE_ERRORS, ErrorCode, RequestRefused

ANSWER_TYPES: Final = (MEDIA_TYPE, "application/vnd.schemaregistry+json", JSON)
BODY_TYPES: Final = (*ANSWER_TYPES, OCTET_STREAM)
_INT32_MAX: Final = 2**31 - 1

BodyT = TypeVar("BodyT")


class Text:
    """An answer that is sent as it is: the text of a schema."""

    def __init__(self, text: str) -> None:
        self.text = text


class Listed(NamedTuple):
    """A list that may be long. ``make`` returns it, from immutable values; ``size_bytes`` is about how large it is as JSON."""

    make: Callable[[], Any]
    size_bytes: int


class RegistryRoute(TypedRoute):
    """Route of ``async def endpoint(request: Request) -> Any``: a value to send as JSON, ``Listed``, ``Text``, or None: 204."""

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        media_type = negotiate(accept_header(request), ANSWER_TYPES)
        values = {self._request_name or "request": request}
        if self._administers is None:
            answer = await self.endpoint(**values)
        else:
            answer = await administer(request, self._administers, self.endpoint, values)
        if answer is None:
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})
            return
        if isinstance(answer, Listed):
            with await reserve_answer(request, answer.size_bytes):
                data = await in_pool_if(
                    request, answer.size_bytes > INLINE_BYTES_MAX, lambda: encode_json(answer.make())
                )
                await _sent(data, media_type, send)
            return
        await _sent(answer.text.encode() if isinstance(answer, Text) else encode_json(answer), media_type, send)


async def _sent(data: bytes, media_type: str, send: Send) -> None:
    headers = [(b"content-type", media_type.encode()), (b"content-length", b"%d" % len(data))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": data})


async def in_pool_if(request: Request, is_long: bool, call: Callable[[], BodyT]) -> BodyT:
    """Return what the call returns; it runs in a thread if it may take long."""
    if not is_long:
        return call()
    return await asyncio.get_running_loop().run_in_executor(gateway_of(request).codec_pool, call)


class Query:
    """The parameters of a request. Unknown ones are ignored, and of a repeated one the last counts."""

    def __init__(self, request: Request) -> None:
        raw: bytes = request.scope["query_string"]
        try:
            pairs = parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX)
        except ValueError:  # also of what is not UTF-8
            raise refused("The query can't be read.") from None
        self._pairs = pairs
        self._values = dict(pairs)

    def flag(self, name: str) -> bool:
        """Return whether the parameter is ``true``."""
        return self._values.get(name, "").lower() == "true"

    def text(self, name: str, default: str = "") -> str:
        """Return the parameter."""
        return self._values.get(name, default)

    def texts(self, name: str) -> list[str]:
        """Return all values of a parameter that may be repeated."""
        return [value for one, value in self._pairs if one == name]

    def number(self, name: str, default: int) -> int:
        """Return the parameter as a number. Raise ``RequestRefused`` for any other text."""
        text = self._values.get(name)
        return default if text is None or text == "" else whole_number(name, text)


def whole_number(name: str, text: str) -> int:
    """Return a number of 32 bits. Raise ``RequestRefused``."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10 and int(digits) <= _INT32_MAX):
        raise refused(f"{name} must be a number.", [(name, "must be a number")])
    return int(text)


async def body_of(request: Request, decoder: msgspec.json.Decoder[BodyT]) -> BodyT:
    """Return the request's JSON body. Raise ``RequestRefused`` (400, 413, 415, 422), ``BackOff``."""
    gateway = gateway_of(request)
    async with request_body(request, gateway.body_limits, request_memory(request), pool=gateway.codec_pool) as body:
        # JSON is UTF-8, whatever charset clients name beside it: some add ISO-8859-1 to each type that they don't know.
        content_type((body.content_type or "").partition(";")[0], BODY_TYPES, default=JSON)
        data = body.data
        return await in_pool_if(request, len(data) > INLINE_BYTES_MAX, partial(_decoded, decoder, data))


def _decoded(decoder: msgspec.json.Decoder[BodyT], data: bytes) -> BodyT:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as problem:
        raise RequestRefused(
            f"The body is not what is needed here: {problem}", code=ErrorCode.INVALID_REQUEST, status=422
        ) from None
    except DECODE_ERRORS as problem:
        raise refused(f"The body is not JSON: {str(problem)[:200]}") from None
