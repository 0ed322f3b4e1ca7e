"""Maintaining one topic, one round: a checkpoint, retention, merges, key compaction; then the deletion of unneeded objects.

1. A plan is made from one version of the log, and each of its commits is validated again (``log_format.topic.rewrite``).
2. Each rewrite is a commit of its own. A killed round keeps what it has committed, and the next one goes on.
3. Key compactions of one partition are committed oldest segments first, and stop at one that was overtaken. So a tombstone is
   never dropped before the records that it deletes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from compaction import collection
from compaction.backfill import Backfill
from compaction.collection import Deletion, DeletionReason, plan_segments
from compaction.deletions import delete_all
from compaction.erasures import ErasureUpkeep
from compaction.key_plan import KeyCompaction, plan_key_compactions
from compaction.layout_upkeep import LayoutUpkeep
from compaction.log_cleanup import cleaned_below, plan_log
from compaction.manifest_upkeep import ManifestUpkeep
from compaction.merge_plan import RewriteReason, plan_merges
from compaction.pin_upkeep import PinUpkeep
from compaction.policy import Policy
from compaction.report import Reporter, Totals
from compaction.retention_upkeep import RetentionUpkeep
from compaction.rewrite import RewriteTask, TaskResult
from compaction.workers import Workers, task_batches
from log_format import layout, limits
from log_format.checkpoints import checkpoint
from log_format.checkpoints.restore_table import RestoreTable, needs_restore
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.delta.cleaned_log import note_cleaned
from log_format.delta.committer import Committer
from log_format.delta.fence import Fence, store_time_ms
from log_format.delta.table import NO_LOG
from log_format.errors import BackOff, log_outran_reader
from log_format.ids import NewId
from log_format.store import ObjectInfo, ObjectStore
from log_format.topic.deleted_files import NoteDeletedFiles, deletable_before
from log_format.topic.live_segments import LiveSegment, live_segments, removed_segments
from log_format.topic.rewrite import Rewrite, RewriteOutcome, UploadedFile
from log_format.topic.state import TopicState

PASSES_MAX: Final = 4
"""Most merge passes per round, tier by tier: each makes further merges possible."""

_NOTHING: Final[Mapping[int, int]] = MappingProxyType({})


class TopicUpkeep:
    """The maintenance of one topic, whose state is kept between rounds. Every call raises ``TidelogError`` or ``StoreError``."""

    def __init__(
        self,
        store: ObjectStore,
        topic: str,
        workers: Workers,
        *,
        clock: Clock,
        new_id: NewId,
        policy: Policy,
        report: Reporter,
        is_dry_run: bool = False,
    ) -> None:
        self.topic = topic
        self._store = store
        self._workers = workers
        self._clock = clock
        self._policy = policy
        self._report = report
        self._is_dry_run = is_dry_run
        self._log = TopicLog(store, topic, clock)
        self._committer = Committer(self._log, new_id=new_id, engine="tidelog-maintenance")
        self._backfill = Backfill(store, topic, report)
        self._pins = PinUpkeep(store, self._log, self._committer, report)
        self._erasures = ErasureUpkeep(
            *(store, topic, workers, self._committer), clock=clock, new_id=new_id, report=report, policy=policy
        )
        self._retention = RetentionUpkeep(store, self._log, self._committer, policy, report)
        self._layout = LayoutUpkeep(store, self._log, workers, self._committer, new_id, policy=policy, report=report)
        self._manifests = ManifestUpkeep(store, new_id, report)
        self._settled: tuple[int, int] | None = None
        """Version at which nothing was left to rewrite, and the time then."""

    @property
    def segment_count(self) -> int:
        """Number of segments when last seen: a measure of the topic's need of maintenance."""
        return self._log.state.manifest.segment_count()

    def count_waiting(self, totals: Totals) -> None:
        """Add to ``totals`` the flushed segments that were not merged yet when last seen."""
        for segment in self._log.state.manifest.segments():
            if segment.path.startswith(layout.SEGMENTS):
                totals.waiting_segments += 1
                totals.waiting_bytes += segment.size_bytes
        self._backfill.count(totals)
        self._pins.count(totals)

    def run(self, totals: Totals, *, collect: bool, strays: bool = False) -> None:
        """Run one round. ``collect``: also delete unneeded objects, by listings. ``strays``: also files that others left."""
        self._log.refresh()
        self._backfill.begin_round()
        state = self._restore_table()
        self._write_checkpoint(totals)  # first, so that the later steps replay little
        self._pins.run(is_dry_run=self._is_dry_run)
        if state.exists:
            self._retention.run(totals, is_dry_run=self._is_dry_run)
            self._erasures.run(self._log.state, self._look, totals, is_dry_run=self._is_dry_run)
            self._rewrite(totals)
            self._layout.run(totals, is_dry_run=self._is_dry_run)
            self._manifests.run(self._log.state, self._clock.now_ms(), is_dry_run=self._is_dry_run)
        if collect:
            self._collect(totals, [layout.STRAYS] if strays else [])

    def erase(self, totals: Totals) -> None:
        """Carry out requests to erase, and nothing else."""
        self._erasures.run(self._log.refresh(), self._look, totals, is_dry_run=self._is_dry_run)

    def _restore_table(self) -> TopicState:
        """Undo other programs' changes to the table, and keep them away from now on. Return the state afterwards."""
        state, told = self._log.state, self._log.state.foreign
        change = RestoreTable(self._store, self.topic)
        while needs_restore(state):
            if self._is_dry_run:
                self._report.event("would put back", topic=self.topic, files=len(state.foreign.touched))
                return state
            change.look(state, self._clock.now_ms())
            committed = self._committer.commit(change)
            state = committed.state
            if not committed.attempts:
                break
        if not told.is_reverted and state.foreign.is_reverted:
            self._report.event("put back", topic=self.topic, files=len(told.touched), foreign=str(told.last))
        return state

    def _rewrite(self, totals: Totals) -> None:
        """Merge while there is anything to merge; then compact keys."""
        state, now_ms = self._log.state, self._clock.now_ms()
        if self._settled is not None and self._settled[0] == state.version:
            waited_ms = now_ms - self._settled[1]
            if waited_ms < self._policy.idle_ms:
                return
        for _ in range(PASSES_MAX):
            if not self._merge(totals):
                break
        if "compact" in self._log.state.config.choice("cleanup.policy"):
            self._compact_keys(totals)
        self._settled = None if self._backfill.is_cut else (self._log.state.version, now_ms)

    def _merge(self, totals: Totals) -> bool:
        """Merge once; return whether anything was committed."""
        state, reconciled = self._look()
        config, live = state.config, live_segments(reconciled)
        self._backfill.look(state, live)
        merges = plan_merges(
            live,
            _log_starts(state),
            policy=self._policy,
            retention_ms=config.integer("retention.ms") if config.deletes_old else -1,
            now_ms=self._clock.now_ms(),
            typed=self._backfill.columns,
        )
        if not self._is_dry_run:
            merges = self._backfill.within_share(
                merges, lambda: self._policy.backfill_bytes_max * self._workers.parallelism
            )
        tasks = [self._task(number, merge.reason, merge.sources, state) for number, merge in enumerate(merges)]
        if self._is_dry_run:
            self._report_plan(tasks)
            return False
        committed = False
        for some in task_batches(tasks, self._workers):
            started_ms = self._clock.monotonic_ms()
            for done in self._workers.rewrite(self._backfill.still_wanted(some, self._log.state)):
                outcome = self._commit(state, tasks[done.number], done, started_ms, totals)
                committed = committed or outcome is RewriteOutcome.COMMITTED
            self._backfill.report()
        return committed

    def _compact_keys(self, totals: Totals) -> None:
        state, reconciled = self._look()
        config = state.config
        plans = plan_key_compactions(
            live_segments(reconciled),
            policy=self._policy,
            delete_retention_ms=config.integer("delete.retention.ms"),
            min_compaction_lag_ms=config.integer("min.compaction.lag.ms"),
            now_ms=self._clock.now_ms(),
        )
        for plan in plans:
            self._compact_partition(state, plan, totals)

    def _compact_partition(self, state: TopicState, plan: KeyCompaction, totals: Totals) -> None:
        tasks = [
            self._task(number, RewriteReason.KEYS, group.sources, state, group.tombstones_go)
            for number, group in enumerate(plan.groups)
        ]
        if self._is_dry_run:
            self._report_plan(tasks)
            return
        # From the first commit on, since records that supersede its own may be in segments that are committed later.
        compacted = {plan.partition: tasks[-1].end_offset}
        with self._workers.compact_keys(tasks) as compact:
            for some in task_batches(tasks, self._workers):
                started_ms = self._clock.monotonic_ms()
                for done in sorted(compact(some), key=lambda each: each.number):
                    outcome = self._commit(
                        state, tasks[done.number], done, started_ms, totals, keys_compacted=compacted
                    )
                    if outcome is not RewriteOutcome.COMMITTED:
                        return

    def _task(
        self,
        number: int,
        reason: RewriteReason,
        sources: Sequence[LiveSegment],
        state: TopicState,
        tombstones_go: tuple[bool, ...] = (),
    ) -> RewriteTask:
        partitions = {run.partition for source in sources for run in source.runs}
        keeps_all = state.config.table_retention.keeps_archive
        return RewriteTask(
            number=number,
            topic=self.topic,
            reason=reason,
            sources=tuple(sources),
            log_starts={} if keeps_all else {partition: state.log_start(partition) for partition in partitions},
            compression=state.config.choice("compression.type"),
            columns=state.columns,
            subjects=self._backfill.subjects,
            now_ms=self._clock.now_ms(),
            tombstones_go=tombstones_go,
        )

    def _commit(
        self,
        state: TopicState,
        task: RewriteTask,
        done: TaskResult,
        started_ms: int,
        totals: Totals,
        *,
        keys_compacted: Mapping[int, int] = _NOTHING,
    ) -> RewriteOutcome:
        """Replace the old segments by the new ones, if the old ones are still in the table."""
        if done.is_unchanged:
            return RewriteOutcome.COMMITTED
        change = Rewrite(
            topic_id=state.existing_id,
            sources=[source.segment for source in task.sources],
            source_record_count=task.record_count,
            added=done.added,
            uploaded=UploadedFile(done.added[0].segment.path, started_ms) if done.added else None,
            columns=done.columns,
            keys_compacted=keys_compacted,
        )
        try:
            outcome = self._committer.commit(change).result
        except BackOff as problem:
            # Other committers were faster each time: the next round tries again.
            self._report.event("rewrite not committed", topic=self.topic, problem=problem.detail)
            outcome = RewriteOutcome.OVERTAKEN
        sizes = {"segments_in": len(task.sources), "segments_out": len(done.added)}
        sizes["bytes_in"] = sum(source.segment.size_bytes for source in task.sources)
        sizes["bytes_out"] = sum(new.segment.size_bytes for new in done.added)
        self._report.event("rewrite", topic=self.topic, reason=task.reason.value, outcome=outcome.value, **sizes)
        if outcome is RewriteOutcome.COMMITTED:
            self._backfill.note_committed(task)
            totals.rewritten(**sizes)
        else:
            totals.overtaken += 1
        return outcome

    def _write_checkpoint(self, totals: Totals) -> None:
        state = self._log.state
        newest = checkpoint.last_checkpoint_version(self._store, self.topic)
        if self._is_dry_run or not checkpoint.is_checkpoint_due(state.version, newest, state.manifest.segment_count()):
            return
        checkpoint.write_checkpoint(self._store, self.topic, state.version, self._clock.now_ms())
        self._report.event("checkpoint", topic=self.topic, version=state.version)
        totals.checkpoints += 1

    def _collect(self, totals: Totals, more: Sequence[str]) -> None:
        """Delete unneeded segments, and the log's beginning. ``more``: prefixes of other files to look at."""
        root = layout.topic_root(self.topic)
        before = self._log.refresh().version
        # Listed before the log is read, so that the log names the segments committed meanwhile.
        stored = [info for below in (layout.SEGMENTS, layout.COMPACTED) for info in self._store.list(f"{root}{below}")]
        stored += [
            info for below in more for info in self._store.list(f"{root}{below}") if collection.is_stray(info.key, root)
        ]
        if before == NO_LOG:
            return
        segments = self._find_unneeded(stored)
        config, now_ms = self._log.state.config, self._clock.now_ms()
        if any(deletion.why is DeletionReason.ORPHAN for deletion in segments):
            notes = list(self._store.list(layout.cloning_prefix(self.topic)))
            if not self._is_dry_run:
                fenced = self._committer.commit(Fence(version=before)).state.version
                segments = self._find_unneeded(stored, store_time_ms(self._store, root, fenced))
            segments = collection.spare_copies(segments, notes, now_ms=now_ms)
        commits = plan_log(
            self._store.list(layout.log_prefix(self.topic)),
            retention_ms=self._erasures.files.log_kept_ms(self._log.state, config.integer("deleted.file.retention.ms")),
            commits_kept=config.integer("commit.retention.count"),
            kept_ms=config.integer("commit.retention.ms"),
            now_ms=now_ms,
            is_loadable=partial(checkpoint.is_loadable, self._store, root),
            pinned={pin.version for pin in self._log.state.pins},
        )
        below = cleaned_below(commits)
        if below and not self._is_dry_run:
            note_cleaned(self._store, root, below)
        for deletions in (segments, commits):
            delete_all(
                self._store,
                deletions,
                report=self._report,
                totals=totals,
                at_once=self._policy.deletes_at_once,
                is_dry_run=self._is_dry_run,
            )
        self._manifests.collect(self._log.state, now_ms, is_dry_run=self._is_dry_run)
        if self._log.state.erasures and not self._is_dry_run:
            self._erasures.files.forget(self._look)

    def _find_unneeded(self, stored: Sequence[ObjectInfo], store_ms: int | None = None) -> list[Deletion]:
        """Return stored segments that the table does not need at its head. ``store_ms``: the store's time, if known."""
        state, reconciled = self._look()
        retention_ms = state.config.integer("deleted.file.retention.ms")
        now_ms = self._clock.now_ms()
        live = {live.segment.path for live in live_segments(reconciled)} | self._retention.archived_paths(state)
        removed = {removed.path: removed.removed_at_ms for removed in removed_segments(reconciled)}
        pinned = self._erasures.files.still_pinned(state, self._pins.paths(state) - live, removed)
        removed_at_ms = {path: removed_ms for path, removed_ms in removed.items() if path not in pinned}
        deletable_before_ms = deletable_before(
            removed_at_ms.values(),
            retention_ms=retention_ms,
            files_kept=state.config.integer("deleted.file.retention.count"),
            kept_ms=state.config.integer("commit.retention.ms"),
            now_ms=now_ms,
        )
        deletable_before_ms = max(deletable_before_ms, self._erasures.files.deletable_before_ms(state))
        if deletable_before_ms > now_ms - retention_ms:
            self._note_deleted(stored, removed_at_ms, deletable_before_ms)
        self._pins.note_held_back(stored, layout.topic_root(self.topic), pinned, live)
        return plan_segments(
            stored,
            layout.topic_root(self.topic),
            live=pinned | live,
            removed_at_ms=removed_at_ms,
            deletable_before_ms=deletable_before_ms,
            now_ms=now_ms if store_ms is None else min(now_ms, store_ms),
        )

    def _note_deleted(
        self, stored: Sequence[ObjectInfo], removed_at_ms: Mapping[str, int], deletable_before_ms: int
    ) -> None:
        """Let checkpoints drop the tombstones of files deleted by count. Those of files deleted by age are dropped by age."""
        root = layout.topic_root(self.topic)
        before_ms = collection.all_deleted_before(
            stored, root, removed_at_ms=removed_at_ms, deletable_before_ms=deletable_before_ms
        )
        if not self._is_dry_run and any(removed_ms < before_ms for removed_ms in removed_at_ms.values()):
            self._committer.commit(NoteDeletedFiles(before_ms=before_ms))

    def _look(self) -> tuple[TopicState, pa.Table]:
        """Return the head, as a state and as a reconciled log."""
        for _ in range(limits.LOAD_ATTEMPTS_MAX):
            state = self._log.refresh()
            reconciled = checkpoint.reconcile_log(self._store, self.topic, state.version, self._clock.now_ms())
            if reconciled is not None:
                return state, reconciled
        raise log_outran_reader(self.topic)

    def _report_plan(self, tasks: Sequence[RewriteTask]) -> None:
        for task in tasks:
            self._report.event(
                "would rewrite",
                topic=self.topic,
                reason=task.reason.value,
                segments=len(task.sources),
                bytes=sum(source.segment.size_bytes for source in task.sources),
                first=task.sources[0].segment.path,
            )


def _log_starts(state: TopicState) -> Mapping[int, int]:
    """Return the offsets below which records need not stay in the table."""
    if state.config.table_retention.keeps_archive:
        return {}
    return {partition: state.log_start(partition) for partition in range(state.partition_count)}
