"""JSON bodies of requests that are not records: parsed strictly, then checked against a model.

1. A member named twice, an unknown member, NaN, a number that is no integer where one is wanted: all are refused.
2. At most ``NODES_MAX`` commas and brackets, counted before anything is parsed: the parser makes objects of many times their
   size, and holds the interpreter's lock until it is done.
3. What is longer than ``INLINE_BYTES_MAX`` is parsed and checked in a thread.

Records have decoders of their own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from gateway.codec.json_structure import nodes_exceed
from gateway.codec.media_type import JSON, content_type
from gateway.http.body import request_body
from gateway.http.validation import body_refusal
from gateway.problem import refused
from gateway.shell import shell_of

NODES_MAX: Final = 131_072
"""More than twice what naming 10,000 partitions takes, with offset and metadata each. Parsing so much takes about 30 ms."""
INLINE_BYTES_MAX: Final = 64 * 1024

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


async def json_body(request: Request, read: Callable[[bytes], T], *, default: T | None = None) -> T:
    """What ``read`` (``checked`` with a model) makes of the body; ``default`` where it is empty and there is one.

    Raises ``RequestRefused`` (``INVALID_REQUEST``, ``UNSUPPORTED_MEDIA_TYPE``, ``REQUEST_TOO_LARGE``), and what ``read`` raises.
    """
    shell = shell_of(request)
    async with request_body(request, shell.body_limits, shell.request_memory, pool=shell.codec_pool) as body:
        data = body.data
        is_empty = not data.strip()
        if is_empty and default is not None:
            return default
        # What is not there needs no type.
        content_type(body.content_type, (JSON,), default=None if data else JSON)
        if is_empty:
            raise refused("The body is empty: a JSON object is needed.", [("", "must be an object")])
        if len(data) <= INLINE_BYTES_MAX:
            return read(data)
        return await asyncio.get_running_loop().run_in_executor(shell.codec_pool, read, data)


def checked(model: type[M], data: bytes) -> M:
    """The object that ``data`` has, as the model says. Raises ``RequestRefused``, and what the model's validators raise."""
    members = parsed_object(data)
    try:
        return model.model_validate(members)
    except ValidationError as error:
        raise body_refusal(error, members) from None


def parsed_object(data: bytes) -> dict[str, Any]:
    """The JSON object that ``data`` is. Raises ``RequestRefused`` (``INVALID_REQUEST``)."""
    if nodes_exceed(data, NODES_MAX):
        what = f"has more than {NODES_MAX} commas and brackets: send it as several requests"
        raise refused(f"The body {what}.", [("", what)])
    try:
        value = json.loads(data.decode(), object_pairs_hook=_object, parse_constant=_no_constant)
        if b"\\u" in data:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise refused(
            "The body is not usable JSON: half of a surrogate pair.", [("", "has a lone surrogate")]
        ) from None
    except UnicodeDecodeError as error:
        raise refused("The body is not UTF-8.", [("", f"byte {error.start} is not UTF-8")]) from None
    except json.JSONDecodeError as error:
        what = f"{error.msg} at line {error.lineno} column {error.colno}"
        raise refused(f"The body is not JSON: {what}.", [("", what)]) from None
    except RecursionError:
        raise refused("The body is not usable JSON: it is nested too deeply.", [("", "is nested too deeply")]) from None
    except ValueError as error:
        raise refused(f"The body is not usable JSON: {error}.", [("", str(error))]) from None
    if not isinstance(value, dict):
        raise refused("The body must be a JSON object.", [("", "must be an object")])
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"member {name[:80]!r} is named twice")
            seen.add(name)
    return members


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
