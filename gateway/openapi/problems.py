"""The errors of an operation in the OpenAPI document: by status, each with its codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from gateway.access.needs import Needs
from gateway.http import fields
from gateway.openapi.schemas import reference
from gateway.problem import MEDIA_TYPE, TYPE_PREFIX
from gateway.quotas.limits import QUOTAS
from log_format.errors import ANSWERS, ErrorCode, StoreReason
from log_format.limits import REPORTED_ERRORS_MAX

_STATUSES_OF: Final[Mapping[ErrorCode, tuple[int, ...]]] = {ErrorCode.OFFSET_OUT_OF_RANGE: (410, 416)}
_ALWAYS: Final = (ErrorCode.INVALID_REQUEST, ErrorCode.INTERNAL, ErrorCode.OVERLOADED, ErrorCode.UNAVAILABLE)
"""Errors that any operation may answer."""
BODY_ERRORS: Final = (ErrorCode.REQUEST_TOO_LARGE, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
"""Errors of any operation with a body."""
CHANGE_ERRORS: Final = (*BODY_ERRORS, ErrorCode.OUTCOME_UNKNOWN)
"""Errors of any operation with a body that changes something."""


class Fault(TypedDict):
    """A wrong part of a request."""

    where: str
    what: str


class Problem(TypedDict):
    """An error (RFC 9457)."""

    type: Annotated[str, Field(json_schema_extra={"format": "uri"})]
    title: str
    status: Annotated[int, fields.Between(400, 599)]
    detail: str
    error_code: Annotated[str, fields.OneOf(*map(str, ErrorCode))]
    retryable: Annotated[bool, Field(description="The same request may succeed later, unchanged")]
    may_have_happened: Annotated[bool, Field(description="false promises that the request changed nothing")]
    request_id: NotRequired[str]
    store_reason: NotRequired[
        Annotated[str, fields.OneOf(*map(str, StoreReason)), Field(description="Why the store failed, if it did")]
    ]
    errors: NotRequired[Annotated[list[Fault], Field(max_length=REPORTED_ERRORS_MAX)]]
    limit_bytes: NotRequired[fields.Count]
    limit_of: NotRequired[Annotated[str, fields.OneOf("transaction")]]
    quota: NotRequired[Annotated[str, fields.OneOf(*QUOTAS)]]
    retry_after_ms: NotRequired[Annotated[int, fields.Between(1)]]


def problems(*errors: ErrorCode) -> dict[int | str, dict[str, Any]]:
    """Return Response Objects by status: of ``errors``, and of the errors that any operation may answer."""
    by_status: dict[int, list[ErrorCode]] = {}
    for code in dict.fromkeys((*errors, *_ALWAYS, ErrorCode.DRAINING)):
        for status in _STATUSES_OF.get(code, (ANSWERS[code].status,)):
            by_status.setdefault(status, []).append(code)
    return {status: _error_response(status, codes) for status, codes in sorted(by_status.items())}


def refusals(needs: Needs) -> dict[int | str, dict[str, Any]]:
    """Return Response Objects of refusals that depend on the caller: 401, 403 if a right is needed, 429."""
    codes = [] if needs.is_open else [ErrorCode.UNAUTHENTICATED]
    codes += [ErrorCode.UNAUTHORIZED] if needs.rights else []
    codes += [] if needs.is_open else [ErrorCode.THROTTLED]
    return {ANSWERS[code].status: _error_response(ANSWERS[code].status, (code,)) for code in codes}


def _error_response(status: int, codes: Sequence[ErrorCode]) -> dict[str, Any]:
    first = ANSWERS[codes[0]]
    described: dict[str, Any] = {
        "description": "; ".join(f"`{code}`: {ANSWERS[code].title}" for code in codes),
        "content": {
            MEDIA_TYPE: {
                "schema": {
                    "allOf": [
                        reference(Problem),
                        {"properties": {"error_code": {"enum": [str(code) for code in codes]}}},
                    ]
                },
                "example": {
                    "type": TYPE_PREFIX + codes[0],
                    "title": first.title,
                    "status": status,
                    "detail": f"{first.title}.",
                    "error_code": str(codes[0]),
                    "retryable": first.retryable,
                    "may_have_happened": first.may_have_happened,
                },
            }
        },
    }
    if status in (429, 503):
        described["headers"] = {
            "Retry-After": {"description": "Seconds to stay away", "schema": {"type": "integer", "minimum": 1}}
        }
    return described
