"""Committed offsets of consumer groups: commit, read, reset and delete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Final, Literal, Self

import msgspec
from fastapi import APIRouter
from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from starlette.requests import Request
from starlette.types import ASGIApp
from typing_extensions import TypedDict

from gateway.access.caller import caller_of
from gateway.access.needs import Need, needs
from gateway.gateway import check_member, engine_of, gateway_of, require
from gateway.groups.bounds import METADATA_BYTES_MAX, OFFSETS_PER_REQUEST_MAX
from gateway.groups.offsets.committed import NextOffset, offsets_after
from gateway.groups.offsets.incarnations import known_ids
from gateway.groups.offsets.reset import ResetTo
from gateway.http import fields
from gateway.http.disconnect import check_connected
from gateway.http.validation import faults_error
from gateway.openapi.problems import BODY_ERRORS, problems
from gateway.routes.groups import MEMBER_ERRORS, Generation, KnownTopics
from gateway.routes.reserved_response import reserve_answer, reserved_json
from gateway.routes.typed_route import TypedRoute
from log_format.errors import DECODE_ERRORS, ErrorCode
from log_format.groups.row import OffsetRow
from log_format.transactions.staged_offsets import StagedOffset

router = APIRouter(route_class=TypedRoute, tags=["groups"])

_OFFSET_TEXT_BYTES: Final = 400
"""Estimated memory of an offset as an object and as JSON, without its metadata."""
OFFSET_ERRORS: Final = (
    ErrorCode.UNKNOWN_TOPIC,
    ErrorCode.UNKNOWN_PARTITION,
)


def _metadata(text: str) -> str:
    if len(text.encode()) > METADATA_BYTES_MAX:
        raise faults_error([((), f"must be at most {METADATA_BYTES_MAX} bytes")])
    return text


Metadata = Annotated[str, AfterValidator(_metadata), Field(json_schema_extra={"maxLength": METADATA_BYTES_MAX})]


class Position(fields.PartitionKey):
    """The next offset to read of a partition."""

    offset: fields.Offset


class OffsetToCommit(Position):
    """The next offset to read. `metadata` is stored with it.

    `topic_id`: id of the topic that was read; if another topic has the name by now, the offset is not stored.
    """

    metadata: Metadata | None = None
    topic_id: fields.Opaque | None = None

    def staged(self) -> StagedOffset:
        """Return the offset as an open transaction stages it."""
        return StagedOffset(
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            metadata=self.metadata,
            topic_id=self.topic_id,
        )

    def next_offset(self) -> NextOffset:
        """Return the offset for the engine."""
        return NextOffset(
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            metadata=self.metadata,
            topic_id=self.topic_id,
        )


Offsets = Annotated[
    list[OffsetToCommit], Field(max_length=OFFSETS_PER_REQUEST_MAX), AfterValidator(fields.check_unique_partitions)
]


class Committing(fields.Body):
    """Membership of the caller: `member_id` and `generation`, both or neither; needed while the group has members."""

    member_id: fields.Opaque | None = None
    generation: Generation | None = None

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.member_id is None) != (self.generation is None):
            missing = "member_id" if self.member_id is None else "generation"
            raise faults_error([((missing,), "is missing: member_id and generation go together")])
        return self


class OffsetsToCommit(Committing, example={"offsets": [{"topic": "flights", "partition": 3, "offset": 42}]}):
    """Offsets to commit."""

    offsets: Offsets

    def next_offsets(self) -> list[NextOffset]:
        """Return the offsets for the engine."""
        return [one.next_offset() for one in self.offsets]

    @classmethod
    def plain(cls, data: bytes) -> PlainCommit | None:
        """Decode a member's commit without metadata, or return None. Without escapes, counting quotes reveals a repeated name."""
        if b"\\" in data:
            return None
        try:
            found = _PLAIN_DECODER.decode(data)
        except DECODE_ERRORS:
            return None
        offsets = found.offsets
        quotes = sum(_QUOTES_OF_OFFSET if one.topic_id is None else _QUOTES_OF_OFFSET_BY_ID for one in offsets)
        is_plain = data.count(b'"') == _QUOTES + quotes
        is_fit = len(offsets) <= OFFSETS_PER_REQUEST_MAX and len(
            {(one.topic, one.partition) for one in offsets}
        ) == len(offsets)
        return found if is_plain and is_fit else None


class PlainCommit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A commit decoded without ``OffsetsToCommit``, whose members it has."""

    offsets: list[NextOffset]
    member_id: str
    generation: Annotated[int, msgspec.Meta(ge=0, le=fields.INT64_MAX)]

    def next_offsets(self) -> list[NextOffset]:
        """Return the offsets for the engine."""
        return self.offsets


_PLAIN_DECODER: Final = msgspec.json.Decoder(PlainCommit)
_QUOTES: Final = 8
"""Quotes of three names and a member's id."""
_QUOTES_OF_OFFSET: Final = 8
"""Quotes of three names and a topic."""
_QUOTES_OF_OFFSET_BY_ID: Final = 12
"""Quotes of four names, a topic and its id."""


class ResetPosition(fields.Body):
    """Exactly one: the first record of a time or later, an offset, or a number of records forwards (negative: backwards)."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    timestamp: Annotated[fields.Timestamp | None, fields.NotNull()] = None
    offset: Annotated[fields.Offset | None, fields.NotNull()] = None
    shift: Annotated[Annotated[int, fields.Between(fields.INT64_MIN)] | None, fields.NotNull()] = None


def _kind_of_target(value: object) -> str | None:
    if isinstance(value, dict):
        return "position" if len(value) == 1 and value.keys() <= ResetPosition.model_fields.keys() else None
    return "word" if value in ("earliest", "latest") else None


Target = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("word")] | Annotated[ResetPosition, Tag("position")],
    Discriminator(
        _kind_of_target,
        custom_error_type="target",
        custom_error_message="must be earliest, latest, or an object with one of timestamp, offset, shift",
    ),
]


class _PartitionSelection(fields.Body):
    """Partitions of a request: either `topics`, with all of their partitions, or `partitions`."""

    topics: Annotated[KnownTopics | None, fields.NotNull()] = None
    partitions: Annotated[
        Annotated[list[fields.PartitionKey], Field(max_length=OFFSETS_PER_REQUEST_MAX)] | None, fields.NotNull()
    ] = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.topics is None) == (self.partitions is None):
            raise faults_error([(("topics",), "or partitions must be given, not both")])
        return self

    @property
    def named(self) -> tuple[str, ...]:
        """The topics."""
        return (*(self.topics or ()), *(one.topic for one in self.partitions or ()))


class Forget(_PartitionSelection, example={"topics": ["flights"]}):
    """Partitions whose committed offsets are deleted: either `topics`, with all of their partitions, or `partitions`."""


class Reset(_PartitionSelection, example={"topics": ["flights"], "to": "earliest"}):
    """Partitions whose committed offsets are moved: either `topics` or `partitions`, and their new offsets."""

    to: Target
    preview: Annotated[
        bool, Field(description="Change nothing: answer what would be. `committed_at` of what would move is 0")
    ] = False

    def target(self) -> ResetTo:
        """Return the target for the engine."""
        if isinstance(self.to, str):
            return ResetTo(word=self.to)
        return ResetTo(timestamp_ms=self.to.timestamp, offset=self.to.offset, shift=self.to.shift)


class CommittedOffset(TypedDict):
    """The next offset to read of a partition, and the id of its topic: a topic re-created under the name has another one."""

    topic: fields.TopicName
    partition: fields.Partition
    offset: fields.Offset
    metadata: Metadata | None
    committed_at: fields.Timestamp
    topic_id: fields.Opaque


class CommittedOffsets(TypedDict):
    """All committed offsets of a group, by topic and partition."""

    offsets: list[CommittedOffset]


@router.put(
    "/v1/groups/{group}/offsets",
    response_model=CommittedOffsets,
    responses=problems(*MEMBER_ERRORS, *OFFSET_ERRORS, *BODY_ERRORS),
)
@needs(Need("Read", "group", path="group"), Need("Read", "topic"))
async def commit_offsets(request: Request, group: fields.GroupPath, wanted: OffsetsToCommit) -> ASGIApp:
    """Commit offsets, all or none. While the group has members, `member_id` and `generation` are needed."""
    require(request, "Read", "topic", *(one.topic for one in wanted.offsets))
    groups, epoch = engine_of(request).groups, None
    if wanted.member_id is not None:
        # The coordinator's memory is checked, too: it may have acknowledgements that are not yet in the table.
        epoch = (await groups.existing(group)).row.epoch
        await check_member(request, group, wanted.member_id)
    # A member's group is known here. In either case the answer shows the offsets as of the commit.
    known = await groups.committed.now(group) if wanted.member_id is None else groups.committed.as_known(group)
    offsets = wanted.next_offsets()
    with await reserve_answer(request, _text_bytes(known.offsets.values()) + _text_bytes(offsets)) as room:
        member, check = (wanted.member_id, wanted.generation), partial(check_connected, request)
        rows = await groups.committed.put(known, group, offsets, *member, epoch=epoch, check_connected=check)
        shown = _describable_rows(request, rows)
        return await room.json(lambda: _offsets(shown))


@router.get(
    "/v1/groups/{group}/offsets",
    response_model=CommittedOffsets,
    responses=problems(ErrorCode.UNKNOWN_GROUP, ErrorCode.OUTCOME_UNKNOWN),
)
@needs(Need("Describe", "group", path="group"))
async def get_offsets(request: Request, group: fields.GroupPath) -> ASGIApp:
    """Return a group's committed offsets: the next offset to read of each partition."""
    rows = _describable_rows(request, await engine_of(request).groups.committed.offsets(group))
    return await reserved_json(request, lambda: _offsets(rows), size_bytes=_text_bytes(rows))


@router.post(
    "/v1/groups/{group}/offsets:reset",
    response_model=CommittedOffsets,
    responses=problems(
        ErrorCode.UNKNOWN_GROUP,
        ErrorCode.GROUP_NOT_EMPTY,
        ErrorCode.NO_COMMITTED_OFFSET,
        ErrorCode.OUTCOME_UNKNOWN,
        *OFFSET_ERRORS,
        *BODY_ERRORS,
    ),
)
@needs(Need("Alter", "group", path="group"), Need("Describe", "topic"))
async def reset_offsets(request: Request, group: fields.GroupPath, wanted: Reset) -> ASGIApp:
    """Move the committed offsets of a group without members, clamped to the partitions' logs."""
    require(request, "Describe", "topic", *wanted.named)
    groups = engine_of(request).groups
    found = await groups.committed.group(group)
    partitions = None if wanted.partitions is None else [one.key for one in wanted.partitions]
    with await reserve_answer(request, _text_bytes(found.offsets.values())) as room:
        rows = await groups.reset.move(found, group, wanted.topics, partitions, wanted.target(), preview=wanted.preview)
        shown = _describable_rows(request, rows)
        return await room.json(lambda: _offsets(shown))


@router.post(
    "/v1/groups/{group}/offsets:delete",
    response_model=CommittedOffsets,
    responses=problems(ErrorCode.UNKNOWN_GROUP, ErrorCode.GROUP_NOT_EMPTY, ErrorCode.OUTCOME_UNKNOWN, *BODY_ERRORS),
)
@needs(Need("Delete", "group", path="group"), Need("Read", "topic"))
async def delete_offsets(request: Request, group: fields.GroupPath, wanted: Forget) -> ASGIApp:
    """Delete committed offsets of topics that no member subscribes to. Offsets that are not committed are ignored."""
    require(request, "Read", "topic", *wanted.named)
    groups = engine_of(request).groups
    found = await groups.committed.group(group)
    named, keys = set(wanted.topics or ()), {one.key for one in wanted.partitions or ()}
    meant = [key for key in found.offsets if key in keys or key[0] in named]
    with await reserve_answer(request, _text_bytes(found.offsets.values())) as room:
        ids = known_ids(await groups.incarnations.look_up({topic for topic, _ in found.offsets}))
        left = await groups.erase(group, meant)
        shown = _describable_rows(request, offsets_after(left, ids, ()))
        return await room.json(lambda: _offsets(shown))


def _text_bytes(offsets: Iterable[OffsetRow | NextOffset]) -> int:
    return sum(_OFFSET_TEXT_BYTES + len(one.metadata or "") for one in offsets)


def _describable_rows(request: Request, rows: Sequence[OffsetRow]) -> Sequence[OffsetRow]:
    """Return the rows of topics that the caller may describe. Raise nothing: the change may already be committed."""
    rights, caller = gateway_of(request).rights, caller_of(request)
    if not rights.enforced:
        return rows
    hidden = {
        topic for topic in {row.topic for row in rows} if not rights.judge(caller, "Describe", "topic", topic).allowed
    }
    return [row for row in rows if row.topic not in hidden]


def _offsets(rows: Sequence[OffsetRow]) -> CommittedOffsets:
    return {
        "offsets": [
            {
                "topic": row.topic,
                "partition": row.partition,
                "offset": row.position,
                "metadata": row.metadata,
                "committed_at": row.committed_at_ms,
                "topic_id": row.topic_id,
            }
            for row in rows
            if row.position is not None
        ]
    }
