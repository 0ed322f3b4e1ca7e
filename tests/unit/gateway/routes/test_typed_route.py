"""Routes: what an endpoint declares is what it gets, and what the document says."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from typing_extensions import TypedDict

from gateway.access.needs import needs
from gateway.http import fields
from gateway.http.dispatch import Dispatcher
from gateway.openapi.document import document
from gateway.openapi.problems import problems
from gateway.routes.typed_route import TypedRoute
from log_format.errors import ErrorCode, RequestRefused
from tests.support.awaited import Sent, run, unread

router = APIRouter(route_class=TypedRoute, tags=["topics"])


class Which(fields.Parameters):
    """Which of them."""

    limit: Annotated[int, fields.Between(1, 10), fields.Digits, Field(description="At most so many")] = 5
    prefix: Annotated[str, Field(max_length=3)] = ""
    since: Annotated[fields.Timestamp | None, fields.NotNull(), fields.Digits] = None


class Seen(TypedDict):
    """What the endpoint got."""

    topic: str
    partition: int
    query: dict[str, Any]


@router.get("/v1/{topic}/{partition}", status_code=202, responses=problems(ErrorCode.UNKNOWN_TOPIC))
@needs()
async def look(topic: fields.TopicPath, partition: fields.PartitionPath, query: Annotated[Which, Query()]) -> Seen:
    """Look at it.

    More of it.
    """
    return {"topic": topic, "partition": partition, "query": query.model_dump()}


@router.delete("/v1/{group}", status_code=204)
@needs()
async def forget(request: Request, group: fields.GroupPath) -> None:
    """Forget a group."""
    assert request.path_params["group"] == group


def answered(method: str, path: str, query: bytes = b"") -> tuple[int, Any]:
    """The status, and the JSON of the answer."""
    sent = Sent()
    scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": []}
    routes = [route for route in router.routes if isinstance(route, TypedRoute)]
    run(Dispatcher(routes)(scope, unread, sent.add))
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(body) if body else None


def errors(method: str, path: str, query: bytes = b"") -> list[tuple[str, str]]:
    """What is refused, and why."""
    with pytest.raises(RequestRefused) as refused:
        answered(method, path, query)
    assert (refused.value.status, str(refused.value.code)) == (400, "INVALID_REQUEST")
    return [(error["where"], error["what"]) for error in refused.value.fields["errors"]]


def test_an_endpoint_gets_what_it_declares() -> None:
    """Parts of the path and of the query, each of its type, defaults included; the answer has the route's status."""
    nothing = {"limit": 5, "prefix": "", "since": None}
    assert answered("GET", "/v1/a/7") == (202, {"topic": "a", "partition": 7, "query": nothing})
    given = {"limit": 10, "prefix": "x/y", "since": 12}
    assert answered("GET", "/v1/a/7", b"limit=10&prefix=x%2Fy&since=12")[1]["query"] == given
    assert answered("DELETE", "/v1/a") == (204, None)


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        (b"limit=0", [("limit", "must be an integer from 1 to 10")]),
        (b"limit=1.0", [("limit", "must be an integer from 1 to 10")]),
        (b"limit=%201", [("limit", "must be an integer from 1 to 10")]),
        (b"limit=1_0", [("limit", "must be an integer from 1 to 10")]),
        ("limit=٣".encode(), [("limit", "must be an integer from 1 to 10")]),
        (b"since=", [("since", "must be an integer from 0 to 253402300799999")]),
        (b"prefix=long", [("prefix", "must be at most 3 characters")]),
        (b"limit=1&limit=1", [("limit", "is given more than once")]),
        (b"Limit=1", [("Limit", "is not a parameter of this route")]),
        (b"x=1&limit=x", [("x", "is not a parameter of this route"), ("limit", "must be an integer from 1 to 10")]),
    ],
)
def test_queries_are_read_strictly(query: bytes, wrong: list[tuple[str, str]]) -> None:
    """What is wrong is named, in the order of the query."""
    assert errors("GET", "/v1/a/7", query) == wrong


def test_an_endpoint_without_parameters_takes_none() -> None:
    """A typing error never passes silently."""
    assert errors("DELETE", "/v1/a", b"x=1") == [("x", "is not a parameter of this route")]


@pytest.mark.parametrize(("path", "code"), [("/v1/%/7", "UNKNOWN_TOPIC"), ("/v1/a/x", "UNKNOWN_PARTITION")])
def test_a_path_that_can_name_nothing(path: str, code: str) -> None:
    """404, after the query was found right."""
    with pytest.raises(RequestRefused) as refused:
        answered("GET", path)
    assert (refused.value.status, str(refused.value.code)) == (404, code)
    assert errors("GET", path, b"x=1")


def test_the_document_says_what_is_declared() -> None:
    """Summary, description, ranges to the last digit, answers, errors, and no status that the contract does not have."""
    methods = document(router.routes)["paths"]
    said = methods["/v1/{topic}/{partition}"]["get"]
    assert (said["summary"], said["description"], said["operationId"]) == ("Look at it.", "More of it.", "look")
    assert [one["name"] for one in said["parameters"]] == ["topic", "partition", "limit", "prefix", "since"]
    assert {"minimum": 1, "maximum": 10, "default": 5}.items() <= said["parameters"][2]["schema"].items()
    assert said["responses"]["202"]["description"] == "What the endpoint got."
    assert sorted(said["responses"]) == ["202", "400", "401", "404", "429", "500", "503"]
    assert "content" not in methods["/v1/{group}"]["delete"]["responses"]["204"]
