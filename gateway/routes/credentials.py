"""``POST /v1/credentials``: temporary credentials for topics, for programs that access the store directly."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import AfterValidator, Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from gateway.access.caller import caller_of
from gateway.access.needs import Need, needs
from gateway.asgi.auditing import audit_event
from gateway.audit.event import AuditEvent
from gateway.gateway import engine_of, gateway_of, require
from gateway.http import fields
from gateway.http.json_response import encode_json
from gateway.openapi.problems import BODY_ERRORS, problems
from gateway.routes.typed_route import TypedRoute
from gateway.vending.vending import unavailable
from log_format import layout
from log_format.access.acls import Operation
from log_format.errors import ErrorCode

router = APIRouter(route_class=TypedRoute, tags=["credentials"])

TOPICS_MAX = 20
DURATION_S_MIN, DURATION_S_MAX = 900, 3_600


def _check_unique(topics: list[str]) -> list[str]:
    return fields.check_unique(topics, topics, "is given twice")


class Wanted(fields.Body, example={"topics": ["flights"], "access": "read", "duration_s": 900}):
    """`read`: logs and segments of the topics. `append`: PUT of `segments/vended-…`, never of a commit."""

    topics: Annotated[
        list[fields.TopicName],
        fields.ErrorMessage(f"must be a list of 1 to {TOPICS_MAX} topics"),
        Field(min_length=1, max_length=TOPICS_MAX),
        AfterValidator(_check_unique),
    ]
    access: Annotated[str, fields.OneOf("read", "append")]
    duration_s: Annotated[int, fields.Between(DURATION_S_MIN, DURATION_S_MAX)] = DURATION_S_MIN


class TopicTable(TypedDict):
    """Location of a topic's table."""

    topic: fields.TopicName
    table_uri: str


class Credentials(TypedDict):
    """Credentials for AWS's libraries. `endpoint_url` null: AWS's own."""

    access_key_id: str
    secret_access_key: str
    session_token: str
    expires_at: fields.Timestamp
    endpoint_url: str | None
    region: str
    topics: list[TopicTable]


@router.post(
    "/v1/credentials",
    response_model=Credentials,
    responses=problems(ErrorCode.UNKNOWN_TOPIC, ErrorCode.VENDING_UNAVAILABLE, *BODY_ERRORS),
)
@needs(Need("Read", "topic"), Need("Write", "topic"))
async def vend_credentials(request: Request, wanted: Wanted) -> Response:
    """Give temporary credentials for topics. They need Read (`read`) or Write (`append`) on each topic."""
    gateway = gateway_of(request)
    operation: Operation = "Read" if wanted.access == "read" else "Write"
    require(request, operation, "topic", *wanted.topics)
    gateway.vending.check()
    for topic in wanted.topics:
        state = await engine_of(request).administration.describe(topic)
        if state.undrained_count:
            raise unavailable(
                f"{state.undrained_count} records of topic {topic!r} are in a journal, which is shared with other topics. With"
                " commit.mode=own a topic has a prefix of its own."
            )
    principal = caller_of(request).principal
    access: Any = wanted.access
    recording, events = gateway.recording, _events(request, operation, wanted.topics)
    if recording is not None and recording.is_required:
        await asyncio.gather(*map(recording.record_durably, events))
    given = await gateway.vending.vend(wanted.topics, access, duration_s=wanted.duration_s, principal=principal)
    if recording is not None and not recording.is_required:
        for event in events:
            recording.note(event)
    answer: Credentials = {
        "access_key_id": given.access_key_id,
        "secret_access_key": given.secret_access_key,
        "session_token": given.session_token,
        "expires_at": given.expires_at_ms,
        "endpoint_url": given.endpoint_url,
        "region": given.region,
        "topics": [{"topic": topic, "table_uri": _table_uri(gateway.store_uri, topic)} for topic in wanted.topics],
    }
    return Response(encode_json(answer), 200, {"cache-control": "no-store"}, media_type="application/json")


def _events(request: Request, operation: Operation, topics: list[str]) -> list[AuditEvent]:
    now_ms = gateway_of(request).clock.now_ms()
    return [audit_event(request.scope, "vending", (operation, "topic", topic), now_ms) for topic in topics]


def _table_uri(store_uri: str, topic: str) -> str:
    return f"{store_uri}/{layout.topic_root(topic).rstrip('/')}"
