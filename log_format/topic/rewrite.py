"""Replacing segments by new ones with the same records, or with the records of them that are to stay.

A rewrite takes a while, and others commit meanwhile, so the change is validated against the log's head. The topic must still be
the same incarnation, and every source must still be in the table; otherwise nothing is committed. So a concurrent deletion of
records, retention, deletion of the topic or other rewrite always wins. Records that were deleted below a log start meanwhile do
not come back.

Where the new segments have typed columns that the table lacks, the commit widens it.

When every record stays, removes and adds have ``dataChange`` false, so no stream notices. Otherwise ``dataChange`` is true in the
removes (readers ignore these with ``ignoreDeletes``), but never in the adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from log_format.delta.actions import Txn
from log_format.delta.change import Proposal
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypeConflict, TypedColumns
from log_format.segments.column_statistics import NO_STATISTICS, ColumnStatistics
from log_format.segments.key_filters import KeyFilters
from log_format.segments.run import Run, SegmentRef
from log_format.topic.changes import columns_actions
from log_format.topic.partition_offsets import KEYS_COMPACTED_APP_ID
from log_format.topic.segment_tags import Layout, Rewritten, add_segment, remove_segment
from log_format.topic.state import TopicState


class RewriteOutcome(StrEnum):
    """The outcome of a rewrite."""

    COMMITTED = "committed"
    OVERTAKEN = "overtaken"
    """A source or the topic is gone, so the new segments are orphans."""
    TOO_OLD = "too old"
    """The uploads are so old that maintenance might delete the new segments as orphans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSegment:
    """A segment in the store before its commit, of one partition unless it is laid out.

    ``modification_time_ms``: the largest one of its sources.
    """

    segment: SegmentRef
    run: Run
    modification_time_ms: int
    rewritten: Rewritten
    columns: ColumnStatistics = NO_STATISTICS
    filters: KeyFilters | None = None
    other_runs: tuple[Run, ...] = ()
    """Further runs, of a file of the archive that is laid out."""
    layout: Layout | None = None
    """Order of the records in such a file."""


class UploadedFile:
    """The uploads of a rewrite, for the committer: when the first one began, and whether that is too long ago."""

    def __init__(self, path: str, uploaded_at_ms: int) -> None:
        self.path = path
        self.uploaded_at_ms: int | None = uploaded_at_ms
        self.is_too_old = False

    @property
    def data(self) -> bytes:
        """Not available: the segments are in the store already, so the committer never reads this."""
        raise AssertionError("a rewritten segment is uploaded before it is proposed")


_NOTHING: Final[Mapping[int, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A change that replaces ``sources`` by ``added``, which hold the sources' records from the log starts on.

    Args:
        topic_id: incarnation of the topic.
        sources: segments to replace.
        source_record_count: records in the sources, including those below a log start.
        added: the new segments.
        uploaded: uploads of ``added``; None if that is empty.
        columns: typed columns of ``added``.
        keys_compacted: partition -> offset below which all records lie that supersede the records left out of ``added``. The log
            declares each gap in ``added`` anyway: a segment with gaps may be merged with one behind it that has none.
        changes_records: whether ``added`` has other contents of the records than the sources, so that streams are to notice.
    """

    topic_id: str
    sources: Sequence[SegmentRef]
    source_record_count: int
    added: Sequence[NewSegment]
    uploaded: UploadedFile | None
    columns: TypedColumns = NO_TYPED_COLUMNS
    keys_compacted: Mapping[int, int] = field(default_factory=lambda: _NOTHING)
    changes_records: bool = False

    def propose(self, state: TopicState, now_ms: int) -> Proposal[RewriteOutcome]:
        """Propose removes, adds, and ``txn`` of compacted keys; no actions if it is too late. Never raises."""
        if self.uploaded is not None and self.uploaded.is_too_old:
            return Proposal(operation="OPTIMIZE", actions=(), result=RewriteOutcome.TOO_OLD)
        if state.topic_id != self.topic_id or not self._fits(state):
            return Proposal(operation="OPTIMIZE", actions=(), result=RewriteOutcome.OVERTAKEN)
        try:
            columns = state.columns.merged_with(self.columns)
        except TypeConflict:
            return Proposal(operation="OPTIMIZE", actions=(), result=RewriteOutcome.OVERTAKEN)
        keeps_all = state.config.table_retention.keeps_archive
        kept = [new for new in self.added if keeps_all or new.run.end_offset > state.log_start(new.run.partition)]
        loses = self.changes_records or sum(new.run.record_count for new in kept) != self.source_record_count
        actions = columns_actions(state, columns)
        actions += [remove_segment(source, deletion_timestamp_ms=now_ms, data_change=loses) for source in self.sources]
        actions += [
            add_segment(
                new.segment,
                [new.run],
                modification_time_ms=new.modification_time_ms,
                data_change=False,
                rewritten=new.rewritten,
                columns=new.columns,
                filters=new.filters,
            )
            for new in kept
        ]
        actions += [
            Txn(app_id=f"{KEYS_COMPACTED_APP_ID}{partition}", version=offset, last_updated=now_ms)
            for partition, offset in self._gaps_below(kept).items()
            if offset > state.keys_compacted[partition]
        ]
        return Proposal(
            operation="OPTIMIZE",
            actions=actions,
            result=RewriteOutcome.COMMITTED,
            segment=self.uploaded if kept else None,
        )

    def _gaps_below(self, kept: Iterable[NewSegment]) -> dict[int, int]:
        """Return, by partition, the offset below which the log is to say that records may be missing."""
        below = dict(self.keys_compacted)
        for run in (new.run for new in kept):
            if run.record_count != run.end_offset - run.base_offset:
                below[run.partition] = max(run.end_offset, below.get(run.partition, 0))
        return below

    def _fits(self, state: TopicState) -> bool:
        """Return whether all sources are in the table, and no other segment has offsets between theirs."""
        sources = {source.path for source in self.sources}
        return state.manifest.has_all(sources) and all(
            state.manifest.paths_within(new.run.partition, new.run.base_offset, new.run.end_offset) <= sources
            for new in self.added
        )
