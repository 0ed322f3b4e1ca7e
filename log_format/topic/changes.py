"""Changes that create, alter, move and delete a topic, and that delete its oldest records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from log_format import limits
from log_format.delta.actions import Action, MetaData, Protocol, Remove, Txn
from log_format.delta.change import Proposal
from log_format.delta.foreign import FOREIGN_PROPERTY, ForeignCommit
from log_format.errors import BackOff, ErrorCode, OffsetOutOfRange, RequestRefused, UnknownPartition, UnknownTopic
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypeConflict, TypedColumns
from log_format.topic.attachment import NO_MOVE, Attachment, LastMove, TopicMove
from log_format.topic.config import ConfigValue, TopicConfig, check_topic_name
from log_format.topic.erasures import Erasure, encode_erasures
from log_format.topic.partition_offsets import ERASED_APP_ID, KEYS_COMPACTED_APP_ID, LOG_START_APP_ID
from log_format.topic.pins import Pin, pin_properties
from log_format.topic.segment_tags import remove_segment
from log_format.topic.state import DELETED_PROPERTY, PARTITION_COUNT_PROPERTY, TopicState
from log_format.topic.table_columns import protocol_of, table_schema_string


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """A change that creates the topic; it does nothing if one with the same partition count and effective config exists.

    The result is whether this change created the topic, also when an earlier try did. Raises ``RequestRefused``
    (``TOPIC_ALREADY_EXISTS``) if the existing topic is different.
    """

    name: str
    partition_count: int
    config: TopicConfig
    topic_id: str
    attachment: Attachment | None = None
    columns: TypedColumns = NO_TYPED_COLUMNS

    def __post_init__(self) -> None:
        """Raise ``RequestRefused`` for a name or partition count that a topic can't have."""
        check_topic_name(self.name)
        _check_partition_count(self.partition_count)

    def propose(self, state: TopicState, now_ms: int) -> Proposal[bool]:
        """Propose the protocol and the topic's metadata."""
        if state.exists:
            if (state.partition_count, state.config.effective()) == (self.partition_count, self.config.effective()):
                return Proposal(operation="CREATE TOPIC", actions=(), result=state.topic_id == self.topic_id)
            raise RequestRefused(
                f"Topic {self.name!r} exists with {self._difference(state)}. Use PATCH to change it.",
                code=ErrorCode.TOPIC_ALREADY_EXISTS,
                topic=self.name,
            )
        metadata = _metadata(
            *(self.topic_id, self.name, self.partition_count, self.config, now_ms, self.attachment),
            columns=self.columns,
        )
        protocol = _protocol_with(state, self.columns)
        return Proposal(operation="CREATE TOPIC", actions=[protocol, metadata], result=True)

    def _difference(self, state: TopicState) -> str:
        """Describe in what the existing topic differs, by setting."""
        has, asked = state.config.effective(), self.config.effective()
        differ = [name for name in {**has, **asked} if has.get(name) != asked.get(name)]
        found = [f"{name}={has[name]}" if name in has else f"no {name}" for name in differ]
        if state.partition_count != self.partition_count:
            found.insert(0, f"{state.partition_count} partition{'s' if state.partition_count > 1 else ''}")
        return " and ".join(found[:3]) + (" and more" if len(found) > 3 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopic:
    """A change that raises the partition count and changes settings (None: back to the default), all or nothing.

    ``topic_id``: incarnation to alter; None for the present one.
    """

    partition_count: int | None
    config: Mapping[str, ConfigValue | None]
    request_bytes_max: int = limits.REQUEST_BYTES_MAX
    move: TopicMove = NO_MOVE
    topic_id: str | None = None
    columns: TypedColumns = NO_TYPED_COLUMNS

    def propose(self, state: TopicState, now_ms: int) -> Proposal[None]:
        """Propose new metadata. Raises ``UnknownTopic``, ``Attached``, ``RequestRefused`` (``INVALID_CONFIG``,
        ``INVALID_REQUEST``)."""
        del now_ms
        check_incarnation(state, self.topic_id)
        count = state.partition_count if self.partition_count is None else self.partition_count
        _check_partition_count(count)
        if count < state.partition_count:
            what = f"must not be below {state.partition_count}: partitions can only be added"
            raise RequestRefused(f"partition_count {what}.", errors=[{"where": "/partition_count", "what": what}])
        config = state.config.altered(self.config, request_bytes_max=self.request_bytes_max)
        columns = merged_columns(state, self.columns)
        is_as_before = (count, config, columns) == (state.partition_count, state.config, state.columns)
        if is_as_before and not self.move.changes(state):
            return Proposal(operation="ALTER TOPIC", actions=(), result=None)
        self.move.check(state)
        altered = replace(state, partition_count=count, config=config, columns=columns)
        metadata = moved_metadata(altered, self.move)
        protocol = _protocol(altered, self.move.to) if columns == state.columns else [_protocol_with(state, columns)]
        return Proposal(operation="ALTER TOPIC", actions=[*protocol, metadata], result=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTopic:
    """A change that moves a topic to a journal, to another number at its journal, or back to its own commits. Settings stay."""

    topic_id: str
    move: TopicMove

    def propose(self, state: TopicState, now_ms: int) -> Proposal[None]:
        """Propose new metadata; no actions if the topic is there already. Raises ``UnknownTopic`` for another incarnation,
        ``Attached``."""
        del now_ms
        check_incarnation(state, self.topic_id)
        if not self.move.changes(state):
            return Proposal(operation="MOVE TOPIC", actions=(), result=None)
        self.move.check(state)
        metadata = moved_metadata(state, self.move)
        return Proposal(operation="MOVE TOPIC", actions=[*_protocol(state, self.move.to), metadata], result=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """A change that deletes this incarnation of the topic. Its log stays for ever, so a committer that slept finds its version
    taken.

    The commit names every remaining segment. So for a topic with more than ``REMOVES_PER_COMMIT_MAX`` segments the caller should
    first delete all records (``DeleteAllRecords``). The result is the paths of the segments.

    ``topic_id``: incarnation to delete; None for the present one. ``force``: also if it has pins, which end with it.
    """

    move: TopicMove = NO_MOVE
    topic_id: str | None = None
    force: bool = False

    def propose(self, state: TopicState, now_ms: int) -> Proposal[tuple[str, ...]]:
        """Propose to remove all segments, mark the metadata, and reset the offsets' ``txn`` to 0. Raises ``UnknownTopic``,
        ``Attached``, ``RequestRefused`` (``TOPIC_HAS_PINS``), and ``BackOff`` while there is an archive."""
        check_incarnation(state, self.topic_id)
        self.move.check(state)
        refuse_pins(state, now_ms, self.force)
        if state.archive.segment_count:
            raise BackOff(
                f"The table of topic {state.topic!r} still has {state.archive.segment_count} archived segments, which leave it "
                "before the topic is deleted: delete it again.",
                topic=state.topic,
            )
        metadata = moved_metadata(replace(state, erasures=(), pins=()), NO_MOVE)
        metadata.configuration[DELETED_PROPERTY] = "true"
        segments = state.manifest.segments()
        removes = [remove_segment(segment, deletion_timestamp_ms=now_ms, data_change=True) for segment in segments]
        resets = [
            Txn(app_id=app_id, version=0, last_updated=now_ms)
            for prefix, offsets in (
                ("", state.next_offsets),
                (LOG_START_APP_ID, state.log_starts),
                (KEYS_COMPACTED_APP_ID, state.keys_compacted),
                (ERASED_APP_ID, state.erased_ends),
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
    """A change that raises log starts, for all partitions in ``before`` or none.

    ``before``: partition -> the first offset to keep; -1 stands for the high watermark. An offset below the log start changes
    nothing. The result is the log start of each partition in ``before``. ``topic_id``: incarnation that is meant; None for the
    present one.
    """

    before: Mapping[int, int]
    move: TopicMove = NO_MOVE
    removes_max: int = limits.REMOVES_PER_COMMIT_MAX
    topic_id: str | None = None

    def propose(self, state: TopicState, now_ms: int) -> Proposal[dict[int, int]]:
        """Propose the log starts as ``txn``, and removes of segments without readable records.

        Raises ``UnknownTopic``, ``Attached``, ``UnknownPartition``, ``OffsetOutOfRange`` (416).
        """
        check_incarnation(state, self.topic_id)
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
    """A change that removes segments left over by a deletion of records. The result is whether it removed any; repeat it while it
    does."""

    topic_id: str
    removes_max: int = limits.REMOVES_PER_COMMIT_MAX

    def propose(self, state: TopicState, now_ms: int) -> Proposal[bool]:
        """Propose removes; no actions if another incarnation has replaced this one. Never raises."""
        if state.topic_id != self.topic_id:
            return Proposal(operation="DELETE RECORDS", actions=(), result=False)
        _, removes, _ = log_start_actions(state, {}, now_ms, self.removes_max)
        return Proposal(operation="DELETE RECORDS", actions=removes, result=bool(removes))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAllRecords:
    """A step in deleting a topic with many segments: it deletes all records, and removes some of the segments.

    The result is whether it removed segments; repeat it while it does.
    """

    topic_id: str
    move: TopicMove = NO_MOVE
    removes_max: int = limits.REMOVES_PER_COMMIT_MAX
    force: bool = False

    def propose(self, state: TopicState, now_ms: int) -> Proposal[bool]:
        """Propose the same actions as ``DeleteRecords``. Raises ``UnknownTopic`` for another incarnation, ``Attached``,
        ``RequestRefused`` (``TOPIC_HAS_PINS``) unless ``force``."""
        if state.topic_id != self.topic_id:
            raise UnknownTopic(state.topic)
        refuse_pins(state, now_ms, self.force)
        self.move.check(state)
        partitions = (state.log_starts < state.next_offsets).nonzero()[0].tolist()
        moved = {partition: state.high_watermark(partition) for partition in partitions}
        starts, removes, _ = log_start_actions(state, moved, now_ms, self.removes_max, is_deleted=True)
        return Proposal(operation="DELETE RECORDS", actions=[*starts, *removes], result=bool(removes))


def log_start_actions(
    state: TopicState, moved: Mapping[int, int], now_ms: int, removes_max: int, *, is_deleted: bool = False
) -> tuple[list[Txn], list[Remove], tuple[str, ...]]:
    """Return the actions that raise log starts.

    Args:
        state: the topic.
        moved: partition -> its new log start.
        now_ms: deletion time of the removed segments.
        removes_max: most segments to remove; the others stay in the table for a later commit.
        is_deleted: whether the topic is being deleted, and its archive with it.

    Returns:
        A ``txn`` per partition, a ``remove`` per segment without readable records, and the paths of those segments.
    """
    starts = [
        Txn(app_id=f"{LOG_START_APP_ID}{partition}", version=offset, last_updated=now_ms)
        for partition, offset in moved.items()
    ]
    # Of a topic that keeps an archive maintenance moves them there.
    removes_max = 0 if state.config.table_retention.keeps_archive and not is_deleted else removes_max
    segments = state.manifest.segments_below(moved, count_max=removes_max)
    removes = [remove_segment(segment, deletion_timestamp_ms=now_ms, data_change=True) for segment in segments]
    return starts, removes, tuple(segment.path for segment in segments)


def check_incarnation(state: TopicState, topic_id: str | None) -> None:
    """Raise ``UnknownTopic`` unless the topic exists and is the incarnation ``topic_id`` (None: any)."""
    if state.topic_id is None or topic_id not in (None, state.topic_id):
        raise UnknownTopic(state.topic)


def refuse_pins(state: TopicState, now_ms: int, force: bool) -> None:
    """Raise ``RequestRefused`` if the topic has pins that have not expired, unless ``force``."""
    names = [pin.name for pin in state.pins if not pin.is_expired(now_ms)]
    if names and not force:
        shown = ", ".join(names[:3]) + (" and more" if len(names) > 3 else "")
        raise RequestRefused(
            f"Topic {state.topic!r} has pins ({shown}), which would end with it. Delete them first, or delete the topic by "
            f"'tidelog topic delete {state.topic} --force' (over HTTP: ?delete_pins=true).",
            code=ErrorCode.TOPIC_HAS_PINS,
            topic=state.topic,
        )


def _check_partition_count(count: object) -> None:
    if not (isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= limits.PARTITION_COUNT_MAX):
        what = f"must be an integer from 1 to {limits.PARTITION_COUNT_MAX}"
        raise RequestRefused(f"partition_count {what}.", errors=[{"where": "/partition_count", "what": what}])


def merged_columns(state: TopicState, columns: TypedColumns) -> TypedColumns:
    """Return the topic's typed columns together with others. Raises ``RequestRefused`` for a member of another type."""
    try:
        return state.columns.merged_with(columns)
    except TypeConflict as conflict:
        raise RequestRefused(
            f"The schema does not fit the columns of topic {state.topic!r}: {conflict}. A column keeps its type: use a new "
            "member, or a new topic.",
            code=ErrorCode.INVALID_CONFIG,
            errors=[{"where": "/config/value.schema", "what": str(conflict)}],
        ) from conflict


def columns_actions(state: TopicState, columns: TypedColumns) -> list[Action]:
    """Return the actions that give the topic's table these typed columns, which have all that it has; none if it has them."""
    if columns == state.columns:
        return []
    metadata = moved_metadata(replace(state, columns=columns), TopicMove(to=state.attachment))
    return [metadata] if state.columns else [_protocol_with(state, columns), metadata]


def moved_metadata(state: TopicState, move: TopicMove) -> MetaData:
    """Return the topic's metadata for the place that the move takes it to."""
    return _metadata(
        state.existing_id,
        state.topic,
        state.partition_count,
        state.config,
        state.created_at_ms,
        move.to,
        moved=move.moved or state.last_move,
        foreign=state.foreign.last,
        columns=state.columns,
        erasures=state.erasures,
        pins=state.pins,
    )


def _protocol(state: TopicState, attachment: Attachment | None) -> list[Action]:
    """Return the protocol for a topic at a journal, so that releases that do not know journals refuse the table; else nothing."""
    return [] if attachment is None else [_protocol_with(state, state.columns)]


def _protocol_with(state: TopicState, columns: TypedColumns) -> Protocol:
    return protocol_of(columns, has_table_feature=state.has_table_feature)


def _metadata(  # noqa: PLR0917
    topic_id: str,
    name: str,
    partition_count: int,
    config: TopicConfig,
    created_at_ms: int,
    attachment: Attachment | None,
    *,
    moved: LastMove | None = None,
    foreign: ForeignCommit | None = None,
    columns: TypedColumns = NO_TYPED_COLUMNS,
    erasures: Sequence[Erasure] = (),
    pins: tuple[Pin, ...] = (),
) -> MetaData:
    return MetaData(
        id=topic_id,
        name=name,
        schema_string=table_schema_string(columns),
        configuration={
            # Only Tidelog's maintenance may clean this log: docs/format.md, section 9.
            "delta.enableExpiredLogCleanup": "false",
            PARTITION_COUNT_PROPERTY: str(partition_count),
            **config.properties(),
            **({} if attachment is None else attachment.properties()),
            **({} if moved is None else moved.properties()),
            **({} if foreign is None else {FOREIGN_PROPERTY: msgspec.json.encode(foreign).decode()}),
            **encode_erasures(erasures),
            **pin_properties(pins),
        },
        created_time=created_at_ms,
    )
