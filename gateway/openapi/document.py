"""The OpenAPI document, in which FastAPI describes each operation by its function.

1. The document is made from types, docstrings, and ``problems(...)`` for the API's errors. Only bodies with records, and media
   types other than JSON, are described by hand.
2. No operation has FastAPI's 422; every error is a ``Problem``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from gateway.http.fields import INT64_MAX
from gateway.openapi.problems import Problem
from gateway.openapi.schemas import NewRecord, schema_of
from log_format.version import __version__

_DESCRIPTION: Final = """\
A partitioned, ordered, replayable log on object storage; every topic is a Delta table.

Errors are `application/problem+json` with `error_code`, `retryable` (the very same request may succeed later) and
`may_have_happened` (false promises that nothing changed)."""


def document(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the routes."""
    made = get_openapi(
        title="Tidelog",
        version=__version__,
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/"}],
        tags=[
            {"name": name} for name in ("topics", "produce", "transactions", "fetch", "groups", "access", "operations")
        ],
        routes=routes,
    )
    for methods in made["paths"].values():
        for described in methods.values():
            described["responses"].pop("422", None)
    moved: dict[str, Any] = schema_of(Problem | NewRecord)["$defs"]
    whole: dict[str, Any] = _whole(made, moved)
    schemas = whole["components"]["schemas"] | moved
    whole["components"]["schemas"] = {
        name: schema for name, schema in schemas.items() if name not in ("HTTPValidationError", "ValidationError")
    }
    return whole


def _whole(value: Any, moved: dict[str, Any]) -> Any:
    """Return the value with integers in place of floats; move its ``$defs`` to ``moved``.

    FastAPI turns limits into floats, which round the largest integer up by one; nothing in the document is meant to be a float.
    """
    if isinstance(value, dict):
        if "$defs" in value:
            moved |= _whole(value["$defs"], moved)
        return {name: _whole(member, moved) for name, member in value.items() if name != "$defs"}
    if isinstance(value, list):
        return [_whole(entry, moved) for entry in value]
    return min(int(value), INT64_MAX) if isinstance(value, float) else value
