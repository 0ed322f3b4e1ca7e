"""The state of one topic at one version of its log: the result of replaying every action up to that version.

Invariants, checked as each commit is applied (a violation raises ``CorruptData``: the log itself is wrong):

1. A segment of new data (``dataChange``) continues each of its partitions exactly at the next offset.
2. The ``txn`` of a partition names the next offset that its runs lead to. Next offsets and log starts never go back.
3. A ``metaData`` with another id begins another incarnation: nothing of the old one remains.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np

from log_format import limits
from log_format.delta.actions import Commit, MetaData, Protocol, Txn, plain_path
from log_format.delta.foreign import NOTHING_FOREIGN, ForeignWrites
from log_format.delta.table import NO_LOG
from log_format.errors import CorruptData, TopicReplaced, UnknownTopic
from log_format.manifest.manifest import Manifest
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypedColumns
from log_format.topic.applied_transactions import NO_TRANSACTIONS, AppliedTransactions
from log_format.topic.archive import NO_ARCHIVE, Archive, archive_after, is_archived
from log_format.topic.attachment import Attachment, LastMove, parse_attachment, parse_last_move
from log_format.topic.config import PROPERTY_PREFIX, TopicConfig
from log_format.topic.erasures import Erasure, parse_erasures
from log_format.topic.partition_offsets import KINDS, Offsets, frozen, offsets_after, zeros
from log_format.topic.pins import Pin, parse_pins
from log_format.topic.producers import NO_PRODUCERS, Producers
from log_format.topic.segment_tags import decode_segment_add
from log_format.topic.stamped_requests import producers_after
from log_format.topic.table_columns import parse_typed_columns

PARTITION_COUNT_PROPERTY: Final = PROPERTY_PREFIX + "partition.count"
DELETED_PROPERTY: Final = PROPERTY_PREFIX + "deleted"
TAG_REPAIRED: Final = "tidelog.repaired"
"""Tag of a commit (``commitInfo.tags``) behind a damaged part of the log: the checkpoint of its version has what is left."""
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """One topic at one version. Immutable except for ``manifest``, which later states share."""

    topic: str
    version: int
    """Version of the newest commit applied; ``NO_LOG`` without one."""
    topic_id: str | None
    """Id of the incarnation; None if the topic was never created, or was deleted."""
    partition_count: int
    config: TopicConfig
    created_at_ms: int
    modification_time_ms: int
    """Largest modification time of all segments. The next segment gets a larger one, so that readers by time keep the order."""
    next_offsets: Offsets
    log_starts: Offsets
    keys_compacted: Offsets
    """Partition -> the offset below which key compaction may have left gaps."""
    erased_ends: Offsets
    """Partition -> the offset below which erasures may have changed records."""
    manifest: Manifest
    producers: Producers
    segment_count: int = 0  # at this version; the manifest may be that of a later one
    transactions: AppliedTransactions = NO_TRANSACTIONS
    attachment: Attachment | None = None
    """Journal that the topic's appends go to; None if the topic has its own commits."""
    last_move: LastMove | None = None
    """When and why the topic was moved to its place; None if it has been there since its creation."""
    moved_version: int = field(default=NO_LOG, compare=False)
    """Version of the last change of place or number; after loading a checkpoint, which does not say it, the checkpoint's."""
    columns: TypedColumns = NO_TYPED_COLUMNS
    """Typed columns of the table."""
    is_guarded: bool = False
    """Whether the table's protocol keeps other writers away."""
    has_table_feature: bool = False
    """Whether the table's protocol keeps away releases that do not know archives, erasures and pins."""
    erasures: tuple[Erasure, ...] = ()
    """Requests to erase, in the order in which they came, until nothing of what they erased is in the store."""
    pins: tuple[Pin, ...] = ()
    """Versions that stay readable, by name."""
    archive: Archive = NO_ARCHIVE
    """The segments that are in the table, but not in the log."""
    foreign: ForeignWrites = NOTHING_FOREIGN
    """Writes by other writers that are not put back yet."""
    undrained_count: int = 0
    """Number of records that only the topic's journal has (0 in the state of its own log)."""
    undrained_since_ms: int | None = None
    """Time not after the commit of the first of these records."""

    @classmethod
    def absent(cls, topic: str, version: int = NO_LOG) -> TopicState:
        """Return the state of a topic that does not exist, in a log that ends at ``version``."""
        return cls(
            topic=topic,
            version=version,
            topic_id=None,
            partition_count=0,
            config=TopicConfig(MappingProxyType({})),
            created_at_ms=0,
            modification_time_ms=0,
            next_offsets=zeros(0),
            log_starts=zeros(0),
            keys_compacted=zeros(0),
            erased_ends=zeros(0),
            manifest=Manifest(),
            producers=NO_PRODUCERS,
        )

    @property
    def exists(self) -> bool:
        """Whether the topic exists."""
        return self.topic_id is not None

    @property
    def existing_id(self) -> str:
        """Id of a topic that exists. Raises ``UnknownTopic`` for another."""
        if self.topic_id is None:
            raise UnknownTopic(self.topic)
        return self.topic_id

    def incarnation_error(self, topic_id: str | None) -> UnknownTopic | TopicReplaced | None:
        """Return the error to raise if this is not the incarnation ``topic_id``, else None."""
        if self.topic_id is None:
            return UnknownTopic(self.topic)
        return None if self.topic_id == topic_id else TopicReplaced.by(self.topic, self.topic_id)

    def high_watermark(self, partition: int) -> int:
        """Return the partition's next offset; all records below it are visible."""
        return int(self.next_offsets[partition])

    def log_start(self, partition: int) -> int:
        """Return the first readable offset."""
        return int(self.log_starts[partition])

    def table_end(self, partition: int) -> int:
        """Return the offset below which records in memory count only if the table still has them: compaction and erasures."""
        return max(int(self.keys_compacted[partition]), int(self.erased_ends[partition]))

    def check_gap(self, partition: int, offset: int, end: int) -> None:
        """Raise ``CorruptData`` if a reader that finds no run for ``[offset, end)`` would skip acknowledged records.

        A gap is allowed only below the log start (retention), and where key compaction or a repair may have left one.
        """
        if offset >= end:
            return
        first = max(offset, int(self.log_starts[partition]), int(self.keys_compacted[partition]))
        if first < end:
            raise CorruptData(
                f"The table of topic {self.topic!r} has no records at offsets [{first}, {end}) of partition {partition}, and "
                f"nothing removed them: 'tidelog verify {self.topic}' tells more.",
                topic=self.topic,
                partition=partition,
                table_version=self.version,
            )

    def has_dead_segments(self) -> bool:
        """Return whether the table has removable segments without readable records. O(segments)."""
        return bool(self.manifest.segments_below({}, count_max=1))

    def apply(self, commit: Commit, version: int) -> Self:
        """Return the state after the commit. Call it once per commit, since all states share the manifest.

        Raises ``CorruptData`` if the commit breaks an invariant.
        """
        self._check_follows(commit, version)
        if commit.foreign is not None:
            return replace(self, version=version, foreign=self.foreign.after_foreign(commit.foreign, version))
        state = replace(self, version=version)
        if commit.protocol is not None:
            state = state.with_protocol(commit.protocol)
        if commit.metadata is not None:
            state = state._with_metadata(commit.metadata)
        foreign = self.foreign
        if not foreign.is_reverted:
            says_table = commit.protocol is not None and commit.metadata is not None
            state = replace(state, foreign=state.foreign.after_own(commit.paths, says_table=says_table))
        if not state.exists:
            return state
        offsets = state._offsets_after(commit.txns)
        next_offsets, log_starts = offsets["next_offsets"], offsets["log_starts"]
        newest, expected = state.modification_time_ms, state.next_offsets.copy()
        added = []
        archive, archived = state._archive_after(commit, log_starts, foreign.touched)
        for action in commit.adds:
            is_again = action.path in foreign.touched and self.manifest.has_all([plain_path(action.path)])
            if is_archived(action) or is_again:  # named again after a foreign commit that touched it
                continue
            segment, runs = decode_segment_add(action)
            for run in runs:
                state._check_partition(run.partition, segment.path)
                if action.data_change and run.base_offset != expected[run.partition]:
                    raise state._corrupt(
                        f"segment {segment.path} starts partition {run.partition} at offset {run.base_offset} "
                        f"instead of {expected[run.partition]}"
                    )
                expected[run.partition] = max(int(expected[run.partition]), run.end_offset)
            added.append((segment, runs))
            newest = max(newest, action.modification_time)
        state.manifest.replace([*archived, *(plain_path(action.path) for action in commit.removes)], added, log_starts)
        is_off = expected.tobytes() != next_offsets.tobytes()  # numpy's comparison takes 60 us with cold caches
        if is_off and (self.topic_id == state.topic_id or (expected > next_offsets).any()):  # a clone may end in a gap
            raise state._corrupt("the next offsets of its txn actions are not those of its segments")
        if log_starts is not state.log_starts:
            for partition in np.flatnonzero(log_starts != state.log_starts):
                state.manifest.trim(int(partition), int(log_starts[partition]))
        return replace(
            state,
            **offsets,
            modification_time_ms=newest,
            segment_count=state.manifest.segment_count(),
            archive=archive,
            producers=producers_after(commit, state.producers, state.config),
            transactions=state.transactions.after(commit),
        )

    def with_protocol(self, protocol: Protocol) -> Self:
        """Return the state with this protocol of the table."""
        return replace(self, is_guarded=protocol.is_guarded, has_table_feature=protocol.has_table_feature)

    def with_reconciled(
        self,
        metadata: MetaData,
        offsets: Mapping[str, int],
        modification_time_ms: int,
        producers: Producers,
        transactions: AppliedTransactions,
    ) -> Self:
        """Return the state from a checkpoint, without its manifest.

        Args:
            metadata: the checkpoint's metadata.
            offsets: appId -> version of each ``txn``.
            modification_time_ms: the largest of all segments.
            producers: memory of producers.
            transactions: memory of applied transactions.
        """
        state = self._with_metadata(metadata)
        if not state.exists:
            return state
        txns = tuple(Txn(app_id=app_id, version=version) for app_id, version in offsets.items())
        return replace(
            state,
            **state._offsets_after(txns),
            modification_time_ms=modification_time_ms,
            producers=producers,
            transactions=transactions,
            moved_version=state.version,
        )

    def _with_metadata(self, metadata: MetaData) -> Self:
        properties = metadata.configuration
        deleted = properties.get(DELETED_PROPERTY) == "true"
        changes: dict[str, Any] = {"config": TopicConfig.from_properties(properties)}
        changes["attachment"] = None if deleted else parse_attachment(self.topic, properties)
        if changes["attachment"] != self.attachment:
            changes["moved_version"] = self.version
        changes["last_move"] = parse_last_move(properties)
        changes["pins"] = () if deleted else parse_pins(self.topic, properties)
        changes["foreign"] = self.foreign.after_properties(properties)
        changes["columns"] = self._columns_of(metadata.schema_string)
        changes["erasures"] = () if deleted else parse_erasures(self.topic, properties)
        if deleted or metadata.id != self.topic_id:
            changes |= dict.fromkeys(KINDS.values(), zeros(0))
            changes |= {"manifest": Manifest(), "topic_id": None if deleted else metadata.id, "archive": NO_ARCHIVE}
            changes |= {"created_at_ms": metadata.created_time or 0, "segment_count": 0}
            changes |= {"producers": NO_PRODUCERS, "transactions": NO_TRANSACTIONS}
        count_text = properties.get(PARTITION_COUNT_PROPERTY, "")
        count = int(count_text) if _NUMBER.fullmatch(count_text) else 0
        old = 0 if "manifest" in changes else self.partition_count
        if not deleted and not max(1, old) <= count <= limits.PARTITION_COUNT_MAX:
            raise self._corrupt(f"its {PARTITION_COUNT_PROPERTY} is {count_text!r} after {old}")
        if count > old and not deleted:
            grown = zeros(count - old)
            for name in KINDS.values():
                known = changes.get(name, getattr(self, name))
                changes[name] = frozen(np.concatenate([known, grown])) if len(known) else grown
        return replace(self, partition_count=0 if deleted else count, **changes)

    def _archive_after(self, commit: Commit, starts: Offsets, touched: frozenset[str]) -> tuple[Archive, list[str]]:
        try:
            return archive_after(self.archive, commit, self.manifest, starts, self.version, touched=touched)
        except ValueError as problem:
            raise self._corrupt(str(problem)) from problem

    def _columns_of(self, schema: str) -> TypedColumns:
        try:
            return parse_typed_columns(schema)
        except ValueError as problem:
            raise self._corrupt(f"its schema can't be read: {problem}") from problem

    def _offsets_after(self, txns: tuple[Txn, ...]) -> dict[str, Any]:
        known = {name: getattr(self, name) for name in KINDS.values()}
        try:
            return offsets_after(known, txns, self.partition_count)
        except ValueError as problem:
            raise self._corrupt(str(problem)) from problem

    def _check_follows(self, commit: Commit, version: int) -> None:
        if version != self.version + 1:
            raise ValueError(f"commit {version} does not follow version {self.version}")
        if TAG_REPAIRED in commit.tags:
            raise self._corrupt(f"version {version} repairs it, but the checkpoint of that version is not there yet")

    def _check_partition(self, partition: int, where: str) -> None:
        if partition >= self.partition_count:
            raise self._corrupt(f"{where} names partition {partition} of {self.partition_count}")

    def _corrupt(self, what: str) -> CorruptData:
        return CorruptData(
            f"The log of topic {self.topic!r} is damaged at version {self.version}: {what}.",
            topic=self.topic,
            table_version=self.version,
        )
