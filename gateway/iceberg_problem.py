"""Errors of the Iceberg catalog as HTTP answers: ``{"error": {"message", "type", "code"}}``, as Iceberg's clients read them.

The catalog only reads. A request that would write gets 406, which Iceberg's API has for what a server does not do. The token
endpoint has OAuth's own errors.

Source: Iceberg's "REST Catalog API", ``IcebergErrorResponse``; RFC 6749, section 5.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.responses import Response

from gateway.problem import as_tidelog_error, problem_headers
from log_format.errors import ErrorCode, TidelogError

PREFIX: Final = "/iceberg"
"""Path of the catalog; the paths of Iceberg's API follow."""
TOKENS: Final = f"{PREFIX}/v1/oauth/tokens"
PLAN_TASKS: Final = "/tasks"
"""End of the path of a plan's pages."""
_NOT_DONE: Final = 406
_GONE: Final = 404
READ_ONLY: Final = "This catalog only reads. Each topic is a table here, and topics are written by Tidelog's own API."
_READS: Final = frozenset({"GET", "HEAD"})
_TYPES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_TOPIC: "NoSuchTableException",
    ErrorCode.UNAUTHENTICATED: "NotAuthorizedException",
    ErrorCode.UNAUTHORIZED: "ForbiddenException",
    ErrorCode.NOT_FOUND: "NoSuchNamespaceException",
    ErrorCode.THROTTLED: "TooManyRequestsException",
}


def is_of_iceberg(path: str) -> bool:
    """Return whether a path is the catalog's."""
    return path.startswith(f"{PREFIX}/")


def iceberg_response(
    error: BaseException,
    request_id: str | None = None,
    *,
    path: str,
    method: str,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the answer for any error of a request to the catalog. The request's id is in a header of every answer."""
    del request_id
    known = as_tidelog_error(error)
    more = dict(headers or {}) | problem_headers(known)
    if path == TOKENS:
        return _answer({"error": _oauth_error(known), "error_description": known.detail}, known.status, more)
    status, message, kind = known.status, known.detail, _type(known)
    if method not in _READS and known.code in (ErrorCode.METHOD_NOT_ALLOWED, ErrorCode.NOT_FOUND):
        status, message, kind = _NOT_DONE, READ_ONLY, "UnsupportedOperationException"
    elif known.code is ErrorCode.VERSION_GONE:
        status = _GONE
        kind = "NoSuchPlanTaskException" if path.endswith(PLAN_TASKS) else "NoSuchPlanIdException"
    return _answer({"error": {"message": message, "type": kind, "code": status}}, status, more)


def _type(error: TidelogError) -> str:
    if error.code in _TYPES:
        return _TYPES[error.code]
    if error.status == 503:
        return "ServiceUnavailableException"
    return "BadRequestException" if error.status < 500 else "InternalServerError"


def _oauth_error(error: TidelogError) -> str:
    return "invalid_client" if error.status == 401 else "invalid_request"


def _answer(body: object, status: int, headers: Mapping[str, str]) -> Response:
    return Response(msgspec.json.encode(body), status_code=status, headers=dict(headers), media_type="application/json")
