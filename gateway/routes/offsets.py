"""Where a partition's log starts and ends, and where a time is in it."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.gateway import engine_of
from gateway.http.direct_route import DirectRoute
from gateway.http.json_response import json_response
from gateway.http.parameters import QueryParameters, integer, path_partition, path_topic
from gateway.openapi.document import answer, operation
from gateway.openapi.schemas import OFFSET, object_of
from log_format.errors import ErrorCode
from log_format.records.schema import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN

router = APIRouter(route_class=DirectRoute)

_OFFSETS: Final = object_of(
    {
        "log_start_offset": OFFSET,
        "high_watermark": OFFSET,
        "offset": {"anyOf": [OFFSET, {"type": "null"}], "description": "With `timestamp`; null: none that late"},
    },
    required=("log_start_offset", "high_watermark"),
)
_QUERY: Final = QueryParameters(
    integer(
        "timestamp",
        "Adds `offset`: the first record, in offset order, with this time or later",
        minimum=TIMESTAMP_MS_MIN,
        maximum=TIMESTAMP_MS_MAX,
    )
)


@router.get(
    "/v1/topics/{topic}/partitions/{partition}/offsets",
    **operation(
        summary="Where a partition's log starts and ends",
        tag="fetch",
        path=("topic", "partition"),
        query=_QUERY,
        answers={200: answer("The offsets", _OFFSETS, example={"log_start_offset": 0, "high_watermark": 42})},
        errors=(
            ErrorCode.UNKNOWN_TOPIC,
            ErrorCode.UNKNOWN_PARTITION,
            ErrorCode.CORRUPT_SEGMENT,
            ErrorCode.UNSUPPORTED_TABLE,
        ),
    ),
)
async def partition_offsets(request: Request) -> Response:
    """Log start, high watermark, and the offset of a time."""
    engine = engine_of(request)
    arrival_ms = engine.clock.monotonic_ms()
    timestamp_ms: int | None = _QUERY.parse(request)["timestamp"]
    name, partition = path_topic(request), path_partition(request)
    topic = await engine.topics.fresh(name, arrival_ms)
    state = topic.existing_with(partition)
    members: dict[str, int | None] = {
        "log_start_offset": state.log_start(partition),
        "high_watermark": state.high_watermark(partition),
    }
    if timestamp_ms is not None:
        members["offset"] = await engine.reading.offset_of_timestamp(topic, state, partition, timestamp_ms)
    return json_response(members)
