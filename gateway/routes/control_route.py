"""A FastAPI route whose endpoint declares its input and answer by types. Input is read strictly.

FastAPI takes the endpoint's signature apart and describes it. The docstrings of the endpoint and of its answer's type are the
words of the OpenAPI document. FastAPI's request handler is not used: it accepts a repeated member, and parses a body of any size
on the event loop. In its place, cheapest first:

1. The query: an undeclared or repeated parameter is refused.
2. The path's parts, percent-decoded.
3. The body, by ``json_body``. It may be empty where the endpoint has a default.

An endpoint returns a value to send as JSON with the route's status, None for no body, or an ASGI application.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import cleandoc
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from gateway.http.direct_route import DirectRoute, direct
from gateway.http.json_request import checked
from gateway.http.json_response import json_response
from gateway.http.parameters import GIVEN_TWICE, NO_PARAMETERS, path_text, query_pairs, query_refused
from gateway.http.validation import query_faults
from gateway.openapi.problems import problems
from gateway.routes.json_body import json_body


class ControlRoute(DirectRoute):
    """``async def endpoint(request: Request, group: GroupPath, query: Annotated[Model, Query()], body: Model) -> Answer``."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options | {"responses": options["responses"] or problems()})
        self.summary, _, self.description = cleandoc(endpoint.__doc__ or "").partition("\n\n")
        if self.status_code == 204:
            self.response_description = "Done"
        elif self.response_model is not None:
            self.response_description = cleandoc(self.response_model.__doc__ or "")
        self.app = direct(self._answer)

    async def _answer(self, request: Request) -> ASGIApp:
        values: dict[str, Any] = {}
        self._read_query(request, values)
        for part in self.dependant.path_params:
            values[part.name], errors = part.validate(path_text(request, part.alias))
            assert not errors, "a part of the path refuses by itself what can't name anything"
        if self.dependant.request_param_name is not None:
            values[self.dependant.request_param_name] = request
        for body in self.dependant.body_params:
            default = None if body.field_info.is_required() else body.field_info.default
            values[body.name] = await json_body(request, partial(checked, _model(body)), default=default)
        answer: Any = await self.endpoint(**values)
        if answer is None:
            return Response(status_code=204)
        sent: ASGIApp = answer if callable(answer) else json_response(answer, self.status_code or 200)
        return sent

    def _read_query(self, request: Request, values: dict[str, Any]) -> None:
        if not self.dependant.query_params:
            NO_PARAMETERS.parse(request)
            return
        (parameter,) = self.dependant.query_params
        given: dict[str, str] = {}
        errors: list[tuple[str, str]] = []
        for name, value in query_pairs(request):
            if name in given:
                errors.append((name, GIVEN_TWICE))
            given.setdefault(name, value)
        try:
            values[parameter.name] = _model(parameter).model_validate(given)
        except ValidationError as error:
            errors += query_faults(error)
        if errors:
            in_order = list(given)
            raise query_refused(sorted(errors, key=lambda fault: in_order.index(fault[0])))


def _model(declared: Any) -> type[BaseModel]:
    model = declared.field_info.annotation
    assert isinstance(model, type)
    assert issubclass(model, BaseModel), "a query or a body is declared as one model"
    return model
