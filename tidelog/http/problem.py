"""Conversion of error answers to exceptions: by the API's problem+json, and by the status of any other answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from log_format.errors import ANSWERS, DECODE_ERRORS, ErrorCode
from tidelog.errors import (
    CLASSES,
    BackOff,
    GatewayError,
    IncompatibleSchema,
    OutcomeUnknown,
    RequestRefused,
    SchemaRefused,
    Throttled,
    Unauthenticated,
    Unauthorized,
    UnexpectedAnswer,
    UnknownSchema,
)

_ENVELOPE = frozenset({"type", "title", "status", "detail", "error_code", "retryable", "may_have_happened"})
_BODY_CHARACTERS_SHOWN = 200
_OF_REGISTRY: Final[Mapping[int, type[GatewayError]]] = {
    401: Unauthenticated,
    403: Unauthorized,
    404: UnknownSchema,
    409: IncompatibleSchema,
    429: Throttled,
}
"""Classes of the schema registry's errors by status; every other 4xx is ``SchemaRefused``."""


def error_from_problem(problem: dict[str, Any], *, request_id: str | None = None) -> GatewayError:
    """Return the exception for a problem object, which may also be part of an answer (``POST /v1/fetch``)."""
    text = str(problem.get("error_code", ""))
    code = ErrorCode(text) if text in ErrorCode.__members__ else None
    fallback = ANSWERS[code].status if code is not None else 500
    status = problem["status"] if isinstance(problem.get("status"), int) else fallback
    fields = {name: value for name, value in problem.items() if name not in _ENVELOPE}
    if code is None:
        fields["error_code"] = text
    kind = CLASSES.get(code) if code is not None else None
    if kind is None:
        kind = _by_status(status)
    detail = str(problem.get("detail") or problem.get("title") or text)
    error = kind(detail, code=code, status=status)
    error.fields.update(fields)
    for name in ("retryable", "may_have_happened"):
        if isinstance(problem.get(name), bool):
            setattr(error, name, problem[name])
    error.request_id = request_id
    return error


def error_from_answer(status: int, body: bytes, *, request_id: str | None, url: str) -> GatewayError:
    """Return the exception for an error answer. ``url`` is named in the message if the answer does not come from a gateway."""
    try:
        problem = msgspec.json.decode(body, type=dict[str, Any])
    except DECODE_ERRORS:
        problem = {}
    if isinstance(problem.get("error_code"), int):
        return _error_of_registry(status, problem, request_id)
    if "error_code" in problem:
        problem.setdefault("status", status)
        return error_from_problem(problem, request_id=request_id)
    shown = body[:_BODY_CHARACTERS_SHOWN].decode("utf-8", "backslashreplace")
    error = UnexpectedAnswer(f"{url} answered {status} without a problem document: {shown!r}", status=status)
    # A refusal changed nothing, also a proxy's. A proxy's 502, 503 and 504 leave the gateway's outcome open.
    error.may_have_happened = error.retryable = status >= 500
    error.request_id = request_id
    return error


def _error_of_registry(status: int, problem: dict[str, Any], request_id: str | None) -> GatewayError:
    """Return the exception for an error of the schema registry, which has Confluent's form: a number and a message."""
    kind = _OF_REGISTRY.get(status) or (SchemaRefused if 400 <= status < 500 else _by_status(status))
    error = kind(str(problem.get("message") or problem["error_code"]), status=status)
    error.fields["error_code"] = problem["error_code"]
    error.request_id = request_id
    return error


def _by_status(status: int) -> type[GatewayError]:
    if status in {429, 503}:
        return BackOff
    if status == 504:
        return OutcomeUnknown
    return RequestRefused if status < 500 else UnexpectedAnswer
