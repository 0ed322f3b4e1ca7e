"""Errors as HTTP answers: ``application/problem+json`` (RFC 9457), translated here and nowhere else.

1. Every error has the members ``type``, ``title``, ``status``, ``detail``, ``error_code``, ``retryable``,
   ``may_have_happened``, ``request_id``, then the error's own fields, which never replace one of these.
2. Every 400 has ``errors``, which name at least one part of the request; ``""`` is the whole request.
3. ``Retry-After`` goes with every 429 and 503.
4. An unforeseen error is ``INTERNAL`` and tells nothing of the inside; the code that catches it logs it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from log_format.errors import (
    ANSWERS,
    BackOff,
    ErrorCode,
    OutcomeUnknown,
    RequestRefused,
    StoreUnavailable,
    TidelogError,
    store_reason,
)
from log_format.limits import REPORTED_ERRORS_MAX

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:tidelog:problem:"
RETRY_AFTER_SECONDS: Final[Mapping[ErrorCode, int]] = {ErrorCode.UNAVAILABLE: 2}
"""Seconds that a client should stay away; one second for other errors. A store's outage outlasts a full queue."""


def refused(
    detail: str, errors: Sequence[tuple[str, str]] = (), *, code: ErrorCode = ErrorCode.INVALID_REQUEST
) -> RequestRefused:
    """Return a refusal with ``"errors": [{"where", "what"}]``, cut at 20.

    ``where`` is a JSON pointer, a header's or query parameter's name, or ``line N``.
    """
    if not errors:
        return RequestRefused(detail, code=code)
    listed = [{"where": where, "what": what} for where, what in errors[:REPORTED_ERRORS_MAX]]
    return RequestRefused(detail, code=code, errors=listed)


def overloaded(detail: str) -> BackOff:
    """Return the error for a limit of the gateway that is reached: 503 ``OVERLOADED``. Nothing changed."""
    return BackOff(detail, code=ErrorCode.OVERLOADED)


def as_tidelog_error(error: BaseException) -> TidelogError:
    """Return the contract's error for ``error``; ``INTERNAL`` for an unforeseen one."""
    if isinstance(error, TidelogError):
        return error
    if isinstance(error, StoreUnavailable):
        known: TidelogError = BackOff(f"The store can't do this now: {error.reason.said}.")
        if error.may_have_happened:
            known = OutcomeUnknown("The store did not answer in time: whether the change was made is unknown.")
        known.__cause__ = error
        return known
    return TidelogError("The gateway failed. Its log has the cause under this request's id.")


def problem(error: TidelogError, request_id: str | None = None) -> dict[str, Any]:
    """Return the problem's JSON object, also for use inside another answer (``/v1/fetch``)."""
    answers = ANSWERS[error.code]
    members: dict[str, Any] = {
        "type": TYPE_PREFIX + error.code,
        "title": answers.title,
        "status": error.status,
        "detail": error.detail,
        "error_code": str(error.code),
        "retryable": error.retryable,
        "may_have_happened": error.may_have_happened,
    }
    if request_id is not None:
        members["request_id"] = request_id
    if error.status in (503, 504) and (reason := store_reason(error)) is not None:
        members["store_reason"] = str(reason)
    for name, value in error.fields.items():
        members.setdefault(name, value)
    if error.status == 400:
        members.setdefault("errors", [{"where": "", "what": error.detail}])
    return members


def problem_headers(error: TidelogError) -> dict[str, str]:
    """Return the headers of the error: ``Retry-After`` with every 429 and 503, what a 401 must say, else nothing."""
    if error.status == 401:
        return {"www-authenticate": 'Bearer error="invalid_token"', "cache-control": "no-store"}
    if error.status in (429, 503):
        wait_ms = error.fields.get("retry_after_ms")
        seconds = RETRY_AFTER_SECONDS.get(error.code, 1) if wait_ms is None else math.ceil(wait_ms / 1000)
        return {"retry-after": str(seconds)}
    return {}


def problem_bytes(error: TidelogError, request_id: str | None = None) -> bytes:
    """Return the problem as the body of an answer. Fields that JSON doesn't know are written as their text."""
    return msgspec.json.encode(problem(error, request_id), enc_hook=str)


def problem_response(
    error: BaseException, request_id: str | None = None, *, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the answer for any error."""
    known = as_tidelog_error(error)
    more = dict(headers or {}) | problem_headers(known)
    return Response(problem_bytes(known, request_id), status_code=known.status, headers=more, media_type=MEDIA_TYPE)


def request_id(request: Request) -> str | None:
    """Return the request's id in the answer and in the log."""
    found = request.scope.get("tidelog.request_id")
    return found if isinstance(found, str) else None
