"""Plans for reading history: which segments a client may read itself."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field, field_validator
from starlette.requests import Request
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.engine.fetch_answer import FetchFrom, StartWord
from gateway.engine.history_plans import Plan
from gateway.gateway import engine_of
from gateway.http import fields
from gateway.openapi.problems import problems
from gateway.quotas.limits import FETCH_BYTES
from gateway.quotas.spending import spends
from gateway.routes import quota_charges
from gateway.routes.signatures import note_signatures
from gateway.routes.typed_route import TypedRoute
from log_format.errors import ErrorCode

router = APIRouter(route_class=TypedRoute, tags=["fetch"])

PLAN_BYTES_DEFAULT = 64 * 1024 * 1024
PLAN_BYTES_MAX = 1024 * 1024 * 1024


class PlanQuery(fields.Parameters):
    """Position at which to begin, and how many bytes to plan."""

    offset: Annotated[
        fields.Offset | StartWord,
        fields.ErrorMessage(f"must be an integer from 0 to {fields.INT64_MAX}, or one of earliest, latest"),
        Field(description="First offset"),
    ] = "earliest"
    max_bytes: Annotated[
        int,
        fields.Between(1, PLAN_BYTES_MAX),
        Field(description="Maximum stored bytes; at least one segment is returned"),
    ] = PLAN_BYTES_DEFAULT

    _digits = field_validator("*", mode="before")(fields.parse_number)


class Footer(TypedDict):
    """Location of a segment's footer: from `position` to the segment's end. `crc32` (zlib) covers those bytes."""

    position: fields.Count
    length: fields.Count
    crc32: fields.Count


class PlannedSegment(TypedDict):
    """A Parquet object and the offsets to read from it: from `start_offset` up to `end_offset`, exclusive.

    Ignore rows of other partitions, and of offsets outside this range. The footer lists row groups by partition and offset, each
    with its range and CRC.
    """

    key: Annotated[str, Field(description="Below the store's root")]
    url: Annotated[str | None, Field(description="Where to GET it, ranges too; null: the store signs no URLs")]
    size_bytes: fields.Count
    stored_bytes: Annotated[int, Field(description="Of the partition's own row groups in it")]
    codec: Annotated[str, Field(description="`parquet`")]
    footer: Footer
    start_offset: fields.Offset
    end_offset: fields.Offset
    newest_timestamp: Annotated[fields.Timestamp, Field(description="Of the partition's records in it")]


class HistoryPlan(TypedDict):
    """Every record up to `next_offset` is in one of `segments`. `GET …/records` continues there.

    The plan is empty if the records are not yet in the topic's table, or do not exist.
    """

    topic: str
    topic_id: str
    partition: fields.Partition
    log_start_offset: fields.Offset
    high_watermark: fields.Offset
    next_offset: fields.Offset
    valid_until_ms: fields.Timestamp
    segments: list[PlannedSegment]


@router.get(
    "/v1/topics/{topic}/partitions/{partition}/segments",
    responses=problems(
        ErrorCode.UNKNOWN_TOPIC, ErrorCode.UNKNOWN_PARTITION, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNSUPPORTED_TABLE
    ),
)
@needs(Need("Read", "topic", path="topic"))
@spends(FETCH_BYTES)
async def plan_history(
    request: Request, topic: fields.TopicPath, partition: fields.PartitionPath, query: Annotated[PlanQuery, Query()]
) -> HistoryPlan:
    """Return the segments that hold the records from an offset on, so that the client can read them from the store itself."""
    engine = engine_of(request)
    wanted = FetchFrom(topic=topic, partition=partition, offset=query.offset, timestamp_ms=None)
    start = await engine.start_resolver.resolve_one(wanted, engine.clock.monotonic_ms())
    plan = await engine.history_plans.plan(start, query.max_bytes)
    await note_signatures(request, topic, sum(planned.url is not None for planned in plan.runs))
    quota_charges.charge_fetched_bytes(request, sum(planned.stored_bytes for planned in plan.runs))
    return _describe(topic, partition, plan)


def _describe(topic: str, partition: int, plan: Plan) -> HistoryPlan:
    return {
        "topic": topic,
        "topic_id": plan.topic_id,
        "partition": partition,
        "log_start_offset": plan.log_start_offset,
        "high_watermark": plan.high_watermark,
        "next_offset": plan.next_offset,
        "valid_until_ms": plan.valid_until_ms,
        "segments": [
            {
                "key": planned.key,
                "url": planned.url,
                "size_bytes": planned.run.segment.size_bytes,
                "stored_bytes": planned.stored_bytes,
                "codec": "parquet",
                "footer": {
                    "position": planned.run.segment.footer_start,
                    "length": planned.run.segment.size_bytes - planned.run.segment.footer_start,
                    "crc32": planned.run.segment.footer_crc32,
                },
                "start_offset": planned.start_offset,
                "end_offset": planned.end_offset,
                "newest_timestamp": planned.newest_ms,
            }
            for planned in plan.runs
        ],
    }
