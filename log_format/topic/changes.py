"""Creating, altering and deleting a topic, and deleting its oldest records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from log_format import limits
from log_format.delta.actions import PROTOCOL, Action, MetaData, Remove, Txn
from log_format.delta.change import Proposal
from log_format.delta.foreign import FOREIGN_PROPERTY, ForeignCommit
from log_format.delta.table_schema import schema_string
from log_format.errors import ErrorCode, OffsetOutOfRange, RequestRefused, UnknownPartition, UnknownTopic
from log_format.records.schema import RECORD_SCHEMA
from log_format.topic.attachment import STAYS, Attachment, Move, Moved
from log_format.topic.config import ConfigValue, TopicConfig, check_topic_name
from log_format.topic.segment_tags import remove_segment
from log_format.topic.state import (
    DELETED_PROPERTY,
    KEYS_COMPACTED_APP_ID,
    LOG_START_APP_ID,
    PARTITION_COUNT_PROPERTY,
    TopicState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Create the topic; no change when one with the same partition count and effective config exists.

    The result is True when it was created. Raises ``RequestRefused`` (``TOPIC_ALREADY_EXISTS``) when another one exists.
    """

    name: str
    partition_count: int
    config: TopicConfig
    topic_id: str
    attachment: Attachment | None = None

    def __post_init__(self) -> None:
        """Refuse names and counts that a topic can't have."""
        check_topic_name(self.name)
        _check_partition_count(self.partition_count)

    def propose(self, state: TopicState, now_ms: int) -> Proposal[bool]:
        """Protocol and metadata; over a deleted incarnation also its ``txn`` versions reset to 0."""
        if state.exists:
            if (state.partition_count, state.config.effective()) == (self.partition_count, self.config.effective()):
                return Proposal(operation="CREATE TOPIC", actions=(), result=state.topic_id == self.topic_id)
            raise RequestRefused(
                f"Topic {self.name!r} exists with {self._difference(state)}. Use PATCH to change it.",
                code=ErrorCode.TOPIC_ALREADY_EXISTS,
                topic=self.name,
            )
        metadata = _metadata(self.topic_id, self.name, self.partition_count, self.config, now_ms, self.attachment)
        return Proposal(operation="CREATE TOPIC", actions=[PROTOCOL, metadata], result=True)

    def _difference(self, state: TopicState) -> str:
        """What the topic has otherwise, by name."""
        has, asked = state.config.effective(), self.config.effective()
        differ = [name for name in {**has, **asked} if has.get(name) != asked.get(name)]
        found = [f"{name}={has[name]}" if name in has else f"no {name}" for name in differ]
        if state.partition_count != self.partition_count:
            found.insert(0, f"{state.partition_count} partition{'s' if state.partition_count > 1 else ''}")
        return " and ".join(found[:3]) + (" and more" if len(found) > 3 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopic:
    """Raise the partition count and change settings (None: back to the default); all or nothing.

    ``topic_id``: the incarnation that is meant; None: the present one.
    """

    partition_count: int | None
    config: Mapping[str, ConfigValue | None]
    request_bytes_max: int = limits.REQUEST_BYTES_MAX
    move: Move = STAYS
    topic_id: str | None = None

    def propose(self, state: TopicState, now_ms: int) -> Proposal[None]:
        """New metadata. Raises ``UnknownTopic``, ``Attached``, ``RequestRefused`` (``INVALID_CONFIG``, ``INVALID_REQUEST``)."""
        del now_ms
        _check_meant(state, self.topic_id)
        count = state.partition_count if self.partition_count is None else self.partition_count
        _check_partition_count(count)
        if count < state.partition_count:
            what = f"must not be below {state.partition_count}: partitions can only be added"
            raise RequestRefused(f"partition_count {what}.", errors=[{"where": "/partition_count", "what": what}])
        config = state.config.altered(self.config, request_bytes_max=self.request_bytes_max)
        if count == state.partition_count and config == state.config and not self.move.changes(state):
            return Proposal(operation="ALTER TOPIC", actions=(), result=None)
        self.move.check(state)
        metadata = moved_metadata(replace(state, partition_count=count, config=config), self.move)
        return Proposal(operation="ALTER TOPIC", actions=[*_protocol(self.move.to), metadata], result=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTopic:
    """Take a topic to a journal, to another number there, or back to its own commits. Its settings stay."""

    topic_id: str
    move: Move

    def propose(self, state: TopicState, now_ms: int) -> Proposal[None]:
        """New metadata; nothing where it is there already. Raises ``UnknownTopic`` for another incarnation, ``Attached``."""
        del now_ms
        _check_meant(state, self.topic_id)
        if not self.move.changes(state):
            return Proposal(operation="MOVE TOPIC", actions=(), result=None)
        self.move.check(state)
        metadata = moved_metadata(state, self.move)
        return Proposal(operation="MOVE TOPIC", actions=[*_protocol(self.move.to), metadata], result=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """End this incarnation. Its log stays, and goes on for ever, so that a committer that slept finds its version taken.

    This commit names every remaining segment. So with more than ``REMOVES_PER_COMMIT_MAX`` segments the caller should first
    delete all records (``DeleteAllRecords``). The result is the paths of the segments.

    ``topic_id``: the incarnation that is meant; None: the present one.
    """

    move: Move = STAYS
    topic_id: str | None = None

    def propose(self, state: TopicState, now_ms: int) -> Proposal[tuple[str, ...]]:
        """All segments removed, the metadata marked, the offsets' ``txn`` set to 0. Raises ``UnknownTopic``, ``Attached``."""
        _check_meant(state, self.topic_id)
        self.move.check(state)
        metadata = moved_metadata(state, STAYS)
        metadata.configuration[DELETED_PROPERTY] = "true"
        segments = state.manifest.segments()
        removes = [remove_segment(segment, deletion_timestamp_ms=now_ms, data_change=True) for segment in segments]
        resets = [
            Txn(app_id=app_id, version=0, last_updated=now_ms)
            for prefix, offsets in (
                ("", state.next_offsets),
                (LOG_START_APP_ID, state.log_starts),
                (KEYS_COMPACTED_APP_ID, state.keys_compacted),
            )
            for app_id in (f"{prefix}{partition}" for partition in offsets.nonzero()[0])
        ]
        return Proposal(
            operation="DELETE TOPIC",
            actions=[metadata, *removes, *resets],
            result=tuple(segment.path for segment in segments),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    """Move log starts up. ``before``: partition -> the first offset to keep, -1 for the high watermark.

    All or nothing; an offset below the log start changes nothing. The result is the log start of each partition in ``before``.
    ``topic_id``: the incarnation that is meant; None: the present one.
    """

    before: Mapping[int, int]
    move: Move = STAYS
    removes_max: int = limits.REMOVES_PER_COMMIT_MAX
    topic_id: str | None = None

    def propose(self, state: TopicState, now_ms: int) -> Proposal[dict[int, int]]:
        """Log starts as ``txn``, and removes of segments without readable records.

        Raises ``UnknownTopic``, ``Attached``, ``UnknownPartition``, ``OffsetOutOfRange`` (416).
        """
        _check_meant(state, self.topic_id)
        self.move.check(state)
        result: dict[int, int] = {}
        moved: dict[int, int] = {}
        for partition, offset in self.before.items():
            if not 0 <= partition < state.partition_count:
                raise UnknownPartition(state.topic, partition, state.partition_count)
            high_watermark, log_start = state.high_watermark(partition), state.log_start(partition)
            wanted = high_watermark if offset == -1 else offset
            if wanted > high_watermark:
                raise OffsetOutOfRange(state.topic, partition, wanted, log_start, high_watermark)
            result[partition] = max(wanted, log_start)
            if wanted > log_start:
                moved[partition] = wanted
        if not moved:
            return Proposal(operation="DELETE RECORDS", actions=(), result=result)
        starts, removes, _ = log_start_actions(state, moved, now_ms, self.removes_max)
        metadata = [moved_metadata(state, self.move)] if self.move.changes(state) else []
        return Proposal(operation="DELETE RECORDS", actions=[*metadata, *starts, *removes], result=result)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDeadSegments:
    """Remove segments that a deletion of records left over. Repeat it while there are any.

    The result is whether there were any.
    """

    topic_id: str
    removes_max: int = limits.REMOVES_PER_COMMIT_MAX

    def propose(self, state: TopicState, now_ms: int) -> Proposal[bool]:
        """Removes; nothing when another incarnation has replaced this one. Never raises."""
        if state.topic_id != self.topic_id:
            return Proposal(operation="DELETE RECORDS", actions=(), result=False)
        _, removes, _ = log_start_actions(state, {}, now_ms, self.removes_max)
        return Proposal(operation="DELETE RECORDS", actions=removes, result=bool(removes))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAllRecords:
    """A step of the deletion of a topic with many segments: deletes all records, and some of the segments then unreadable.

    The result is whether segments were removed. Repeat it while some are.
    """

    topic_id: str
    move: Move = STAYS
    removes_max: int = limits.REMOVES_PER_COMMIT_MAX

    def propose(self, state: TopicState, now_ms: int) -> Proposal[bool]:
        """As ``DeleteRecords``. Raises ``UnknownTopic`` for another incarnation."""
        if state.topic_id != self.topic_id:
            raise UnknownTopic(state.topic)
        self.move.check(state)
        partitions = (state.log_starts < state.next_offsets).nonzero()[0].tolist()
        moved = {partition: state.high_watermark(partition) for partition in partitions}
        starts, removes, _ = log_start_actions(state, moved, now_ms, self.removes_max)
        return Proposal(operation="DELETE RECORDS", actions=[*starts, *removes], result=bool(removes))


def log_start_actions(
    state: TopicState, moved: Mapping[int, int], now_ms: int, removes_max: int
) -> tuple[list[Txn], list[Remove], tuple[str, ...]]:
    """The actions that move log starts up: ``txn``, and removes of segments without readable records; and those paths.

    At most ``removes_max`` removes; the other segments stay in the table for a later commit.
    """
    starts = [
        Txn(app_id=f"{LOG_START_APP_ID}{partition}", version=offset, last_updated=now_ms)
        for partition, offset in moved.items()
    ]
    segments = state.manifest.segments_below(moved, count_max=removes_max)
    removes = [remove_segment(segment, deletion_timestamp_ms=now_ms, data_change=True) for segment in segments]
    return starts, removes, tuple(segment.path for segment in segments)


def _check_meant(state: TopicState, topic_id: str | None) -> None:
    """Raise ``UnknownTopic`` unless the topic is there, and is the incarnation that is meant; None: whichever is there."""
    if state.topic_id is None or topic_id not in (None, state.topic_id):
        raise UnknownTopic(state.topic)


def _check_partition_count(count: object) -> None:
    if not (isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= limits.PARTITION_COUNT_MAX):
        what = f"must be an integer from 1 to {limits.PARTITION_COUNT_MAX}"
        raise RequestRefused(f"partition_count {what}.", errors=[{"where": "/partition_count", "what": what}])


def moved_metadata(state: TopicState, move: Move) -> MetaData:
    """The topic's metadata at its new place."""
    assert state.topic_id is not None
    return _metadata(
        state.topic_id,
        state.topic,
        state.partition_count,
        state.config,
        state.created_at_ms,
        move.to,
        moved=move.moved or state.moved,
        foreign=state.foreign.last,
    )


def _protocol(attachment: Attachment | None) -> list[Action]:
    """For a topic at a journal: releases that know nothing of journals stop at this protocol."""
    return [] if attachment is None else [PROTOCOL]


def _metadata(  # noqa: PLR0917
    topic_id: str,
    name: str,
    partition_count: int,
    config: TopicConfig,
    created_at_ms: int,
    attachment: Attachment | None,
    *,
    moved: Moved | None = None,
    foreign: ForeignCommit | None = None,
) -> MetaData:
    return MetaData(
        id=topic_id,
        name=name,
        schema_string=schema_string(RECORD_SCHEMA),
        configuration={
            # Only Tidelog's maintenance may clean this log: docs/format.md, section 9.
            "delta.enableExpiredLogCleanup": "false",
            PARTITION_COUNT_PROPERTY: str(partition_count),
            **config.properties(),
            **({} if attachment is None else attachment.properties()),
            **({} if moved is None else moved.properties()),
            **({} if foreign is None else {FOREIGN_PROPERTY: msgspec.json.encode(foreign).decode()}),
        },
        created_time=created_at_ms,
    )
