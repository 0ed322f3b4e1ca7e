"""Shares, schemas and tables by name, and lists of them.

1. Everyone has the share ``tidelog``. ``User:share-<name>``, the principal of a share with a name, also has that share. Both have
   the topics that the caller may describe: a share gives no right of its own.
2. A share has one schema, ``topics``. A topic is a table of its name.
3. The protocol allows no dot in a table's name, since clients name tables ``share.schema.table``. So a dot is written ``%2E``
   there, and so is read in every name that a client sends.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field, field_validator
from starlette.requests import Request

from gateway.access.caller import caller_of
from gateway.access.needs import Need, needs
from gateway.gateway import allowing, engine_of, require
from gateway.http import fields
from gateway.http.parameters import parse_topic, path_text
from gateway.routes.typed_route import TypedRoute
from gateway.sharing_problem import PREFIX
from log_format.errors import ErrorCode, RequestRefused

router = APIRouter(route_class=TypedRoute, include_in_schema=False)

SHARE: Final = "tidelog"
SCHEMA: Final = "topics"
PRINCIPAL_PREFIX: Final = "User:share-"
"""Beginning of the principal of a share with a name."""
SHARE_PATH: Final = PREFIX + "/shares/{share}"
SCHEMA_PATH: Final = SHARE_PATH + "/schemas/{schema}"
TABLE_PATH: Final = SCHEMA_PATH + "/tables/{table}"
_LISTED_MAX: Final = 500
_DOT: Final = "%2E"


class Page(fields.Parameters):
    """A page of a list. Parameters that are not known are ignored, as in all of this protocol."""

    model_config = ConfigDict(extra="ignore")

    maxResults: Annotated[int, fields.Between(0, 2**31 - 1)] = _LISTED_MAX  # noqa: N815 - the protocol's name
    pageToken: Annotated[str, Field(max_length=1024)] = ""  # noqa: N815

    _digits = field_validator("maxResults", mode="before")(fields.parse_number)


PageQuery = Annotated[Page, Query()]


def table_name(topic: str) -> str:
    """Return the name of a topic's table."""
    return topic.replace(".", _DOT)


def check_share(request: Request) -> str:
    """Return the share that the path names. Raise ``RequestRefused`` (404) for one that the caller does not have."""
    name = path_text(request, "share")
    if name not in _shares(request):
        raise _unknown(f"There is no share {name[:300]!r} for {caller_of(request).principal}.")
    return name


def check_schema(request: Request) -> str:
    """Return the share, whose schema the path names. Raise ``RequestRefused`` (404)."""
    share, schema = check_share(request), path_text(request, "schema")
    if schema != SCHEMA:
        raise _unknown(f"Share {share!r} has no schema {schema[:300]!r}: its only one is {SCHEMA!r}.")
    return share


def topic_asked(request: Request) -> str:
    """Return the topic whose table the path names. Raise ``Unauthorized`` unless the caller may read it; ``RequestRefused``."""
    check_schema(request)
    topic = path_text(request, "table").replace(_DOT, ".").replace(_DOT.lower(), ".")
    require(request, "Read", "topic", topic)
    return parse_topic(topic)


@router.get(PREFIX + "/shares")
@needs()
async def list_shares(request: Request, page: PageQuery) -> dict[str, Any]:
    """List the caller's shares."""
    return _paged([{"name": name, "id": name} for name in _shares(request)], page)


@router.get(SHARE_PATH)
@needs()
async def get_share(request: Request, page: PageQuery) -> dict[str, Any]:
    """Return a share."""
    del page
    name = check_share(request)
    return {"share": {"name": name, "id": name}}


@router.get(SHARE_PATH + "/schemas")
@needs()
async def list_schemas(request: Request, page: PageQuery) -> dict[str, Any]:
    """List the schemas of a share."""
    return _paged([{"name": SCHEMA, "share": check_share(request)}], page)


@router.get(SCHEMA_PATH + "/tables")
@needs(Need("Describe", "topic"))
async def list_tables(request: Request, page: PageQuery) -> dict[str, Any]:
    """List the topics that the caller may describe."""
    return await _tables(request, check_schema(request), page)


@router.get(SHARE_PATH + "/all-tables")
@needs(Need("Describe", "topic"))
async def list_all_tables(request: Request, page: PageQuery) -> dict[str, Any]:
    """List the topics that the caller may describe."""
    return await _tables(request, check_share(request), page)


async def _tables(request: Request, share: str, page: Page) -> dict[str, Any]:
    shown = allowing(request, "Describe", "topic")
    limit = min(max(1, page.maxResults), _LISTED_MAX)
    found = await engine_of(request).administration.page("", page.pageToken, limit, shown)
    tables = [
        {"name": table_name(state.topic), "schema": SCHEMA, "share": share, "shareId": share, "id": state.topic_id}
        for state in found.topics
    ]
    return {"items": tables} | ({} if found.next_after is None else {"nextPageToken": found.next_after})


def _shares(request: Request) -> list[str]:
    principal = caller_of(request).principal
    own = [principal.removeprefix(PRINCIPAL_PREFIX)] if principal.startswith(PRINCIPAL_PREFIX) else []
    return [*(name for name in own if name != SHARE), SHARE]


def _paged(items: list[dict[str, str]], page: Page) -> dict[str, Any]:
    """Return the items behind the token, the name of the last one that was returned before."""
    names = [item["name"] for item in items]
    begin = names.index(page.pageToken) + 1 if page.pageToken in names else 0
    end = begin + max(1, page.maxResults)
    return {"items": items[begin:end]} | ({"nextPageToken": names[end - 1]} if end < len(items) else {})


def _unknown(detail: str) -> RequestRefused:
    return RequestRefused(detail, code=ErrorCode.NOT_FOUND)
