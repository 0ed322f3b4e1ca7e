"""Carrying out a topic's requests to erase (docs/decisions/108-erasure.md): rewrites.

1. All open requests share one pass over the segments that have records of before them, of which filters rule out most.
2. A request is done only when each such segment at the head was read and had nothing of it. Other rewrites that are committed
   meanwhile are read again in the same round.
3. What left the table until then is deleted later (``erased_files``).

A killed round keeps what it has committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from compaction.archive_erasures import ArchiveErasures, Erased, segment_batches
from compaction.erased_files import ErasedFiles, Look
from compaction.filtered_segments import FilteredSegments, Reads, Suspect
from compaction.merge_plan import RewriteReason
from compaction.policy import Policy
from compaction.report import Reporter, Totals
from compaction.rewrite import RewriteTask, TaskResult
from compaction.workers import Workers
from log_format.checkpoints import checkpoint
from log_format.checkpoints.erasure_notes import note_request
from log_format.clock import Clock
from log_format.cluster.identity import load_cluster
from log_format.delta.committer import Committer
from log_format.ids import NewId
from log_format.store import ObjectStore
from log_format.topic.archiving import RewriteArchived
from log_format.topic.erasure_changes import EraseSegments, FinishErasures
from log_format.topic.erasures import Erasure, note_key, notes_prefix
from log_format.topic.live_segments import LiveSegment, live_segments
from log_format.topic.rewrite import Rewrite, RewriteOutcome, UploadedFile
from log_format.topic.state import TopicState

PASSES_MAX: Final = 8
"""Most passes of a round: each reads what others committed during the one before."""


class _Pass(NamedTuple):
    """One pass: the state that it was planned at, the requests, the cluster's key, what to count, and filters of segments."""

    state: TopicState
    wanted: Sequence[Erasure]
    secret: bytes
    totals: Totals
    filtered: FilteredSegments
    reads: Reads


class ErasureUpkeep:
    """The requests of one topic. Every call raises ``TidelogError`` or ``StoreError``."""

    def __init__(
        self,
        store: ObjectStore,
        topic: str,
        workers: Workers,
        committer: Committer[TopicState],
        *,
        clock: Clock,
        new_id: NewId,
        report: Reporter,
        policy: Policy,
    ) -> None:
        self._store = store
        self._topic = topic
        self._workers = workers
        self._committer = committer
        self._reads_at_once = policy.reads_at_once
        self._clock = clock
        self._new_id = new_id
        self._report = report
        self.files = ErasedFiles(store, topic, committer, clock=clock, new_id=new_id, report=report)

    def run(self, state: TopicState, look: Look, totals: Totals, *, is_dry_run: bool) -> None:
        """Carry out the requests that are open at ``state``."""
        wanted = [one for one in state.erasures if not one.is_rewritten]
        if is_dry_run or not state.erasures:
            for one in wanted:
                self._report.event("would erase", topic=self._topic, erasure=one.erasure_id)
            return
        if wanted:
            self._note(state, wanted)
            self.files.erase_delayed(state, wanted)
            self._carry_out(wanted, look, totals)
        self._cover_log(look)

    def _note(self, state: TopicState, wanted: Iterable[Erasure]) -> None:
        """Put the notes that gateways could not put any more."""
        noted = {info.key for info in self._store.list(notes_prefix(self._topic))}
        for one in wanted:
            if note_key(self._topic, one.erasure_id) not in noted:
                note_request(self._store, self._topic, state.existing_id, one)

    def _carry_out(self, wanted: Sequence[Erasure], look: Look, totals: Totals) -> None:
        secret = load_cluster(self._store, self._new_id).producer_key
        clean: set[str] = set()
        has_stats = any(one.where is not None for one in wanted)
        archive, reads = ArchiveErasures(self._store, self._topic, has_stats=has_stats), Reads()
        filtered = FilteredSegments(self._store, self._topic, wanted, secret, at_once=self._reads_at_once)
        names = [one.erasure_id for one in wanted]
        for _ in range(PASSES_MAX):
            state, reconciled = look()
            if state.topic_id is None:
                return
            round_ = _Pass(state, wanted, secret, totals, filtered, reads)
            archive_version: int | None = state.archive.version
            if state.archive.segment_count:
                archive_version = archive.run(state, self._clock.now_ms(), partial(self._erase, round_))
                before = state.archive
                state, reconciled = look()
                if state.archive != before:  # gateways leave its rows to maintenance
                    self._put_checkpoint(state)
            left = [
                live
                for live in live_segments(reconciled, has_stats=has_stats)
                if live.segment.path not in clean
                and any(one.concerns(run.partition, run.base_offset) for one in wanted for run in live.runs)
            ]
            for some in segment_batches(left):
                clean |= self._erase(round_, some).clean
            if archive_version is not None and all(live.segment.path in clean for live in left):
                finish = FinishErasures(
                    topic_id=state.existing_id, erasure_ids=names, clean=clean, archive_version=archive_version
                )
                if self._committer.commit(finish).result:
                    self._report.event("erased", topic=self._topic, erasures=len(names), **reads.as_dict())
                    return
        self._report.event("erasing goes on", topic=self._topic, erasures=len(names), **reads.as_dict())

    def _erase(self, round_: _Pass, some: Sequence[LiveSegment], archive_version: int | None = None) -> Erased:
        """Erase in these segments, in one commit. ``archive_version``: that of the archive in which they are; None: they are in
        the log."""
        started_ms = self._clock.monotonic_ms()
        is_archived = archive_version is not None
        suspects = round_.filtered.suspects(some, round_.reads, round_.state.columns)
        tasks = [self._task(number, one, round_, is_archived=is_archived) for number, one in enumerate(suspects)]
        results = list(self._workers.rewrite(tasks)) if tasks else []
        clean = {one.segment.path for one in some}
        for done in results:
            suspect = suspects[done.number]
            if not done.is_unchanged or suspect.row_groups is None:
                round_.reads.whole_segment(suspect.live.segment.size_bytes)
            if not done.is_unchanged:
                clean.discard(suspect.live.segment.path)
        changed = [one for one in results if not one.is_unchanged]
        if not changed:
            return Erased(clean, archive_version)
        change = self._change(round_.state, tasks, changed, started_ms, archive_version)
        committed = self._committer.commit(change)
        added = [new.segment for one in changed for new in one.added]
        sizes = {"segments_in": len(changed), "segments_out": len(added), "bytes_in": change.size_bytes}
        sizes["bytes_out"] = sum(segment.size_bytes for segment in added)
        self._report.event("erase", topic=self._topic, outcome=committed.result.value, **sizes)
        if committed.result is not RewriteOutcome.COMMITTED:
            round_.totals.overtaken += 1
            return Erased(clean, None)
        round_.totals.rewritten(**sizes)
        clean |= {segment.path for segment in added}
        return Erased(clean, committed.state.archive.version if is_archived else None)

    def _task(self, number: int, suspect: Suspect, round_: _Pass, *, is_archived: bool) -> RewriteTask:
        state, live = round_.state, suspect.live
        partitions = {run.partition for run in live.runs}
        keeps_all = is_archived or state.config.table_retention.keeps_archive
        return RewriteTask(
            number=number,
            topic=self._topic,
            reason=RewriteReason.ERASE,
            sources=(live,),
            log_starts={} if keeps_all else {partition: state.log_start(partition) for partition in partitions},
            compression=state.config.choice("compression.type"),
            columns=state.columns,
            judged_by=state.config.subjects,
            now_ms=self._clock.now_ms(),
            erasures=tuple(round_.wanted),
            secret=round_.secret,
            row_groups=suspect.row_groups,
        )

    def _change(
        self,
        state: TopicState,
        tasks: Sequence[RewriteTask],
        results: Sequence[TaskResult],
        started_ms: int,
        archive_version: int | None,
    ) -> EraseSegments:
        """Return the change that replaces the sources of these results."""
        done = [tasks[one.number] for one in results]
        added = [new for one in results for new in one.added]
        counts: Counter[str] = Counter()
        for one in results:
            counts.update(one.erased)
        ends: dict[int, int] = {}
        for run in (run for task in done for run in task.sources[0].runs):
            ends[run.partition] = max(run.end_offset, ends.get(run.partition, 0))
        has_gaps = any(one.keep == "nothing" and one.erasure_id in counts for one in state.erasures)
        sources = [task.sources[0].segment for task in done]
        uploaded = UploadedFile(added[0].segment.path, started_ms) if added else None
        rewrite: Rewrite | RewriteArchived
        if archive_version is None:
            rewrite = Rewrite(
                topic_id=state.existing_id,
                sources=sources,
                source_record_count=sum(task.record_count for task in done),
                added=added,
                uploaded=uploaded,
                keys_compacted=ends if has_gaps else {},
                changes_records=True,
            )
        else:
            rewrite = RewriteArchived(
                topic_id=state.existing_id,
                archive_version=archive_version,
                sources=sources,
                added=added,
                uploaded=uploaded,
                keys_compacted=ends if has_gaps else {},
            )
        size_bytes = sum(source.size_bytes for source in sources)
        return EraseSegments(rewrite=rewrite, counts=counts, partitions=set(ends), size_bytes=size_bytes)

    def _cover_log(self, look: Look) -> None:
        """Write a checkpoint behind finished requests, so that the log before may go, whose bounds of typed columns have what
        was erased."""
        state, _ = look()
        versions = [one.rewritten_version for one in state.erasures if one.rewritten_version is not None]
        newest = checkpoint.last_checkpoint_version(self._store, self._topic)
        if state.columns and versions and (newest is None or newest < max(versions)):
            self._put_checkpoint(state)

    def _put_checkpoint(self, state: TopicState) -> None:
        checkpoint.write_checkpoint(self._store, self._topic, state.version, self._clock.now_ms())
        self._report.event("checkpoint", topic=self._topic, version=state.version)
