"""Changes to a topic's archive (``log_format.topic.archive``): segments come from its log, are rewritten, and leave its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from log_format import limits
from log_format.delta.actions import TAG_ARCHIVE, Action, Add, Txn
from log_format.delta.change import Proposal
from log_format.segments.run import SegmentRef
from log_format.topic.archive import archived, remove_archived
from log_format.topic.changes import log_start_actions
from log_format.topic.partition_offsets import KEYS_COMPACTED_APP_ID
from log_format.topic.retention import expired_offsets
from log_format.topic.rewrite import NewSegment, RewriteOutcome, UploadedFile
from log_format.topic.segment_tags import add_segment, remove_segment
from log_format.topic.state import TopicState
from log_format.topic.table_columns import protocol_of

_ROWS_BYTES_MAX = limits.COMMIT_BYTES_MAX // 4
"""Most bytes of statistics and tags in one commit."""


class ArchivedFile(NamedTuple):
    """A file of the archive: its path as in its ``add``, and its size in bytes."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivingResult:
    """The result of archiving: new log starts by partition, and how many segments were archived."""

    log_starts: dict[int, int]
    archived_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveExpired:
    """Retention of a topic that keeps its rows in the table: log starts move, and segments below them go into the archive.

    It does nothing if another incarnation has replaced ``topic_id``, or the topic keeps no archive any more.

    ``adds``: the present ``add`` of segments, by path; a segment without one stays for the next commit.
    """

    topic_id: str
    adds: Mapping[str, Add]
    segments_max: int = limits.REMOVES_PER_COMMIT_MAX

    def propose(self, state: TopicState, now_ms: int) -> Proposal[ArchivingResult]:
        """Propose log starts as ``txn``, and an ``add`` per archived segment. Never raises."""
        if state.topic_id != self.topic_id or not state.config.table_retention.keeps_archive:
            return Proposal(operation="RETENTION", actions=(), result=ArchivingResult(log_starts={}, archived_count=0))
        moved = expired_offsets(state, now_ms)
        starts, _, _ = log_start_actions(state, moved, now_ms, 0)
        adds: list[Action] = []
        size_bytes = 0
        # An erasure that looks for records in the log and in the archive must not miss a segment on its way.
        count_max = 0 if any(not one.is_rewritten for one in state.erasures) else self.segments_max
        for segment in state.manifest.segments_below(moved, count_max=count_max):
            add = self.adds.get(segment.path)
            if add is not None and size_bytes <= _ROWS_BYTES_MAX:
                adds.append(archived(add))
                size_bytes += len(add.stats or "") + sum(len(tag or "") for tag in (add.tags or {}).values())
        protocol: list[Action] = []
        if adds and not state.has_table_feature:
            protocol = [protocol_of(state.columns, has_table_feature=True)]
        return Proposal(
            operation="RETENTION",
            actions=[*protocol, *starts, *adds],
            result=ArchivingResult(log_starts=moved, archived_count=len(adds)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveArchived:
    """A change that removes files of the archive from the table. The result is whether it did, or had nothing to remove.

    It does nothing if the archive has changed since ``archive_version``, by which ``files`` were chosen, since a file could be
    removed twice; nor if another incarnation has replaced ``topic_id``.
    """

    topic_id: str
    archive_version: int
    files: Sequence[ArchivedFile]

    def propose(self, state: TopicState, now_ms: int) -> Proposal[bool]:
        """Propose a ``remove`` per file. Never raises."""
        if state.topic_id != self.topic_id or state.archive.version != self.archive_version:
            return Proposal(operation="RETENTION", actions=(), result=False)
        removes = [remove_archived(file.path, file.size_bytes, deletion_timestamp_ms=now_ms) for file in self.files]
        return Proposal(operation="RETENTION", actions=removes, result=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteArchived:
    """A change that replaces files of the archive by ones with the same records. The result is as of ``Rewrite``.

    It does nothing if the archive has changed since ``archive_version``, at which ``sources`` were in it, or another incarnation
    has replaced ``topic_id``.

    Args:
        topic_id: incarnation of the topic.
        archive_version: version of the archive.
        sources: files to replace.
        added: the new segments.
        uploaded: uploads of ``added``; None if that is empty.
        keys_compacted: as for ``Rewrite``.
        changes_records: whether ``added`` has other contents of the records, or fewer, so that streams are to notice.
    """

    topic_id: str
    archive_version: int
    sources: Sequence[SegmentRef]
    added: Sequence[NewSegment]
    uploaded: UploadedFile | None
    keys_compacted: Mapping[int, int] = field(default_factory=dict)
    changes_records: bool = True

    def propose(self, state: TopicState, now_ms: int) -> Proposal[RewriteOutcome]:
        """Propose a ``remove`` per source, an ``add`` per new segment, and ``txn`` of compacted keys. Never raises."""
        outcome = RewriteOutcome.COMMITTED
        if self.uploaded is not None and self.uploaded.is_too_old:
            outcome = RewriteOutcome.TOO_OLD
        elif state.topic_id != self.topic_id or state.archive.version != self.archive_version:
            outcome = RewriteOutcome.OVERTAKEN
        if outcome is not RewriteOutcome.COMMITTED:
            return Proposal(operation="OPTIMIZE", actions=(), result=outcome)
        loses = self.changes_records
        removes = [remove_segment(one, deletion_timestamp_ms=now_ms, data_change=loses) for one in self.sources]
        actions: list[Action] = [msgspec.structs.replace(one, tags={TAG_ARCHIVE: ""}) for one in removes]
        for new in self.added:
            add = add_segment(
                new.segment,
                [new.run, *new.other_runs],
                modification_time_ms=new.modification_time_ms,
                data_change=False,
                rewritten=new.rewritten,
                columns=new.columns,
                filters=new.filters,
                layout=new.layout,
            )
            actions.append(archived(add))
        actions += [
            Txn(app_id=f"{KEYS_COMPACTED_APP_ID}{partition}", version=offset, last_updated=now_ms)
            for partition, offset in self.keys_compacted.items()
            if offset > state.keys_compacted[partition]
        ]
        return Proposal(operation="OPTIMIZE", actions=actions, result=outcome, segment=self.uploaded)
