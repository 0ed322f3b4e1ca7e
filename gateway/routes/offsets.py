"""The first and the end offset of a partition, and the first offset of a time."""

from __future__ import annotations

from typing import Annotated, NotRequired

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.gateway import engine_of
from gateway.http import fields
from gateway.openapi.problems import problems
from gateway.routes.typed_route import TypedRoute
from log_format.errors import ErrorCode

router = APIRouter(route_class=TypedRoute, tags=["fetch"])


class OffsetsQuery(fields.Parameters):
    """The time to look up, if any."""

    timestamp: Annotated[
        fields.Timestamp | None,
        fields.NotNull(),
        fields.Digits,
        Field(
            description="Adds `offset`: the first record, in offset order, with this timestamp (in milliseconds) or a later one"
        ),
    ] = None


class PartitionOffsets(TypedDict):
    """The ends of a partition's log. `offset` is present with `timestamp`; null: no record has that time or a later one."""

    log_start_offset: fields.Offset
    high_watermark: fields.Offset
    offset: NotRequired[fields.Offset | None]


@router.get(
    "/v1/topics/{topic}/partitions/{partition}/offsets",
    responses=problems(
        ErrorCode.UNKNOWN_TOPIC, ErrorCode.UNKNOWN_PARTITION, ErrorCode.CORRUPT_SEGMENT, ErrorCode.UNSUPPORTED_TABLE
    ),
)
@needs(Need("Describe", "topic", path="topic"))
async def partition_offsets(
    request: Request, topic: fields.TopicPath, partition: fields.PartitionPath, query: Annotated[OffsetsQuery, Query()]
) -> PartitionOffsets:
    """Return a partition's log start and high watermark, and the offset of a timestamp."""
    engine = engine_of(request)
    opened = await engine.topics.fresh(topic, engine.clock.monotonic_ms())
    state = opened.require_partition(partition)
    found: PartitionOffsets = {
        "log_start_offset": state.log_start(partition),
        "high_watermark": state.high_watermark(partition),
    }
    if query.timestamp is not None:
        found["offset"] = await engine.reader.offset_of_timestamp(opened, state, partition, query.timestamp)
    return found
