"""The layout of a topic's archive: its files are rewritten, as ``layout_plan`` says, one commit for each rewrite.

A rewrite is validated by the archive's version, so it is void if another process has changed the archive meanwhile. Its new files
are orphans then, and also if this process dies before the commit. The last step is a checkpoint, which has the archive's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from compaction.layout_plan import PlannedLayout, WantedLayout, plan_layout
from compaction.layout_rewrite import LayoutTask, lay_out
from compaction.policy import Policy
from compaction.report import Reporter, Totals
from log_format.checkpoints import checkpoint
from log_format.checkpoints.archive_rows import read_archive
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.checkpoint_schema import SCHEMA
from log_format.delta.committer import Committer
from log_format.errors import BackOff, log_outran_reader
from log_format.ids import NewId
from log_format.store import ObjectStore
from log_format.topic.archiving import RewriteArchived
from log_format.topic.cluster_columns import cluster_columns
from log_format.topic.live_segments import LiveSegment, live_segments
from log_format.topic.rewrite import RewriteOutcome, UploadedFile
from log_format.topic.segment_tags import Layout
from log_format.topic.state import TopicState

ResultT = TypeVar("ResultT")


class LayoutUpkeep:
    """The layout of one topic's archive. Every call raises ``TidelogError`` or ``StoreError``."""

    def __init__(
        self,
        store: ObjectStore,
        log: TopicLog,
        committer: Committer[TopicState],
        new_id: NewId,
        *,
        policy: Policy,
        report: Reporter,
    ) -> None:
        self._store = store
        self._log = log
        self._committer = committer
        self._new_id = new_id
        self._policy = policy
        self._report = report
        self._settled: tuple[int, WantedLayout] | None = None
        """Version of the archive at which nothing was left to do, and what was wanted then."""

    def run(self, totals: Totals, *, is_dry_run: bool) -> None:
        """Rewrite files of the archive, at most ``Policy.layout_bytes_max`` or a single rewrite."""
        before = self._log.state.archive
        left_bytes = self._policy.layout_bytes_max
        while left_bytes > 0 and (planned := self._plan(self._log.state)):
            for plan in planned:
                if is_dry_run:
                    self._report.event(
                        "would lay out", topic=self._log.topic, segments=len(plan.paths), bytes=plan.size_bytes
                    )
                elif left_bytes > 0 and not self._rewrite(self._log.state, plan, totals):
                    left_bytes = 0
                left_bytes -= plan.size_bytes
            if is_dry_run:
                return
        state = self._log.state
        if state.archive != before and not is_dry_run:
            checkpoint.write_checkpoint(self._store, state.topic, state.version, self._log.clock.now_ms())
            self._report.event("checkpoint", topic=state.topic, version=state.version)
            totals.checkpoints += 1

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

    def _rewrite(self, state: TopicState, plan: PlannedLayout, totals: Totals) -> bool:
        """Rewrite some files; return whether they were replaced."""
        named = pa.array(plan.paths, pa.string())
        sources = self._read(state, lambda pieces: _segments(pieces, named))
        task = LayoutTask(
            topic=state.topic,
            sources=tuple(sources),
            layout=Layout(self._new_id(), plan.times, cluster_columns(state.config.choice("table.cluster.by"))),
            file_bytes=state.config.integer("table.file.bytes"),
            compression=state.config.choice("compression.type"),
            columns=state.columns,
        )
        started_ms = self._log.clock.monotonic_ms()
        try:
            added = lay_out(self._store, task, self._new_id)
        except OSError as problem:
            said = f"Files of topic {state.topic!r} can't be laid out: {problem}. TMPDIR names the directory that needs room."
            raise BackOff(said, topic=state.topic) from problem
        change = RewriteArchived(
            topic_id=state.existing_id,
            archive_version=state.archive.version,
            sources=[one.segment for one in sources],
            added=added,
            uploaded=UploadedFile(added[0].segment.path, started_ms),
            changes_records=False,
        )
        outcome = self._committer.commit(change).result
        counts = {
            "segments_in": len(sources),
            "segments_out": len(added),
            "bytes_in": sum(one.segment.size_bytes for one in sources),
            "bytes_out": sum(one.segment.size_bytes for one in added),
        }
        self._report.event("lay out", topic=state.topic, outcome=outcome.value, **counts)
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
