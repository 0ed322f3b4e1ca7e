"""A FastAPI route whose endpoint declares its input and answer by types. Input is parsed strictly.

FastAPI analyzes and documents the endpoint's signature. The docstrings of the endpoint and of its answer's type are text of the
OpenAPI document. FastAPI's request handler is not used: it accepts a repeated JSON member, parses a body of any size on the event
loop, and costs more than a small produce. This route parses instead, cheapest first:

1. The query: an undeclared parameter is refused, and a repeated one that is not a list.
2. The parts of the path, percent-decoded.
3. The headers, if the endpoint declares any: a repeated one is refused.
4. The body, by ``read_json``. It may be empty if the endpoint has a default. Bodies with records are not declared: the endpoint
   reads them, and ``openapi_extra`` documents them.

The decorator ``gateway.access.needs`` declares the rights that the endpoint needs; without it no route can be made.
``gateway.quotas.spending`` declares the quotas that the endpoint charges.

An endpoint returns a value to send as JSON with the route's status, None for no body, or an ASGI application.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import Any, Final, Literal, get_type_hints

from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.access.needs import Needs, needs_of
from gateway.gateway import gateway_of
from gateway.http import fields
from gateway.http.json_response import json_response
from gateway.http.parameters import header_names, header_pairs, parse_parameters, path_text, query_pairs
from gateway.openapi.problems import problems, refusals
from gateway.quotas.spending import spends_of
from gateway.routes.administration import administer, administrative_right
from gateway.routes.read_json import read_json
from log_format.errors import ErrorCode, RequestRefused

NEEDS: Final = "x-tidelog-needs"
"""Member of an operation in the OpenAPI document: the rights that it needs; ``open``: not even a credential."""


_ACCESS: Final = "/v1/access"
"""Prefix of paths that are refused if rights are not enforced, whatever the request."""


class TypedRoute(APIRoute):
    """Route of ``async def endpoint(request: Request, group: GroupPath, query: Annotated[Model, Query()], body: Model) ->
    Answer``."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        # The operation's id in the OpenAPI document is the name of its function.
        named = {"generate_unique_id_function": lambda route: route.name}
        self.needs = needs_of(endpoint)
        self.spends = spends_of(endpoint)
        self._is_of_access = path.startswith(_ACCESS)
        self._administers = administrative_right(self.needs, options.get("methods") or (), path)
        described = {
            "responses": refusals(self.needs) | (options["responses"] or problems()),
            "openapi_extra": (options["openapi_extra"] or {}) | {NEEDS: _describe(self.needs)},
        }
        super().__init__(path, endpoint, **options | named | described)
        self.summary, _, self.description = cleandoc(endpoint.__doc__ or "").partition("\n\n")
        if self.status_code == 204:
            self.response_description = "Done"
        elif self.response_model is not None:
            self.response_description = cleandoc(self.response_model.__doc__ or "")
        takes = self.dependant
        types = get_type_hints(endpoint, include_extras=True)
        self._path = [(part.name, part.alias, TypeAdapter(types[part.name]).validator) for part in takes.path_params]
        self._query = [(one.name, _model(one), _model(one)()) for one in takes.query_params]
        self._headers = [
            (one.name, _model(one), _model(one)(), header_names(_model(one))) for one in takes.header_params
        ]
        self._request_name = takes.request_param_name
        self._body = [
            (one.name, _model(one), None if one.field_info.is_required() else one.field_info.default)
            for one in takes.body_params
        ]
        self.app = self._handle

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        if self._is_of_access and not gateway_of(request).rights.enforced:
            raise RequestRefused(
                "This gateway runs with auth=off: there are no tokens, roles or ACLs.", code=ErrorCode.AUTH_DISABLED
            )
        values: dict[str, Any] = {}
        given = query_pairs(request)
        for name, model, default in self._query:
            values[name] = parse_parameters(model, given, "Query parameter") if given else default
        if given and not self._query:
            parse_parameters(fields.Parameters, given, "Query parameter")
        for name, alias, validator in self._path:
            # The validator itself refuses a text that can name nothing.
            values[name] = validator.validate_python(path_text(request, alias))
        for name, model, default, names in self._headers:
            found = header_pairs(request, names)
            values[name] = parse_parameters(model, found, "Header") if found else default
        if self._request_name is not None:
            values[self._request_name] = request
        for name, model, body_default in self._body:
            values[name] = await read_json(request, model, default=body_default)
        answer: Any
        if self._administers is None:
            answer = await self.endpoint(**values)
        else:
            answer = await administer(request, self._administers, self.endpoint, values)
        if answer is None:
            answer = Response(status_code=204)
        sent: ASGIApp = answer if callable(answer) else json_response(answer, self.status_code or 200)
        await sent(scope, receive, send)


def _model(declared: Any) -> type[BaseModel]:
    model = declared.field_info.annotation
    assert isinstance(model, type)
    assert issubclass(model, BaseModel), "a query, headers or a body are declared as one model"
    return model


def _describe(needs: Needs) -> list[dict[str, str]] | Literal["open"]:
    if needs.is_open:
        return "open"
    return [
        {"operation": one.operation, "resource_type": one.resource_type} | ({"path": one.path} if one.path else {})
        for one in needs.rights
    ]
