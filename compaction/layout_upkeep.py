"""The layout of a topic's archive: its files are rewritten, as ``layout_plan`` says, one commit for each rewrite.

1. Each worker does one rewrite at a time. The results are committed one after another, here, whoever did the rewrites.
2. A commit is validated by the archive's version: that of the plan or, after another rewrite that was planned with it, that of
   the commit before. So it is void if another process has changed the archive meanwhile, and the rest with it.
3. New files without a commit are orphans: of a void one, of a process that died, of a worker's earlier attempt.

The last step is a checkpoint, which has the archive's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from compaction.layout_plan import PlannedLayout, WantedLayout, plan_layout
from compaction.layout_rewrite import LayoutTask
from compaction.policy import Policy
from compaction.report import Reporter, Totals
from compaction.workers import Workers
from log_format.checkpoints import checkpoint
from log_format.checkpoints.archive_rows import read_archive
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.actions import plain_path
from log_format.delta.checkpoint_schema import SCHEMA
from log_format.delta.committer import Committer
from log_format.errors import log_outran_reader
from log_format.ids import NewId
from log_format.store import ObjectStore
from log_format.topic.archiving import RewriteArchived
from log_format.topic.cluster_columns import cluster_columns
from log_format.topic.live_segments import LiveSegment, live_segments
from log_format.topic.rewrite import NewSegment, RewriteOutcome, UploadedFile
from log_format.topic.segment_tags import Layout
from log_format.topic.state import TopicState

ResultT = TypeVar("ResultT")


class LayoutUpkeep:
    """The layout of one topic's archive. Every call raises ``TidelogError`` or ``StoreError``."""

    def __init__(
        self,
        store: ObjectStore,
        log: TopicLog,
        workers: Workers,
        committer: Committer[TopicState],
        new_id: NewId,
        *,
        policy: Policy,
        report: Reporter,
    ) -> None:
        self._store = store
        self._log = log
        self._workers = workers
        self._committer = committer
        self._new_id = new_id
        self._policy = policy
        self._report = report
        self._settled: tuple[int, WantedLayout] | None = None
        """Version of the archive at which nothing was left to do, and what was wanted then."""

    def run(self, totals: Totals, *, is_dry_run: bool) -> None:
        """Rewrite files of the archive, at most ``Policy.layout_bytes_max`` or a single rewrite for each worker."""
        if is_dry_run:
            for plan in self._plan(self._log.state):
                sizes = {"segments": len(plan.paths), "bytes": plan.size_bytes}
                self._report.event("would lay out", topic=self._log.topic, **sizes)
            return
        before = self._log.state.archive
        self._lay_out(totals)
        state = self._log.state
        if state.archive != before:
            checkpoint.write_checkpoint(self._store, state.topic, state.version, self._log.clock.now_ms())
            self._report.event("checkpoint", topic=state.topic, version=state.version)
            totals.checkpoints += 1

    def _lay_out(self, totals: Totals) -> None:
        done_bytes = 0
        while planned := self._plan(self._log.state):
            at_once = self._workers.parallelism
            for first in range(0, len(planned), at_once):
                some = planned[first : first + at_once]
                if not self._rewrite(self._log.state, some, totals):
                    return
                done_bytes += sum(plan.size_bytes for plan in some)
                if done_bytes >= self._policy.layout_bytes_max * at_once:
                    return

    def _plan(self, state: TopicState) -> list[PlannedLayout]:
        if not state.exists or not state.archive.segment_count or not state.config.table_retention.keeps_archive:
            return []
        retention_ms = state.config.table_retention.retention_ms
        wanted = WantedLayout(
            columns=cluster_columns(state.config.choice("table.cluster.by")),
            file_bytes=state.config.integer("table.file.bytes"),
            span_ms=int(retention_ms * self._policy.span_per_retention)
            if retention_ms is not None and retention_ms >= 0
            else None,
        )
        if self._settled == (state.archive.version, wanted):
            return []
        planned = self._read(state, lambda pieces: plan_layout(pieces, wanted, self._policy))
        if not planned:
            self._settled = state.archive.version, wanted
        return planned

    def _rewrite(self, state: TopicState, plans: Sequence[PlannedLayout], totals: Totals) -> bool:
        """Do some rewrites in parallel; return whether all files were replaced."""
        tasks = self._tasks(state, plans)
        started_ms = self._log.clock.monotonic_ms()
        archive_version = state.archive.version
        for task, added in zip(tasks, self._workers.lay_out(tasks), strict=True):
            change = RewriteArchived(
                topic_id=state.existing_id,
                archive_version=archive_version,
                sources=[one.segment for one in task.sources],
                added=added,
                uploaded=UploadedFile(added[0].segment.path, started_ms),
                changes_records=False,
            )
            committed = self._committer.commit(change)
            if not self._count(task, added, committed.result, totals):
                return False
            archive_version = committed.state.archive.version
        return True

    def _tasks(self, state: TopicState, plans: Sequence[PlannedLayout]) -> list[LayoutTask]:
        owners = {plain_path(path): number for number, plan in enumerate(plans) for path in plan.paths}
        named = pa.array([path for plan in plans for path in plan.paths], pa.string())
        sources: list[list[LiveSegment]] = [[] for _ in plans]
        for one in self._read(state, lambda pieces: _segments(pieces, named)):
            sources[owners[one.segment.path]].append(one)
        columns = cluster_columns(state.config.choice("table.cluster.by"))
        return [
            LayoutTask(
                topic=state.topic,
                sources=tuple(files),
                layout=Layout(self._new_id(), plan.times, columns),
                file_bytes=state.config.integer("table.file.bytes"),
                compression=state.config.choice("compression.type"),
                columns=state.columns,
            )
            for plan, files in zip(plans, sources, strict=True)
        ]

    def _count(self, task: LayoutTask, added: Sequence[NewSegment], outcome: RewriteOutcome, totals: Totals) -> bool:
        """Report a rewrite; return whether it was committed."""
        counts = {
            "segments_in": len(task.sources),
            "segments_out": len(added),
            "bytes_in": sum(one.segment.size_bytes for one in task.sources),
            "bytes_out": sum(one.segment.size_bytes for one in added),
        }
        self._report.event("lay out", topic=task.topic, outcome=outcome.value, **counts)
        if outcome is not RewriteOutcome.COMMITTED:
            totals.overtaken += 1
            return False
        totals.rewritten(**counts)
        return True

    def _read(self, state: TopicState, take: Callable[[Iterator[pa.Table]], ResultT]) -> ResultT:
        found = read_archive(self._store, state.topic, state.version, self._log.clock.now_ms(), take)
        if found is None:
            raise log_outran_reader(state.topic)
        return found


def _segments(pieces: Iterator[pa.Table], paths: pa.Array) -> list[LiveSegment]:
    """Return the files with these paths."""
    found = [SCHEMA.empty_table()]
    for piece in pieces:
        adds = pc.struct_field(piece.column("add"), "path")
        found.append(piece.filter(pc.fill_null(pc.is_in(adds, paths), False)))
    return live_segments(pa.concat_tables(found))
