"""What the catalog says of itself, and the tokens by which its clients authenticate.

A client gets no token of another kind: the OAuth client secret is a token of Tidelog (or a JWT of the issuer), and so is the
access token that it gets for it. So a revoked token ends here, too, within 5 s.

Source: Iceberg's "REST Catalog API", ``/v1/config``, ``/v1/oauth/tokens``; RFC 6749, section 4.4; RFC 8693.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl

from fastapi import APIRouter
from starlette.requests import Request

from gateway.access.authentication import Unauthenticated
from gateway.access.needs import needs, open_to_all
from gateway.gateway import gateway_of
from gateway.iceberg.body import body_of
from gateway.iceberg.route import IcebergRoute
from gateway.iceberg_problem import PREFIX, TOKENS
from gateway.problem import refused

router = APIRouter(route_class=IcebergRoute, include_in_schema=False)

_FORM_BYTES_MAX: Final = 32 * 1024
_FORM_FIELDS_MAX: Final = 30
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a type
_TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - the name of a grant
_WITHOUT_AUTH: Final = "none"
_LIFETIME_S: Final = 3_600
"""Lifetime that is told where the credential has no end, or no credential is needed."""
ENDPOINTS: Final = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign",
)
"""What a client may ask for, as clients compare it."""


@router.get(PREFIX + "/v1/config")
@needs()
async def configuration(request: Request) -> Any:
    """Return the catalog's configuration: it has none but what can be asked for."""
    del request
    return {"defaults": {}, "overrides": {}, "endpoints": list(ENDPOINTS)}


@router.post(TOKENS)
@open_to_all
async def exchange_token(request: Request) -> Any:
    """Return the token that the client shows as its secret, if it is valid."""
    gateway = gateway_of(request)
    form = _form(await body_of(request, _FORM_BYTES_MAX))
    grant = form.get("grant_type", "")
    if grant not in ("client_credentials", _TOKEN_EXCHANGE):
        raise refused(f"The grant_type {grant[:100]!r} is not known: client_credentials is.")
    secret = form.get("client_secret") if grant == "client_credentials" else form.get("subject_token")
    if gateway.authentication is None:
        return _token(secret or _WITHOUT_AUTH, _LIFETIME_S)
    if not secret or not secret.isascii():
        raise Unauthenticated
    caller = await gateway.authentication.authenticate(None, [(b"authorization", b"Bearer " + secret.encode())])
    ends_ms = caller.expires_at_ms
    left_s = _LIFETIME_S if ends_ms is None else max(0, (ends_ms - gateway.clock.now_ms()) // 1_000)
    return _token(secret, left_s)


def _form(data: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(data.decode(), errors="strict", max_num_fields=_FORM_FIELDS_MAX))
    except ValueError:  # also of what is not UTF-8
        raise refused("The body is no form.") from None


def _token(token: str, left_s: int) -> dict[str, Any]:
    return {"access_token": token, "token_type": "bearer", "expires_in": left_s, "issued_token_type": _ACCESS_TOKEN}
