"""Pending delayed records: list, describe, cancel. The produce routes create them."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

import pyarrow as pa
from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.requests import Request
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.call import mark_committed
from gateway.codec.base64_text import encode_base64
from gateway.gateway import engine_of
from gateway.http import fields
from gateway.log_engine import LogEngine
from gateway.openapi.problems import problems
from gateway.routes.typed_route import TypedRoute
from log_format.errors import ErrorCode
from log_format.scheduled.lookup import WaitingRecords

router = APIRouter(route_class=TypedRoute, tags=["delayed records"])

ScheduledPath = Annotated[
    str,
    Path(description="The delayed record's id", examples=["0f1d2c3b-4a59-4687-9786-a5b4c3d2e1f0-0000000007"]),
]


class ScheduledQuery(fields.Parameters):
    """Page of the list."""

    after: Annotated[str | None, fields.NotNull(), Field(description="`next` of the previous page")] = None
    limit: fields.Limit = fields.LIST_LIMIT


class ScheduledEntry(TypedDict):
    """A pending delayed record. A key that is not UTF-8 is `key_base64`."""

    id: fields.Opaque
    deliver_at: fields.Offset
    key: NotRequired[str | None]
    key_base64: NotRequired[str]


class ScheduledEntries(TypedDict):
    """Delayed records, sorted by id."""

    scheduled: list[ScheduledEntry]
    next: NotRequired[str]


class DelayedHeader(TypedDict):
    """A header of a delayed record."""

    key: str
    value: NotRequired[str | None]
    value_base64: NotRequired[str]


class DelayedRecord(TypedDict):
    """A record that has no offset yet."""

    partition: fields.Partition
    timestamp: fields.Timestamp
    key: NotRequired[str | None]
    key_base64: NotRequired[str]
    value: NotRequired[str | None]
    value_base64: NotRequired[str]
    headers: list[DelayedHeader]


class DescribedScheduled(ScheduledEntry):
    """A pending delayed record, with the record itself."""

    record: DelayedRecord


_ERRORS = (ErrorCode.UNKNOWN_TOPIC, ErrorCode.CORRUPT_SEGMENT, ErrorCode.UNSUPPORTED_TABLE)


@router.get("/v1/topics/{topic}/scheduled", responses=problems(*_ERRORS))
@needs(Need("Read", "topic", path="topic"))
async def list_scheduled(
    request: Request, topic: fields.TopicPath, query: Annotated[ScheduledQuery, Query()]
) -> ScheduledEntries:
    """List pending delayed records."""
    engine = engine_of(request)
    topic_id = await _topic_id(engine, topic)
    found = await engine.delayed.filing.list_waiting(topic, topic_id, query.after or "", query.limit + 1)
    entries = [entry for one in found for entry in _entries(one)]
    answer: ScheduledEntries = {"scheduled": entries[: query.limit]}
    if len(entries) > query.limit:
        answer["next"] = entries[query.limit - 1]["id"]
    return answer


@router.get("/v1/topics/{topic}/scheduled/{scheduled}", responses=problems(*_ERRORS, ErrorCode.UNKNOWN_SCHEDULED))
@needs(Need("Read", "topic", path="topic"))
async def describe_scheduled(request: Request, topic: fields.TopicPath, scheduled: ScheduledPath) -> DescribedScheduled:
    """Describe a pending delayed record."""
    engine = engine_of(request)
    found = await engine.delayed.filing.find(topic, await _topic_id(engine, topic), scheduled)
    (entry,) = _entries(found)
    return {**entry, "record": _record(found.rows)}


@router.delete(
    "/v1/topics/{topic}/scheduled/{scheduled}",
    status_code=204,
    responses=problems(*_ERRORS, ErrorCode.UNKNOWN_SCHEDULED, ErrorCode.ALREADY_DELIVERED, ErrorCode.OUTCOME_UNKNOWN),
)
@needs(Need("Write", "topic", path="topic"))
async def cancel_scheduled(request: Request, topic: fields.TopicPath, scheduled: ScheduledPath) -> None:
    """Cancel a delayed record: it is never delivered."""
    engine = engine_of(request)
    await engine.delayed.filing.cancel(topic, await _topic_id(engine, topic), scheduled)
    mark_committed()


async def _topic_id(engine: LogEngine, name: str) -> str:
    topic = await engine.topics.fresh(name, engine.clock.monotonic_ms())
    topic_id = topic.require_state().topic_id
    assert topic_id is not None
    return topic_id


def _entries(found: WaitingRecords) -> list[ScheduledEntry]:
    times, keys = found.rows.column("deliver_at").to_pylist(), found.rows.column("key").to_pylist()
    return [
        {"id": scheduled_id, "deliver_at": due_ms, **_bytes("key", key)}  # type: ignore[typeddict-item]
        for scheduled_id, due_ms, key in zip(found.ids, times, keys, strict=True)
    ]


def _record(rows: pa.Table) -> DelayedRecord:
    row = {name: rows.column(name)[0].as_py() for name in ("partition", "key", "value", "headers")}
    headers: list[Any] = [{"key": each["key"], **_bytes("value", each["value"])} for each in row["headers"] or ()]
    return {
        "partition": row["partition"],
        "timestamp": rows.column("timestamp")[0].value // 1_000,
        **_bytes("key", row["key"]),  # type: ignore[typeddict-item]
        **_bytes("value", row["value"]),
        "headers": headers,
    }


def _bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        assert data is not None
        return {f"{name}_base64": encode_base64(data)}
