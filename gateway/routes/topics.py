"""Topics: create, list, describe, alter, delete, and delete their oldest records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Annotated, Final, Literal, NotRequired, cast

import msgspec
from fastapi import APIRouter, Query
from pydantic import AfterValidator, Field, field_validator
from starlette.requests import Request
from starlette.types import ASGIApp
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.engine.own_topic import check_change
from gateway.gateway import allowing, engine_of, gateway_of, require
from gateway.http import fields
from gateway.openapi.problems import CHANGE_ERRORS, problems
from gateway.quotas.limits import PARTITIONS
from gateway.quotas.spending import spends
from gateway.routes import quota_charges
from gateway.routes.pins import PIN_BYTES, PinnedVersion, describe_pins
from gateway.routes.reserved_response import reserve_answer, reserved_json
from gateway.routes.setting_fields import Config
from gateway.routes.topic_description import Column, Foreign, describe_columns, describe_foreign, described_bytes
from gateway.routes.topic_rights import require_named
from gateway.routes.typed_route import TypedRoute
from log_format import layout, limits
from log_format.errors import ErrorCode
from log_format.topic.state import TopicState

router = APIRouter(route_class=TypedRoute, tags=["topics"])

_TOPIC_TEXT_BYTES: Final = 2_048
LIST_AGE_MS_MAX: Final = 60_000
_PARTITION_TEXT_BYTES: Final = 160
"""Estimated size of a partition's longest JSON, and of making it."""


PartitionCount = Annotated[int, fields.Between(1, limits.PARTITION_COUNT_MAX)]


class NewTopic(fields.Body, example={"name": "flights", "partition_count": 8, "config": {"retention.ms": -1}}):
    """The topic to create."""

    name: fields.TopicName
    partition_count: PartitionCount = 1
    config: Config = Field(default_factory=dict)


class TopicChange(fields.Body, example={"partition_count": 16, "config": {"flush.ms": None}}):
    """Changes to a topic."""

    partition_count: Annotated[PartitionCount | None, fields.NotNull()] = None
    config: Config = Field(default_factory=dict)


class RecordsBefore(fields.Body):
    """A partition. `offset` -1 is the high watermark."""

    partition: fields.Partition
    offset: Annotated[int, fields.Between(-1)]


def _each_once(entries: list[RecordsBefore]) -> list[RecordsBefore]:
    return fields.check_unique(entries, [entry.partition for entry in entries], "is given twice")


class DeletedRecords(fields.Body, example={"before": [{"partition": 0, "offset": 100}]}):
    """The offsets below which records are deleted."""

    before: Annotated[list[RecordsBefore], Field(max_length=limits.PARTITION_COUNT_MAX), AfterValidator(_each_once)]


class TopicsQuery(fields.Parameters):
    """Filter and page of the list of topics."""

    limit: fields.Limit = fields.LIST_LIMIT
    after: Annotated[str, Field(max_length=1024, description="`next` of the previous page")] = ""
    prefix: Annotated[
        str, Field(max_length=limits.TOPIC_NAME_CHARACTERS_MAX, description="Only names that begin with it")
    ] = ""
    search: Annotated[
        str, Field(max_length=limits.TOPIC_NAME_CHARACTERS_MAX, description="Only names that contain it, in any case")
    ] = ""


class TopicListQuery(TopicsQuery):
    """Filter and page of the list of topics, and how old it may be."""

    max_age_ms: Annotated[
        int,
        fields.Between(0, LIST_AGE_MS_MAX),
        Field(description="Allowed staleness of the answer, in milliseconds; saves requests to the store"),
    ] = 0
    _digits = field_validator("max_age_ms", mode="before")(fields.parse_number)


class TopicQuery(fields.Parameters):
    """Additional parts of a topic's description."""

    include: Annotated[
        Literal["flush_savings"] | None,
        Field(description="`flush_savings`: also the savings for early flushes, which change with time"),
    ] = None


class DeletionQuery(fields.Parameters):
    """What a deletion may end."""

    delete_pins: Annotated[
        Literal["true", "false"], Field(description="`true`: also a topic with pins, which end with it")
    ] = "false"


class TopicPartition(TypedDict):
    """A partition. `size_bytes` counts stored, compressed bytes."""

    partition: fields.Partition
    log_start_offset: fields.Offset
    high_watermark: fields.Offset
    size_bytes: fields.Count


class CommitPlace(TypedDict):
    """Whether the topic has its own commits or uses a journal, since when and why; how far its table is behind.

    With `flush_savings`, if this gateway has written to the topic: the saved time from which flushes may begin before `flush.ms`
    is over, and whether it is spent, so that flushes wait for the whole `flush.ms`.
    """

    mode: Literal["own", "shared"]
    journal: int | None
    since: fields.Timestamp
    reason: str
    undrained_records: fields.Count
    drained_until_ms: fields.Timestamp
    flush_savings_ms: NotRequired[fields.Count]
    savings_spent: NotRequired[bool]


class Archive(TypedDict):
    """The segments that are in a topic's table, but not in its log any more: how many, and their stored bytes."""

    segments: fields.Count
    size_bytes: fields.Count


class Topic(TypedDict):
    """A topic. `config` has all settings, defaults included. `archive` and `pins` are present if there are any. `columns`: of its
    description, if it has typed ones."""

    name: fields.TopicName
    partition_count: PartitionCount
    partitions: list[TopicPartition]
    config: dict[str, int | str]
    table_uri: str
    table_version: fields.Count
    topic_id: str
    created_at: fields.Timestamp
    commit: CommitPlace
    foreign_commit: Foreign | None
    archive: NotRequired[Archive]
    columns: NotRequired[list[Column]]
    pins: NotRequired[list[PinnedVersion]]


class Damaged(TypedDict):
    """A topic whose log can't be read, and why. It can be repaired, and deleted."""

    name: fields.TopicName
    error_code: str
    detail: str


class TopicPage(TypedDict):
    """One page of topics. `damaged` is present if there are any, `next` if more follow; send it as `after`."""

    topics: list[Topic]
    damaged: NotRequired[list[Damaged]]
    next: NotRequired[str]


class LogStart(TypedDict):
    """Log start of a partition."""

    partition: fields.Partition
    log_start_offset: fields.Offset


class LogStarts(TypedDict):
    """The log starts of the partitions in the request."""

    partitions: list[LogStart]


@router.post(
    "/v1/topics",
    status_code=201,
    response_model=Topic,
    responses=problems(
        ErrorCode.INVALID_TOPIC_NAME, ErrorCode.INVALID_CONFIG, ErrorCode.TOPIC_ALREADY_EXISTS, *CHANGE_ERRORS
    )
    | {200: {"description": "The same topic exists.", "model": Topic}},
)
@needs(Need("Create", "topic"))
@spends(PARTITIONS)
async def create_topic(request: Request, wanted: NewTopic) -> ASGIApp:
    """Create a topic: 201 if it was created, 200 if the same topic exists."""
    administration = engine_of(request).administration
    require(request, "Create", "topic", wanted.name)
    config = administration.parse_config(wanted.config)
    await require_named(request, wanted.name, wanted.config)
    with await reserve_answer(request, _description_bytes(wanted.partition_count)) as room:
        state, made = await administration.create(wanted.name, wanted.partition_count, config)
        quota_charges.charge_partitions(request, wanted.partition_count if made else 0)
        return await room.json(lambda: _describe(request, state), 201 if made else 200)


@router.get("/v1/topics", response_model=TopicPage)
@needs()
async def list_topics(request: Request, query: Annotated[TopicListQuery, Query()]) -> ASGIApp:
    """List topics by name, in pages."""
    shown = topic_filter(query, allowing(request, "Describe", "topic"))
    page = await engine_of(request).administration.page(
        query.prefix, query.after, query.limit, shown, age_ms_max=query.max_age_ms
    )

    def made() -> TopicPage:
        topics: TopicPage = {"topics": [_describe(request, state) for state in page.topics]}
        if page.damaged:
            topics["damaged"] = [
                {"name": name, "error_code": problem.code, "detail": problem.detail}
                for name, problem, _ in page.damaged
            ]
        if page.next_after is not None:
            topics["next"] = page.next_after
        return topics

    return await reserved_json(
        request, made, size_bytes=sum(_description_bytes(state.partition_count) for state in page.topics)
    )


@router.get("/v1/topics/{topic}", response_model=Topic, responses=problems(ErrorCode.UNKNOWN_TOPIC))
@needs(Need("Describe", "topic", path="topic"))
async def describe_topic(request: Request, topic: fields.TopicPath, query: Annotated[TopicQuery, Query()]) -> ASGIApp:
    """Describe a topic: its partitions, its settings, its table."""
    state = await engine_of(request).administration.describe(topic)
    known = None if query.include is None else engine_of(request).topics.known(topic)
    savings, now = None if known is None else known.savings, time.monotonic()
    columns = describe_columns(state.columns)

    def made() -> Topic:
        described = _describe(request, state)
        if columns:
            described["columns"] = columns
        if savings is not None:
            described["commit"]["flush_savings_ms"] = int(savings.saved_seconds(now) * 1000)
            described["commit"]["savings_spent"] = savings.is_spent(now, topic)
        return described

    size_bytes = _description_bytes(state.partition_count) + described_bytes(columns) + PIN_BYTES * len(state.pins)
    return await reserved_json(request, made, size_bytes=size_bytes)


@router.patch(
    "/v1/topics/{topic}",
    response_model=Topic,
    responses=problems(ErrorCode.UNKNOWN_TOPIC, ErrorCode.INVALID_CONFIG, *CHANGE_ERRORS),
)
@needs(Need("Alter", "topic", path="topic"))
async def alter_topic(request: Request, topic: fields.TopicPath, change: TopicChange) -> ASGIApp:
    """Add partitions or change settings, all or nothing."""
    if topic in layout.OWN_TOPICS and gateway_of(request).rights.enforced:
        check_change(topic, change.config)
    await require_named(request, topic, change.config)
    administration = engine_of(request).administration
    before = await quota_charges.count_partitions_before(request, topic) if change.partition_count is not None else None
    # The new number of partitions is known only after the change.
    with await reserve_answer(request, _description_bytes(limits.PARTITION_COUNT_MAX)) as room:
        state = await administration.alter(topic, change.partition_count, change.config)
        quota_charges.charge_partitions(request, 0 if before is None else state.partition_count - before)
        return await room.json(lambda: _describe(request, state))


@router.delete(
    "/v1/topics/{topic}",
    status_code=204,
    responses=problems(ErrorCode.UNKNOWN_TOPIC, ErrorCode.TOPIC_HAS_PINS, ErrorCode.OUTCOME_UNKNOWN),
)
@needs(Need("Delete", "topic", path="topic"))
async def delete_topic(request: Request, topic: fields.TopicPath, query: Annotated[DeletionQuery, Query()]) -> None:
    """Delete a topic and its records. A topic re-created under the name shares nothing with it."""
    await engine_of(request).administration.delete(topic, force=query.delete_pins == "true")


@router.post(
    "/v1/topics/{topic}:delete-records",
    responses=problems(
        ErrorCode.UNKNOWN_TOPIC, ErrorCode.UNKNOWN_PARTITION, ErrorCode.OFFSET_OUT_OF_RANGE, *CHANGE_ERRORS
    ),
)
@needs(Need("Delete", "topic", path="topic"))
async def delete_records(request: Request, topic: fields.TopicPath, wanted: DeletedRecords) -> LogStarts:
    """Delete the oldest records of partitions: those below an offset, or all of them (-1)."""
    before = {entry.partition: entry.offset for entry in wanted.before}
    starts = await engine_of(request).administration.delete_records(topic, before)
    return {
        "partitions": [
            {"partition": partition, "log_start_offset": log_start} for partition, log_start in starts.items()
        ]
    }


def topic_filter(query: TopicsQuery, shown: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return a predicate: whether a topic matches the query, and ``shown`` allows it."""
    prefix, search = query.prefix, query.search.lower()
    if not (prefix or search):
        return shown
    return lambda name: name.startswith(prefix) and search in name.lower() and shown(name)


def _description_bytes(partition_count: int) -> int:
    return _TOPIC_TEXT_BYTES + _PARTITION_TEXT_BYTES * partition_count


def _describe(request: Request, state: TopicState) -> Topic:
    topic: Topic = {
        "name": state.topic,
        "partition_count": state.partition_count,
        "partitions": cast("list[TopicPartition]", msgspec.Raw(b"[" + b",".join(_partitions(state)) + b"]")),
        "config": state.config.effective(),
        "table_uri": f"{gateway_of(request).store_uri}/{layout.topic_root(state.topic).rstrip('/')}",
        "table_version": state.version,
        "topic_id": state.topic_id or "",
        "created_at": state.created_at_ms,
        "commit": _commit_place(state),
        "foreign_commit": describe_foreign(state.foreign),
    }
    if state.archive.segment_count:
        topic["archive"] = {"segments": state.archive.segment_count, "size_bytes": state.archive.size_bytes}
    if state.pins:
        topic["pins"] = describe_pins(state.pins)
    return topic


def _commit_place(state: TopicState) -> CommitPlace:
    here = state.attachment
    since_ms = state.created_at_ms if state.last_move is None else state.last_move.at_ms
    drained_ms = state.undrained_since_ms or max(since_ms, state.modification_time_ms)
    return {
        "mode": "own" if here is None else "shared",
        "journal": None if here is None else here.journal,
        "since": since_ms,
        "reason": "created so" if state.last_move is None else state.last_move.reason,
        "undrained_records": state.undrained_count,
        "drained_until_ms": drained_ms,
    }


def _partitions(state: TopicState) -> Iterator[bytes]:
    """Yield each partition as JSON: objects of ten thousand partitions would take several times the memory."""
    offsets = zip(state.log_starts.tolist(), state.next_offsets.tolist(), strict=True)
    for partition, (log_start, high_watermark) in enumerate(offsets):
        yield b'{"partition":%d,"log_start_offset":%d,"high_watermark":%d,"size_bytes":%d}' % (
            partition,
            log_start,
            high_watermark,
            state.manifest.size_bytes(partition),
        )
