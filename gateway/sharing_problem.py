"""Errors of Delta Sharing as HTTP answers: ``{"errorCode", "message"}`` (its protocol, "REST APIs").

``errorCode`` is that of the reference server where it has one, else Tidelog's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.responses import Response

from gateway.problem import as_tidelog_error, problem_headers

PREFIX: Final = "/delta-sharing"
"""Path of Delta Sharing, the ``endpoint`` of a profile; the protocol's paths follow."""
_CODES: Final[Mapping[int, str]] = {
    400: "INVALID_PARAMETER_VALUE",
    404: "RESOURCE_DOES_NOT_EXIST",
    410: "RESOURCE_DOES_NOT_EXIST",
    500: "INTERNAL_ERROR",
}


def is_of_sharing(path: str) -> bool:
    """Return whether a path is Delta Sharing's."""
    return path.startswith(f"{PREFIX}/") or path == PREFIX


def sharing_response(
    error: BaseException, request_id: str | None = None, *, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the answer for any error. The request's id is in a header of every answer."""
    del request_id
    known = as_tidelog_error(error)
    body = msgspec.json.encode({"errorCode": _CODES.get(known.status, str(known.code)), "message": known.detail})
    return Response(
        body,
        status_code=known.status,
        headers=dict(headers or {}) | problem_headers(known),
        media_type="application/json",
    )
