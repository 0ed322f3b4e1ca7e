"""A FastAPI route whose endpoint declares its input and answer by types. Input is read strictly.

FastAPI takes the endpoint's signature apart and describes it. The docstrings of the endpoint and of its answer's type are the
words of the OpenAPI document. FastAPI's request handler is not used: it accepts a repeated member, parses a body of any size on
the event loop, and costs more than a small produce. In its place, cheapest first:

1. The query: an undeclared or repeated parameter is refused.
2. The path's parts, percent-decoded.
3. The headers, where the endpoint declares some: a repeated one is refused.
4. The body, by ``json_body``. It may be empty where the endpoint has a default. Bodies with records are not declared: the
   endpoint reads them, and ``openapi_extra`` describes them.

An endpoint returns a value to send as JSON with the route's status, None for no body, or an ASGI application.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import Any

from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http import fields
from gateway.http.json_response import json_response
from gateway.http.parameters import header_names, header_pairs, of_pairs, path_text, query_pairs
from gateway.openapi.problems import problems
from gateway.routes.json_body import json_body


class TypedRoute(APIRoute):
    """``async def endpoint(request: Request, group: GroupPath, query: Annotated[Model, Query()], body: Model) -> Answer``."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        # An operation of the OpenAPI document has its function's name.
        named = {"generate_unique_id_function": lambda route: route.name}
        super().__init__(path, endpoint, **options | named | {"responses": options["responses"] or problems()})
        self.summary, _, self.description = cleandoc(endpoint.__doc__ or "").partition("\n\n")
        if self.status_code == 204:
            self.response_description = "Done"
        elif self.response_model is not None:
            self.response_description = cleandoc(self.response_model.__doc__ or "")
        self._query = [(one.name, _model(one)) for one in self.dependant.query_params]
        self._headers = [(one.name, _model(one), header_names(_model(one))) for one in self.dependant.header_params]
        self.app = self._handle

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(Request(scope, receive, send))
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> ASGIApp:
        values: dict[str, Any] = {}
        given = query_pairs(request)
        for name, model in self._query:
            values[name] = of_pairs(model, given, "Query parameter")
        if given and not self._query:
            of_pairs(fields.Parameters, given, "Query parameter")
        for part in self.dependant.path_params:
            values[part.name], errors = part.validate(path_text(request, part.alias))
            assert not errors, "a part of the path refuses by itself what can't name anything"
        for name, model, names in self._headers:
            values[name] = of_pairs(model, header_pairs(request, names), "Header")
        if self.dependant.request_param_name is not None:
            values[self.dependant.request_param_name] = request
        for body in self.dependant.body_params:
            default = None if body.field_info.is_required() else body.field_info.default
            values[body.name] = await json_body(request, _model(body), default=default)
        answer: Any = await self.endpoint(**values)
        if answer is None:
            return Response(status_code=204)
        sent: ASGIApp = answer if callable(answer) else json_response(answer, self.status_code or 200)
        return sent


def _model(declared: Any) -> type[BaseModel]:
    model = declared.field_info.annotation
    assert isinstance(model, type)
    assert issubclass(model, BaseModel), "a query, headers or a body are declared as one model"
    return model
