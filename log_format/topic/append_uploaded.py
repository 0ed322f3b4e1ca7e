"""Appending all records of a decided transaction in one commit, from segments that are already in the store (decision 081).

The segments contain the offsets of their records. So the commit is valid only while the topic's partitions are still at the
offsets that the segments were encoded for. Otherwise nothing is committed, and the caller encodes the outdated segments again.
All records become visible with the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from log_format.delta.actions import Action, Txn
from log_format.delta.change import Proposal
from log_format.errors import TidelogError
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypeConflict, TypedColumns
from log_format.segments.column_statistics import NO_STATISTICS, ColumnStatistics
from log_format.segments.run import Run, SegmentRef
from log_format.topic.append_outcome import AppendedRange, Duplicate
from log_format.topic.applied_transactions import TransactionStamp, tag_with_transactions, transaction_txns
from log_format.topic.attachment import TopicMoved
from log_format.topic.changes import columns_actions
from log_format.topic.config import UNTYPED, Subjects
from log_format.topic.rewrite import UploadedFile
from log_format.topic.segment_tags import add_segment
from log_format.topic.state import TopicState


class UploadedSegment(NamedTuple):
    """A segment in the store that no commit names yet. ``uploaded_at_ms``: when its upload began, on the monotonic clock.

    ``columns``: its typed columns, by the schemas of ``subjects``; ``statistics``: what is in them.
    """

    segment: SegmentRef
    runs: tuple[Run, ...]
    uploaded_at_ms: int
    columns: TypedColumns = NO_TYPED_COLUMNS
    statistics: ColumnStatistics = NO_STATISTICS
    subjects: Subjects = UNTYPED


class ReencodeReason(Enum):
    """Reason why the segments can't be committed as they are."""

    OVERTAKEN = "others appended to one of the partitions"
    OTHER_SCHEMAS = "the topic's schemas were changed"
    TOO_OLD = "maintenance might delete them as orphans"


AppendUploadedOutcome = tuple[AppendedRange, ...] | Duplicate | TidelogError | ReencodeReason


@dataclass(frozen=True, slots=True)
class AppendUploadedSegments:
    """A change that appends all records of a transaction to this topic. ``segments``: at least one, sorted by partition and
    offset."""

    topic_id: str
    transaction: TransactionStamp
    segments: Sequence[UploadedSegment]
    uploaded: UploadedFile

    @classmethod
    def from_segments(
        cls, topic_id: str, transaction: TransactionStamp, segments: Sequence[UploadedSegment]
    ) -> AppendUploadedSegments:
        """Return the change, with the age of its oldest segment as its own."""
        oldest = min(segments, key=lambda one: one.uploaded_at_ms)
        return cls(topic_id, transaction, segments, UploadedFile(oldest.segment.path, oldest.uploaded_at_ms))

    def propose(self, state: TopicState, now_ms: int) -> Proposal[AppendUploadedOutcome]:
        """Propose an ``add`` per segment, a ``txn`` per partition, and the transaction's name; no actions if refused. Never
        raises."""
        refusal = self._refusal(state)
        if refusal is not None:
            return Proposal(operation="WRITE", actions=(), result=refusal)
        offset_ranges = _merge_offset_ranges(self.segments)
        first_ms = max(now_ms, state.modification_time_ms + 1)
        adds = [
            add_segment(
                one.segment,
                one.runs,
                modification_time_ms=first_ms + number,
                data_change=True,
                columns=one.statistics,
            )
            for number, one in enumerate(self.segments)
        ]
        applied, floor = {self.transaction: offset_ranges}, state.transactions.floor
        ends = [
            Txn(app_id=str(one.partition), version=one.base_offset + one.count, last_updated=now_ms)
            for one in offset_ranges
        ]
        actions: list[Action] = [
            *columns_actions(state, self._columns(state)),
            tag_with_transactions(adds[0], applied, floor),
            *adds[1:],
            *ends,
            *transaction_txns(applied, floor, now_ms),
        ]
        return Proposal(operation="WRITE", actions=actions, result=offset_ranges, segment=self.uploaded)

    def _refusal(self, state: TopicState) -> Duplicate | TidelogError | ReencodeReason | None:
        other = state.incarnation_error(self.topic_id)
        if other is not None:
            return other
        if state.attachment is not None:
            return TopicMoved(state.topic)
        known = state.transactions.judge(self.transaction)
        if known is not None:
            return known
        if any(
            state.high_watermark(place.partition) != place.base_offset for place in _merge_offset_ranges(self.segments)
        ):
            return ReencodeReason.OVERTAKEN
        try:
            self._columns(state)
        except TypeConflict:
            return ReencodeReason.OTHER_SCHEMAS
        if any(one.subjects != state.config.subjects for one in self.segments):
            return ReencodeReason.OTHER_SCHEMAS
        return ReencodeReason.TOO_OLD if self.uploaded.is_too_old else None

    def _columns(self, state: TopicState) -> TypedColumns:
        """Return the typed columns of the table with the segments. Raises ``TypeConflict``."""
        columns = state.columns
        for one in self.segments:
            columns = columns.merged_with(one.columns)
        return columns


def _merge_offset_ranges(segments: Sequence[UploadedSegment]) -> tuple[AppendedRange, ...]:
    """Return one offset range per partition, sorted by partition. Runs of the same partition follow each other without a gap."""
    found: dict[int, AppendedRange] = {}
    for one in segments:
        for run in one.runs:
            before = found.get(run.partition, AppendedRange(run.partition, run.base_offset, 0))
            found[run.partition] = AppendedRange(run.partition, before.base_offset, before.count + run.record_count)
    return tuple(found[partition] for partition in sorted(found))
