"""The OpenAPI document: FastAPI describes control calls from their types, ``operation`` describes calls that parse by hand.

1. A control call is described by its function: types, docstrings, and ``problems(...)`` for the errors of the contract.
2. A direct call is declared with ``**operation(...)``, which gives the whole Operation Object.
3. No operation has FastAPI's 422; every error is a ``Problem``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi.openapi.utils import get_openapi
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.http.direct_route import DirectRoute
from gateway.http.parameters import INT64_MAX, NO_PARAMETERS, Parameter, QueryParameters
from gateway.openapi.problems import problems
from gateway.openapi.schemas import COMPONENT_SCHEMAS, PATH_PARAMETERS
from log_format.errors import ErrorCode
from log_format.version import __version__

JSON: Final = "application/json"

_DESCRIPTION: Final = """\
A partitioned, ordered, replayable log on object storage; every topic is a Delta table.

Errors are `application/problem+json` with `error_code`, `retryable` (the very same request may succeed later) and
`may_have_happened` (false promises that nothing changed)."""


def operation(
    *,
    summary: str,
    tag: str,
    answers: Mapping[int, Mapping[str, Any]],
    errors: Sequence[ErrorCode] = (),
    query: QueryParameters = NO_PARAMETERS,
    path: Sequence[str] = (),
    headers: Sequence[Mapping[str, Any]] = (),
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Keyword arguments of a route decorator that describe the route.

    ``path`` names its path parameters (keys of ``PATH_PARAMETERS``); ``answers`` come from ``answer``, ``body`` from
    ``request_body``; ``errors`` are those besides ``INVALID_REQUEST``, ``INTERNAL``, ``OVERLOADED`` and ``UNAVAILABLE``.
    """
    parameters: list[Mapping[str, Any]] = [PATH_PARAMETERS[name] for name in path]
    parameters += [_query_parameter(parameter) for parameter in query.parameters]
    parameters += headers
    errors_by_status = {str(status): value for status, value in problems(*errors).items()}
    described: dict[str, Any] = {
        "summary": summary,
        "tags": [tag],
        "parameters": parameters,
        "responses": {str(status): dict(value) for status, value in answers.items()} | errors_by_status,
    }
    if body is not None:
        described["requestBody"] = body
    return {"summary": summary, "openapi_extra": described, "response_class": Response, "response_model": None}


def answer(
    description: str,
    content: Mapping[str, Any] | None = None,
    *,
    example: Any = None,
    headers: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A Response Object. ``content``: a JSON schema of an ``application/json`` body, or media type -> Media Type Object."""
    described: dict[str, Any] = {"description": description}
    if content is not None:
        described["content"] = _content(content, example)
    if headers is not None:
        described["headers"] = dict(headers)
    return described


def media(schema: Mapping[str, Any], *, example: Any = None) -> dict[str, Any]:
    """A Media Type Object."""
    described: dict[str, Any] = {"schema": dict(schema)}
    if example is not None:
        described["example"] = example
    return described


def request_body(content: Mapping[str, Any], *, example: Any = None) -> dict[str, Any]:
    """A Request Body Object; ``content`` as in ``answer``."""
    return {"required": True, "content": _content(content, example)}


def integer_header(description: str) -> dict[str, Any]:
    """A Header Object for a whole number, such as a position."""
    return {"description": description, "schema": {"type": "integer", "format": "int64", "minimum": 0}}


def document(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the described routes."""
    said = [route for route in routes if isinstance(route, DirectRoute) and (route.openapi_extra or route.responses)]
    made = get_openapi(
        title="Tidelog",
        version=__version__,
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/"}],
        tags=[{"name": name} for name in ("topics", "produce", "transactions", "fetch", "groups", "operations")],
        routes=said,
    )
    for methods in made["paths"].values():
        for described in methods.values():
            described["responses"].pop("422", None)
    schemas = made["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    whole: dict[str, Any] = _whole(made)
    whole["components"]["schemas"] |= COMPONENT_SCHEMAS
    return whole


def _whole(value: Any) -> Any:
    """FastAPI turns limits into floats, which round the largest integer up by one; nothing in the document is a float."""
    if isinstance(value, dict):
        return {name: _whole(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_whole(entry) for entry in value]
    return min(int(value), INT64_MAX) if isinstance(value, float) else value


def _content(content: Mapping[str, Any], example: Any) -> dict[str, Any]:
    return dict(content) if any("/" in name for name in content) else {JSON: media(content, example=example)}


def _query_parameter(parameter: Parameter) -> dict[str, Any]:
    described = {"name": parameter.name, "in": "query", "required": False, "description": parameter.description}
    return {**described, "schema": dict(parameter.schema)}
