"""Topics: made, listed, described, altered, deleted, and their oldest records deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from gateway.gateway import engine_of, gateway_of
from gateway.http.direct_route import DirectRoute
from gateway.http.json_request import Members
from gateway.http.json_response import json_response
from gateway.http.parameters import NO_PARAMETERS, QueryParameters, integer, path_topic, text
from gateway.openapi.document import answer, operation
from gateway.openapi.document import request_body as body_of
from gateway.openapi.schemas import OFFSET, PARTITION, TOPIC_NAME, described, list_of, object_of, ref
from gateway.routes.held_response import held_json, room_for_answer
from gateway.routes.json_members import json_members, json_parsed
from log_format import layout, limits
from log_format.errors import ErrorCode
from log_format.topic.config import SETTINGS, ChoiceSetting, IntegerSetting
from log_format.topic.state import TopicState

router = APIRouter(route_class=DirectRoute)

LIST_LIMIT: Final = 1000
"""The contract's default of ``limit``."""
LIST_LIMIT_MAX: Final = 10_000
_TOPIC_TEXT_BYTES: Final = 2_048
_PARTITION_TEXT_BYTES: Final = 160
"""The longest text of a partition, and what making it takes."""


def _setting_schema(setting: IntegerSetting | ChoiceSetting) -> dict[str, Any]:
    default = {"default": setting.default}
    if isinstance(setting, ChoiceSetting):
        return {"type": ["string", "null"], "examples": list(setting.choices), **default}
    number = {"type": "integer", "minimum": setting.minimum, "maximum": setting.maximum}
    return {"anyOf": [number, {"type": "string", "pattern": r"^\s*[+-]?[0-9]{1,19}\s*$"}, {"type": "null"}], **default}


_CONFIG: Final = described(
    object_of({name: _setting_schema(setting) for name, setting in SETTINGS.items()}, required=(), closed=True),
    "Settings by Kafka's names; numbers may be text, null gives the default",
)
_PARTITION_COUNT: Final = {"type": "integer", "minimum": 1, "maximum": limits.PARTITION_COUNT_MAX}
_NEW_TOPIC: Final = object_of(
    {"name": TOPIC_NAME, "partition_count": {**_PARTITION_COUNT, "default": 1}, "config": _CONFIG},
    required=("name",),
    closed=True,
)
_TOPIC_CHANGE: Final = object_of({"partition_count": _PARTITION_COUNT, "config": _CONFIG}, required=(), closed=True)
_TOPIC_PAGE: Final = object_of({"topics": list_of(ref("Topic")), "next": {"type": "string"}}, required=("topics",))
_BEFORE: Final = object_of(
    {"before": list_of(object_of({"partition": PARTITION, "offset": {**OFFSET, "minimum": -1}}, closed=True))},
    closed=True,
)
_LOG_STARTS: Final = object_of({"partitions": list_of(object_of({"partition": PARTITION, "log_start_offset": OFFSET}))})
_EXAMPLE: Final = {
    "name": "flights",
    "partition_count": 1,
    "partitions": [{"partition": 0, "log_start_offset": 0, "high_watermark": 0, "size_bytes": 0}],
    "config": {"retention.ms": 604800000},
    "table_uri": "s3://bucket/prefix/topics/flights",
    "table_version": 0,
    "created_at": 1763683200000,
}
_LIST: Final = QueryParameters(
    integer("limit", "At most so many", minimum=1, maximum=LIST_LIMIT_MAX, default=LIST_LIMIT),
    text("after", "Go on behind a page: its `next`", length_max=1024),
    text("prefix", "Only names that start so", length_max=limits.TOPIC_NAME_CHARACTERS_MAX),
)


@router.post(
    "/v1/topics",
    **operation(
        summary="Make a topic",
        tag="topics",
        body=body_of(_NEW_TOPIC, example={"name": "flights", "partition_count": 8, "config": {"retention.ms": -1}}),
        answers={
            201: answer("It was made", ref("Topic"), example=_EXAMPLE),
            200: answer("One with the same partition count and settings exists", ref("Topic")),
        },
        errors=(
            ErrorCode.INVALID_TOPIC_NAME,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.REQUEST_TOO_LARGE,
            ErrorCode.UNSUPPORTED_MEDIA_TYPE,
            ErrorCode.OUTCOME_UNKNOWN,
        ),
    ),
)
async def create_topic(request: Request) -> ASGIApp:
    """201 when it was made, 200 when the same exists."""
    NO_PARAMETERS.parse(request)
    members = await json_members(request)
    name = members.text("name")
    partition_count = members.integer("partition_count", minimum=1, maximum=limits.PARTITION_COUNT_MAX, default=1)
    given = members.object("config")
    members.finish()
    administration = engine_of(request).administration
    config = administration.parse_config(given)
    with await room_for_answer(request, _described_bytes(partition_count)) as room:
        state, made = await administration.create(name, partition_count, config)
        return await room.json(lambda: _described(request, state), 201 if made else 200)


@router.get(
    "/v1/topics",
    **operation(
        summary="List topics, by name",
        tag="topics",
        query=_LIST,
        answers={200: answer("A page of them", _TOPIC_PAGE, example={"topics": [_EXAMPLE]})},
    ),
)
async def list_topics(request: Request) -> ASGIApp:
    """A page; ``next`` is there when there is more."""
    query = _LIST.parse(request)
    page = await engine_of(request).administration.page(query["prefix"] or "", query["after"] or "", query["limit"])

    def made() -> dict[str, Any]:
        members: dict[str, Any] = {"topics": [_described(request, state) for state in page.topics]}
        if page.next_after is not None:
            members["next"] = page.next_after
        return members

    return await held_json(
        request, made, size_bytes=sum(_described_bytes(state.partition_count) for state in page.topics)
    )


@router.get(
    "/v1/topics/{topic}",
    **operation(
        summary="Describe a topic",
        tag="topics",
        path=("topic",),
        answers={200: answer("The topic", ref("Topic"), example=_EXAMPLE)},
        errors=(ErrorCode.UNKNOWN_TOPIC,),
    ),
)
async def describe_topic(request: Request) -> ASGIApp:
    """Partitions, settings, where the table is."""
    NO_PARAMETERS.parse(request)
    state = await engine_of(request).administration.describe(path_topic(request))
    size_bytes = _described_bytes(state.partition_count)
    return await held_json(request, lambda: _described(request, state), size_bytes=size_bytes)


@router.patch(
    "/v1/topics/{topic}",
    **operation(
        summary="Add partitions, change settings",
        tag="topics",
        path=("topic",),
        body=body_of(_TOPIC_CHANGE, example={"partition_count": 16, "config": {"flush.ms": None}}),
        answers={200: answer("The topic as it is now", ref("Topic"), example=_EXAMPLE)},
        errors=(
            ErrorCode.UNKNOWN_TOPIC,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.REQUEST_TOO_LARGE,
            ErrorCode.UNSUPPORTED_MEDIA_TYPE,
            ErrorCode.OUTCOME_UNKNOWN,
        ),
    ),
)
async def alter_topic(request: Request) -> ASGIApp:
    """All of it or nothing."""
    NO_PARAMETERS.parse(request)
    topic = path_topic(request)
    members = await json_members(request)
    partition_count = None
    if members.has("partition_count"):
        partition_count = members.integer("partition_count", minimum=1, maximum=limits.PARTITION_COUNT_MAX)
    config: Mapping[str, Any] = members.object("config")
    members.finish()
    # How many partitions it will have is known behind the change only.
    with await room_for_answer(request, _described_bytes(limits.PARTITION_COUNT_MAX)) as room:
        state = await engine_of(request).administration.alter(topic, partition_count, config)
        return await room.json(lambda: _described(request, state))


@router.delete(
    "/v1/topics/{topic}",
    **operation(
        summary="Delete a topic and its records",
        tag="topics",
        path=("topic",),
        answers={204: answer("It is gone")},
        errors=(ErrorCode.UNKNOWN_TOPIC, ErrorCode.OUTCOME_UNKNOWN),
    ),
)
async def delete_topic(request: Request) -> Response:
    """A topic made anew under the name shares nothing with it."""
    NO_PARAMETERS.parse(request)
    await engine_of(request).administration.delete(path_topic(request))
    return Response(status_code=204)


@router.post(
    "/v1/topics/{topic}:delete-records",
    **operation(
        summary="Delete the oldest records of partitions",
        tag="topics",
        path=("topic",),
        body=body_of(_BEFORE, example={"before": [{"partition": 0, "offset": 100}]}),
        answers={
            200: answer(
                "Where the logs start now",
                _LOG_STARTS,
                example={"partitions": [{"partition": 0, "log_start_offset": 100}]},
            )
        },
        errors=(
            ErrorCode.UNKNOWN_TOPIC,
            ErrorCode.UNKNOWN_PARTITION,
            ErrorCode.OFFSET_OUT_OF_RANGE,
            ErrorCode.REQUEST_TOO_LARGE,
            ErrorCode.UNSUPPORTED_MEDIA_TYPE,
            ErrorCode.OUTCOME_UNKNOWN,
        ),
    ),
)
async def delete_records(request: Request) -> Response:
    """Offsets below the one given can't be read any more; -1: all there are now."""
    NO_PARAMETERS.parse(request)
    topic = path_topic(request)
    before = await json_parsed(request, _before)
    starts = await engine_of(request).administration.delete_records(topic, before)
    listed = [{"partition": partition, "log_start_offset": start} for partition, start in starts.items()]
    return json_response({"partitions": listed})


def _before(members: Members) -> dict[int, int]:
    before: dict[int, int] = {}
    for entry in members.objects("before", count_max=limits.PARTITION_COUNT_MAX):
        partition = entry.integer("partition", minimum=0, maximum=(1 << 31) - 1)
        offset = entry.integer("offset", minimum=-1)
        entry.refuse_unknown()
        if partition in before:
            entry.fault("partition", "is named twice")
        before[partition] = offset
    members.finish()
    return before


def _described_bytes(partition_count: int) -> int:
    return _TOPIC_TEXT_BYTES + _PARTITION_TEXT_BYTES * partition_count


def _described(request: Request, state: TopicState) -> dict[str, Any]:
    """The topic as the contract has it."""
    return {
        "name": state.topic,
        "partition_count": state.partition_count,
        "partitions": msgspec.Raw(b"[" + b",".join(_partitions(state)) + b"]"),
        "config": state.config.effective(),
        "table_uri": f"{gateway_of(request).store_uri}/{layout.topic_root(state.topic).rstrip('/')}",
        "table_version": state.version,
        "created_at": state.created_at_ms,
    }


def _partitions(state: TopicState) -> Iterator[bytes]:
    """Each partition as JSON: of ten thousand, objects would take several times as much."""
    offsets = zip(state.log_starts.tolist(), state.next_offsets.tolist(), strict=True)
    for partition, (log_start, high_watermark) in enumerate(offsets):
        yield b'{"partition":%d,"log_start_offset":%d,"high_watermark":%d,"size_bytes":%d}' % (
            partition,
            log_start,
            high_watermark,
            state.manifest.size_bytes(partition),
        )
