"""Committed offsets of consumer groups: committed, read, reset, and how far behind they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.types import ASGIApp

from gateway.gateway import engine_of
from gateway.groups.bounds import METADATA_BYTES_MAX, OFFSETS_PER_REQUEST_MAX, SUBSCRIBED_TOPICS_MAX
from gateway.groups.committed import Key, NextOffset, PartitionLag, ResetTo
from gateway.http.direct_route import DirectRoute
from gateway.http.disconnect import still_connected
from gateway.http.identifiers import path_group
from gateway.http.json_request import Members
from gateway.http.parameters import INT64_MIN, NO_PARAMETERS
from gateway.openapi.document import answer, operation
from gateway.openapi.document import request_body as body_of
from gateway.openapi.schemas import COUNT, OFFSET, PARTITION, TIMESTAMP, TOPIC_NAME, list_of, object_of
from gateway.routes.groups import BODY_ERRORS, GENERATION, MEMBER_ERRORS, MEMBER_ID
from gateway.routes.held_response import held_json, room_for_answer
from gateway.routes.json_members import json_parsed
from log_format.errors import ErrorCode
from log_format.groups.row import OffsetRow
from log_format.records.schema import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN

router = APIRouter(route_class=DirectRoute)

_METADATA: Final = {"type": ["string", "null"], "maxLength": METADATA_BYTES_MAX}
NEXT_OFFSET: Final = object_of(
    {"topic": TOPIC_NAME, "partition": PARTITION, "offset": OFFSET, "metadata": _METADATA},
    required=("topic", "partition", "offset"),
    closed=True,
)
_COMMITTED: Final = object_of(
    {
        "offsets": list_of(
            object_of(
                {
                    "topic": TOPIC_NAME,
                    "partition": PARTITION,
                    "offset": OFFSET,
                    "metadata": _METADATA,
                    "committed_at": TIMESTAMP,
                }
            )
        )
    }
)
_NULLABLE_COUNT: Final = {**COUNT, "type": ["integer", "null"]}
_LAG: Final = object_of(
    {
        "topics": list_of(
            object_of(
                {
                    "topic": TOPIC_NAME,
                    "partitions": list_of(
                        object_of(
                            {
                                "partition": PARTITION,
                                "committed_offset": _NULLABLE_COUNT,
                                "high_watermark": COUNT,
                                "lag": _NULLABLE_COUNT,
                                "lag_ms": _NULLABLE_COUNT,
                            }
                        )
                    ),
                }
            )
        ),
        "total": COUNT,
    }
)
_OFFSET_TEXT_BYTES: Final = 400
"""About what an offset takes as an object and as JSON, beside its metadata."""
_LAG_TEXT_BYTES: Final = 400
_EXAMPLE: Final = {"topic": "flights", "partition": 3, "offset": 42}
_WORDS: Final = ("earliest", "latest")
_TO: Final = {
    "anyOf": [
        {"type": "string", "enum": list(_WORDS)},
        object_of({"timestamp": TIMESTAMP}, closed=True),
        object_of({"offset": OFFSET}, closed=True),
        object_of({"shift": {"type": "integer", "format": "int64"}}, closed=True),
    ]
}
OFFSET_ERRORS: Final = (
    ErrorCode.UNKNOWN_TOPIC,
    ErrorCode.UNKNOWN_PARTITION,
)


@router.put(
    "/v1/groups/{group}/offsets",
    **operation(
        summary="Commit offsets, all of them or none",
        tag="groups",
        path=("group",),
        body=body_of(
            object_of(
                {"offsets": list_of(NEXT_OFFSET), "member_id": MEMBER_ID, "generation": GENERATION},
                required=("offsets",),
                closed=True,
            ),
            example={"offsets": [_EXAMPLE]},
        ),
        answers={200: answer("All offsets of the group", _COMMITTED)},
        errors=(*MEMBER_ERRORS, *OFFSET_ERRORS, *BODY_ERRORS),
    ),
)
async def commit_offsets(request: Request) -> ASGIApp:
    """Commit; ``member_id`` and ``generation`` are needed while the group has members."""
    NO_PARAMETERS.parse(request)
    name = path_group(request)
    offsets, member_id, generation = await json_parsed(request, _commit_of)
    groups = engine_of(request).groups
    if member_id is not None:
        # So that the coordinator's memory is asked too: it knows what was acknowledged just now.
        await groups.existing(name)
    await still_connected(request)
    known = await groups.committed.now(name)
    size_bytes = _text_bytes(known.offsets.values()) + _text_bytes(offsets)
    with await room_for_answer(request, size_bytes) as room:
        rows = await groups.committed.put(known, name, offsets, member_id, generation)
        return await room.json(lambda: {"offsets": _offsets(rows)})


@router.get(
    "/v1/groups/{group}/offsets",
    **operation(
        summary="Committed offsets of a group",
        tag="groups",
        path=("group",),
        answers={200: answer("In order of topic and partition", _COMMITTED)},
        errors=(ErrorCode.UNKNOWN_GROUP, ErrorCode.OUTCOME_UNKNOWN),
    ),
)
async def get_offsets(request: Request) -> ASGIApp:
    """The next offset to read of each partition."""
    NO_PARAMETERS.parse(request)
    rows = await engine_of(request).groups.committed.offsets(path_group(request))
    return await held_json(request, lambda: {"offsets": _offsets(rows)}, size_bytes=_text_bytes(rows))


@router.post(
    "/v1/groups/{group}/offsets:reset",
    **operation(
        summary="Move the offsets of a group without members, clamped to what there is",
        tag="groups",
        path=("group",),
        body=body_of(
            object_of(
                {
                    "topics": list_of(TOPIC_NAME),
                    "partitions": list_of(object_of({"topic": TOPIC_NAME, "partition": PARTITION}, closed=True)),
                    "to": _TO,
                },
                required=("to",),
                closed=True,
            ),
            example={"topics": ["flights"], "to": "earliest"},
        ),
        answers={200: answer("All offsets of the group", _COMMITTED)},
        errors=(
            ErrorCode.UNKNOWN_GROUP,
            ErrorCode.GROUP_NOT_EMPTY,
            ErrorCode.NO_COMMITTED_OFFSET,
            ErrorCode.OUTCOME_UNKNOWN,
            *OFFSET_ERRORS,
            *BODY_ERRORS,
        ),
    ),
)
async def reset_offsets(request: Request) -> ASGIApp:
    """Replay, or skip."""
    NO_PARAMETERS.parse(request)
    name = path_group(request)
    topics, partitions, to = await json_parsed(request, _reset_of)
    committed = engine_of(request).groups.committed
    group = await committed.group(name)
    with await room_for_answer(request, _text_bytes(group.offsets.values())) as room:
        rows = await committed.reset(group, name, topics, partitions, to)
        return await room.json(lambda: {"offsets": _offsets(rows)})


def _reset_of(members: Members) -> tuple[list[str] | None, list[Key] | None, ResetTo]:
    topics = members.texts("topics", count_max=SUBSCRIBED_TOPICS_MAX) if members.has("topics") else None
    partitions = _partitions(members) if members.has("partitions") else None
    if (topics is None) == (partitions is None):
        members.fault("topics", "or partitions must be given, not both")
    to = _to(members)
    members.finish()
    return topics, partitions, to


@router.get(
    "/v1/groups/{group}/lag",
    **operation(
        summary="How far behind a group is",
        tag="groups",
        path=("group",),
        answers={200: answer("Of every partition that it subscribes to or has offsets for", _LAG)},
        errors=(ErrorCode.UNKNOWN_GROUP, ErrorCode.OUTCOME_UNKNOWN),
    ),
)
async def group_lag(request: Request) -> ASGIApp:
    """Records and time between what is committed and the end."""
    NO_PARAMETERS.parse(request)
    found = await engine_of(request).groups.committed.lag(path_group(request))
    return await held_json(request, lambda: _lag_text(found), size_bytes=_LAG_TEXT_BYTES * len(found))


def _lag_text(found: Sequence[PartitionLag]) -> dict[str, Any]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        topics.setdefault(one.topic, []).append(
            {
                "partition": one.partition,
                "committed_offset": one.committed_offset,
                "high_watermark": one.high_watermark,
                "lag": one.lag,
                "lag_ms": one.lag_ms,
            }
        )
    listed = [{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()]
    return {"topics": listed, "total": sum(one.lag or 0 for one in found)}


def next_offsets_of(members: Members, name: str) -> list[NextOffset]:
    """Offsets that a body wants to commit; faults are noted."""
    found: list[NextOffset] = []
    seen: set[Key] = set()
    for entry in members.objects(name, count_max=OFFSETS_PER_REQUEST_MAX):
        topic = entry.text("topic")
        partition = entry.integer("partition", minimum=0, maximum=(1 << 31) - 1)
        offset = entry.integer("offset", minimum=0)
        metadata = entry.text("metadata") if entry.raw("metadata") is not None else None
        if metadata is not None and len(metadata.encode()) > METADATA_BYTES_MAX:
            entry.fault("metadata", f"must be at most {METADATA_BYTES_MAX} bytes")
        if (topic, partition) in seen:
            entry.fault("partition", "is there twice")
        seen.add((topic, partition))
        entry.refuse_unknown()
        found.append(NextOffset(topic=topic, partition=partition, offset=offset, metadata=metadata))
    return found


def member_of(members: Members) -> tuple[str | None, int | None]:
    """``member_id`` and ``generation``, both or none; faults are noted."""
    member_id = members.text("member_id") if members.raw("member_id") is not None else None
    generation = members.integer("generation", minimum=0) if members.raw("generation") is not None else None
    if (member_id is None) != (generation is None):
        missing = "member_id" if member_id is None else "generation"
        members.fault(missing, "is missing: member_id and generation go together")
    return member_id, generation


def _commit_of(members: Members) -> tuple[list[NextOffset], str | None, int | None]:
    offsets = next_offsets_of(members, "offsets")
    member_id, generation = member_of(members)
    members.finish()
    return offsets, member_id, generation


def _partitions(members: Members) -> list[Key]:
    found = []
    for entry in members.objects("partitions", count_max=OFFSETS_PER_REQUEST_MAX):
        found.append((entry.text("topic"), entry.integer("partition", minimum=0, maximum=(1 << 31) - 1)))
        entry.refuse_unknown()
    return found


def _to(members: Members) -> ResetTo:
    value = members.raw("to")
    if value == "earliest":
        return ResetTo(word="earliest")
    if value == "latest":
        return ResetTo(word="latest")
    entry = members.nested("to") if isinstance(value, dict) and len(value) == 1 else None
    if entry is not None and entry.has("timestamp"):
        return ResetTo(timestamp_ms=entry.integer("timestamp", minimum=TIMESTAMP_MS_MIN, maximum=TIMESTAMP_MS_MAX))
    if entry is not None and entry.has("offset"):
        return ResetTo(offset=entry.integer("offset", minimum=0))
    if entry is not None and entry.has("shift"):
        return ResetTo(shift=entry.integer("shift", minimum=INT64_MIN))
    members.fault("to", "must be earliest, latest, or an object with one of timestamp, offset, shift")
    return ResetTo(word="earliest")


def _text_bytes(offsets: Iterable[OffsetRow | NextOffset]) -> int:
    return sum(_OFFSET_TEXT_BYTES + len(one.metadata or "") for one in offsets)


def _offsets(rows: Sequence[OffsetRow]) -> list[dict[str, Any]]:
    return [
        {
            "topic": row.topic,
            "partition": row.partition,
            "offset": row.offset,
            "metadata": row.metadata,
            "committed_at": row.committed_at_ms,
        }
        for row in rows
    ]
