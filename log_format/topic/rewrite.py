"""Replacing segments by others that hold the same records, or those of them that are to stay.

A rewrite takes a while beside all other writers, so the change is validated against the head: the
incarnation must be the same and every source must still be in the table, else nothing is done. So a deletion of records,
retention, the topic's deletion or another rewrite always wins. What was deleted below a log start meanwhile is not brought back.

When every record stays, removes and adds have ``dataChange`` false: no stream notices. When some do not, the removes have it
true (readers ignore them with ``ignoreDeletes``), the adds never.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from log_format.delta.actions import Action, Txn
from log_format.delta.change import Proposal
from log_format.segments.run import Run, SegmentRef
from log_format.topic.segment_tags import Rewritten, add_segment, remove_segment
from log_format.topic.state import KEYS_COMPACTED_APP_ID, TopicState


class RewriteOutcome(StrEnum):
    """What became of a rewrite."""

    COMMITTED = "committed"
    OVERTAKEN = "overtaken"
    """A source is gone, or the topic: the new segments are orphans."""
    TOO_OLD = "too old"
    """They were uploaded so long ago that a collector of orphans might take them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSegment:
    """A segment of one partition that was put into the store. ``modification_time_ms``: the largest of its sources."""

    segment: SegmentRef
    run: Run
    modification_time_ms: int
    rewritten: Rewritten


class Uploaded:
    """The new segments as the committer sees them: when the first upload began, and whether that is too long ago."""

    def __init__(self, path: str, uploaded_at_ms: int) -> None:
        self.path = path
        self.uploaded_at_ms: int | None = uploaded_at_ms
        self.is_too_old = False

    @property
    def data(self) -> bytes:
        """Never asked for: they are in the store."""
        raise AssertionError("a rewritten segment is uploaded before it is proposed")


_NOTHING: Final[Mapping[int, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Replace ``sources`` by ``added``, which hold their records from the log starts on.

    ``source_record_count`` is how many records the sources have, those below a log start included. ``keys_compacted``:
    partition -> the offset below which lies all that superseded what ``added`` lacks. ``uploaded`` is of the ``added``; None
    when there are none.
    """

    topic_id: str
    sources: Sequence[SegmentRef]
    source_record_count: int
    added: Sequence[NewSegment]
    uploaded: Uploaded | None
    keys_compacted: Mapping[int, int] = field(default_factory=lambda: _NOTHING)

    def propose(self, state: TopicState, now_ms: int) -> Proposal[RewriteOutcome]:
        """Removes, adds, and ``txn`` of compacted keys; no actions when it can't be done any more. Never raises."""
        if self.uploaded is not None and self.uploaded.is_too_old:
            return Proposal(operation="OPTIMIZE", actions=(), result=RewriteOutcome.TOO_OLD)
        if state.topic_id != self.topic_id or not self._fits(state):
            return Proposal(operation="OPTIMIZE", actions=(), result=RewriteOutcome.OVERTAKEN)
        kept = [new for new in self.added if new.run.end_offset > state.log_start(new.run.partition)]
        loses = sum(new.run.record_count for new in kept) != self.source_record_count
        actions: list[Action] = [
            remove_segment(source, deletion_timestamp_ms=now_ms, data_change=loses) for source in self.sources
        ]
        actions += [
            add_segment(
                new.segment,
                [new.run],
                modification_time_ms=new.modification_time_ms,
                data_change=False,
                rewritten=new.rewritten,
            )
            for new in kept
        ]
        actions += [
            Txn(app_id=f"{KEYS_COMPACTED_APP_ID}{partition}", version=offset, last_updated=now_ms)
            for partition, offset in self.keys_compacted.items()
            if offset > state.keys_compacted[partition]
        ]
        return Proposal(
            operation="OPTIMIZE",
            actions=actions,
            result=RewriteOutcome.COMMITTED,
            segment=self.uploaded if kept else None,
        )

    def _fits(self, state: TopicState) -> bool:
        """Whether the sources are all there, and no other segment has offsets between theirs."""
        sources = {source.path for source in self.sources}
        return state.manifest.has_all(sources) and all(
            state.manifest.paths_within(new.run.partition, new.run.base_offset, new.run.end_offset) <= sources
            for new in self.added
        )
