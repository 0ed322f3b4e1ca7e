"""Errors of the schema registry as HTTP answers: ``{"error_code", "message"}``, as Confluent's clients read them.

The registry refuses with Confluent's own codes. Every other error has the status that it has everywhere, and that as its code;
the store's errors have those that Confluent's registry gives for its store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.responses import Response

from gateway.problem import as_tidelog_error, problem_headers
from log_format.errors import ErrorCode, TidelogError
from log_format.schemas.refusals import RegistryCode, RegistryRefused

PREFIX: Final = "/registry"
"""Path of the registry; Confluent's paths follow."""
MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_CODES: Final[Mapping[ErrorCode, RegistryCode]] = {
    ErrorCode.UNAVAILABLE: RegistryCode.STORE_ERROR,
    ErrorCode.OUTCOME_UNKNOWN: RegistryCode.TIMEOUT,
}


def is_of_registry(path: str) -> bool:
    """Return whether a path is the registry's."""
    return path.startswith(f"{PREFIX}/") or path == PREFIX


def registry_code(error: TidelogError) -> int:
    """Return the error's code in Confluent's API."""
    if isinstance(error, RegistryRefused):
        return int(error.registry_code)
    return int(_CODES.get(error.code, error.status))


def registry_response(
    error: BaseException, request_id: str | None = None, *, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the answer for any error. The request's id is in a header of every answer."""
    del request_id
    known = as_tidelog_error(error)
    body = msgspec.json.encode({"error_code": registry_code(known), "message": known.detail})
    return Response(
        body, status_code=known.status, headers=dict(headers or {}) | problem_headers(known), media_type=MEDIA_TYPE
    )
