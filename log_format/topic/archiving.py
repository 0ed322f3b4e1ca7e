"""Changes that move segments from a topic's log into its archive, and out of its table (``log_format.topic.archive``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from log_format import limits
from log_format.delta.actions import Action, Add
from log_format.delta.change import Proposal
from log_format.topic.archive import archived, remove_archived
from log_format.topic.changes import log_start_actions
from log_format.topic.retention import expired_offsets
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
        # Erasures read the segments of the log only, so archiving waits for them.
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
