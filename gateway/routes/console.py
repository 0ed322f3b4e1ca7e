"""The console for browsers: the page at ``/`` and its files. They need no credential; their requests to ``/v1`` do."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from gateway.access.needs import open_to_all
from gateway.codec.media_type import negotiate
from gateway.console.files import FILES, ConsoleLogin, file_headers, index_headers, index_page
from gateway.gateway import gateway_of
from gateway.http.dispatch import no_such_route
from gateway.http.home_page import HOME_HEADERS, HOME_PAGE, HTML
from gateway.http.parameters import accept_header
from gateway.network.certificate import CLIENT_CERTIFICATE
from gateway.problem import MEDIA_TYPE
from gateway.routes.typed_route import TypedRoute

router = APIRouter(route_class=TypedRoute, include_in_schema=False)


class IssuerAnswer(BaseModel):
    """Parameters with which an OpenID Connect issuer redirects a user back; the page reads them, and issuers may add their
    own."""

    model_config = ConfigDict(extra="allow", frozen=True)


@router.get("/", include_in_schema=False)
@open_to_all
async def home(request: Request, query: Annotated[IssuerAnswer, Query()]) -> Response:
    """Return the console to a browser that opens the gateway's address; for programs the route does not exist."""
    del query
    gateway = gateway_of(request)
    wanted = accept_header(request) or ""
    if HTML not in wanted or negotiate(wanted, (MEDIA_TYPE, HTML)) != HTML:
        if gateway.authentication is not None:
            # As for every unknown route: a program without a credential learns nothing.
            await gateway.authentication.authenticate(request.scope.get(CLIENT_CERTIFICATE), request.scope["headers"])
        raise no_such_route()
    settings = gateway.settings
    if settings.console == "off":
        return Response(HOME_PAGE, headers=HOME_HEADERS, media_type=HTML)
    login = None
    if settings.oidc_issuer is not None and settings.oidc_client_id is not None:
        login = ConsoleLogin(issuer=settings.oidc_issuer, client=settings.oidc_client_id, scope=settings.oidc_scope)
    page = index_page(settings.console, login, has_sql=gateway.sql is not None)
    return Response(page, headers=index_headers(login), media_type=HTML)


@router.get("/console/{release}/{file:path}", include_in_schema=False)
@open_to_all
async def console_file(request: Request, release: str, file: str) -> Response:
    """Return a script or style sheet of the console."""
    found = None if gateway_of(request).settings.console == "off" else FILES.get(file)
    if found is None:
        raise no_such_route()
    headers = file_headers(found, release)
    if found.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers)
