"""Carrying out a topic's requests to erase (docs/decisions/108-erasure.md): rewrites, then the end of every older object.

1. All open requests share one pass over the segments that have records of before them, of which filters rule out most.
2. A request is done only when each such segment at the head was read and had nothing of it. Other rewrites that are committed
   meanwhile are read again in the same round.
3. What left the table until then goes ``erase.grace.ms`` later, whatever other retentions say. A request is over when nothing
   that could have what it erased is in the store any more; then its last note is put beside the log.

A killed round keeps what it has committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from compaction.archive_erasures import ArchiveErasures, Erased, archived_set, segment_batches
from compaction.filtered_segments import FilteredSegments, Reads, Suspect
from compaction.merge_plan import RewriteReason
from compaction.path_set import PathSet
from compaction.policy import Policy
from compaction.report import Reporter, Totals
from compaction.rewrite import RewriteTask, TaskResult
from compaction.workers import Workers
from log_format import layout, limits
from log_format.checkpoints import checkpoint
from log_format.checkpoints.erasure_notes import note_request, replace_note
from log_format.checkpoints.journal_log import list_journals
from log_format.clock import Clock
from log_format.cluster.identity import load_cluster
from log_format.delta.committer import Committer
from log_format.iceberg.collecting import objects_with_erased
from log_format.ids import NewId
from log_format.inspection.erased import erased_in
from log_format.scheduled.calendar import Calendar
from log_format.scheduled.erasing import erase_delayed
from log_format.schemas.columns.subject_readers import judge_for
from log_format.store import ObjectInfo, ObjectStore
from log_format.topic.archiving import RewriteArchived
from log_format.topic.erasure_changes import EraseSegments, FinishErasures, ForgetErasures
from log_format.topic.erasures import Erasure, ErasureNote, note_key, notes_prefix
from log_format.topic.live_segments import LiveSegment, live_segments, removed_segments
from log_format.topic.rewrite import Rewrite, RewriteOutcome, UploadedFile
from log_format.topic.state import TopicState

PASSES_MAX: Final = 8
"""Most passes of a round: each reads what others committed during the one before."""
FILES_AT_ONCE: Final = 10_000
"""Listed files that are in memory together."""
CLOCKS_APART_MS: Final = 60_000
"""How much later than a request's end, by its time, a file may have left the table and still be deleted with the others."""


class _Pass(NamedTuple):
    """One pass: the state that it was planned at, the requests, the cluster's key, what to count, and filters of segments."""

    state: TopicState
    wanted: Sequence[Erasure]
    secret: bytes
    totals: Totals
    filtered: FilteredSegments
    reads: Reads


Look = Callable[[], tuple[TopicState, pa.Table]]
"""Function that returns the head, as a state and as a reconciled log."""


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
        self._looked_through: dict[tuple[str, str], bool] = {}
        """Pinned file and request -> whether the file has what the request erased."""

    def run(self, state: TopicState, look: Look, totals: Totals, *, is_dry_run: bool) -> None:
        """Carry out the requests that are open at ``state``."""
        wanted = [one for one in state.erasures if not one.is_rewritten]
        if is_dry_run or not state.erasures:
            for one in wanted:
                self._report.event("would erase", topic=self._topic, erasure=one.erasure_id)
            return
        if wanted:
            self._note(state, wanted)
            self._erase_delayed(state, wanted)
            self._carry_out(wanted, look, totals)
        self._cover_log(look)

    def deletable_before_ms(self, state: TopicState) -> int:
        """Return the time before which files left the table that are to be deleted now because of requests; 0: none."""
        return max((_left_by_ms(one) for one in self._past_grace(state)), default=0)

    def log_kept_ms(self, state: TopicState, retention_ms: int) -> int:
        """Return how long the log is to be kept, if its bounds of typed columns may say what was erased."""
        if not state.columns:
            return retention_ms
        ages_ms = [self._clock.now_ms() - _left_by_ms(one) for one in self._past_grace(state)]
        return max(0, min([retention_ms, *ages_ms]))

    def still_pinned(self, state: TopicState, pinned: set[str], removed_ms: Mapping[str, int]) -> set[str]:
        """Return those of the pinned files that left the table which stay, since nothing is in them that requests erased.

        ``removed_ms``: path -> when the file left the table, as far as the log still says so.
        """
        past = tuple(self._past_grace(state))
        left_by_ms = max((_left_by_ms(one) for one in past), default=0)
        if not past or not pinned:
            return pinned
        erased = {path for path in pinned if removed_ms.get(path, 0) < left_by_ms and self._holds(path, past, state)}
        for path in sorted(erased):
            self._report.event("unpin file", topic=self._topic, file=path, why="it has what a request erased")
        return pinned - erased

    def forget(self, look: Look) -> None:
        """Note the end of requests of which nothing is left in the store, after old objects were deleted."""
        state, reconciled = look()
        past = [one for one in self._past_grace(state) if self._is_settled(one)]
        if not past:
            return
        root = layout.topic_root(self._topic)
        live = {one.segment.path for one in live_segments(reconciled)}
        removed_ms = {one.path: one.removed_at_ms for one in removed_segments(reconciled)}
        archived = archived_set(self._store, state, self._clock.now_ms())
        left = [
            info
            for info in self._files_besides(archived)
            if (path := info.key.removeprefix(root)) not in live and not self._is_looked_through(path, past)
        ]
        others = [*self._undrained(), *self._store.list(f"{layout.TRANSACTIONS_ROOT}staged/")]
        if self._erase_delayed(state, past):
            return
        for one in past:
            if any(_may_hold(info, removed_ms.get(info.key.removeprefix(root)), one) for info in left):
                continue
            if any(info.modified_at_ms <= one.requested_ms + CLOCKS_APART_MS for info in others):
                continue
            if state.columns and self._has_older_log(one):
                continue
            self._delete_manifests(state, one)
            self._end(one, state)

    def _note(self, state: TopicState, wanted: Iterable[Erasure]) -> None:
        """Put the notes that gateways could not put any more."""
        noted = {info.key for info in self._store.list(notes_prefix(self._topic))}
        for one in wanted:
            if note_key(self._topic, one.erasure_id) not in noted:
                note_request(self._store, self._topic, state.existing_id, one)

    def _erase_delayed(self, state: TopicState, wanted: Sequence[Erasure]) -> bool:
        """Cancel and empty delayed records; return whether some may still be in objects."""
        calendar = Calendar(self._store, self._topic, state.existing_id, self._clock, self._new_id)
        judge = judge_for(wanted, self._store, state.config.subjects)
        erased = erase_delayed(calendar, wanted, load_cluster(self._store, self._new_id).producer_key, judge)
        if erased.record_count:
            self._report.event("erase delayed", topic=self._topic, records=erased.record_count)
        return erased.is_left

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

    def _past_grace(self, state: TopicState) -> Iterator[Erasure]:
        grace_ms = state.config.integer("erase.grace.ms")
        for one in state.erasures:
            if one.rewritten_ms is not None and self._clock.now_ms() >= one.rewritten_ms + grace_ms:
                yield one

    def _is_settled(self, erasure: Erasure) -> bool:
        """Return whether no rewrite that read the old records before the request's end may still be uploading them."""
        return self._clock.now_ms() > _left_by_ms(erasure) + limits.SEGMENT_AGE_MAX_MS

    def _holds(self, path: str, erasures: Sequence[Erasure], state: TopicState) -> bool:
        """Return whether the file has anything of what these requests erased; no, if it is gone."""
        new = [one for one in erasures if (path, one.erasure_id) not in self._looked_through]
        if new:
            secret = load_cluster(self._store, self._new_id).producer_key
            judge = judge_for(new, self._store, state.config.subjects)
            found = erased_in(self._store, f"{layout.topic_root(self._topic)}{path}", new, secret, judge)
            self._looked_through |= {(path, one.erasure_id): one.erasure_id in found for one in new}
        return any(self._looked_through[path, one.erasure_id] for one in erasures)

    def _is_looked_through(self, path: str, erasures: Sequence[Erasure]) -> bool:
        return all(self._looked_through.get((path, one.erasure_id)) is False for one in erasures)

    def _files_besides(self, archived: PathSet) -> Iterator[ObjectInfo]:
        """Yield the stored files of the topic that are not in the archive."""
        root = layout.topic_root(self._topic)
        listed = chain.from_iterable(
            self._store.list(f"{root}{below}") for below in (layout.SEGMENTS, layout.COMPACTED)
        )
        while some := list(islice(listed, FILES_AT_ONCE)):
            are_archived = archived.contains([info.key.removeprefix(root) for info in some])
            yield from (info for info, is_archived in zip(some, are_archived.tolist(), strict=True) if not is_archived)

    def _delete_manifests(self, state: TopicState, erasure: Erasure) -> None:
        """Delete manifests for Iceberg's readers whose bounds of typed columns may say what was erased."""
        if state.columns and erasure.rewritten_version is not None:
            until_ms = _left_by_ms(erasure) + CLOCKS_APART_MS
            for info in objects_with_erased(self._store, state, erasure.rewritten_version, until_ms):
                self._store.delete(info.key)

    def _undrained(self) -> Iterator[ObjectInfo]:
        for number in list_journals(self._store):
            yield from self._store.list(f"{layout.journal_root(number)}{layout.SEGMENTS}")

    def _has_older_log(self, erasure: Erasure) -> bool:
        for info in self._store.list(layout.log_prefix(self._topic)):
            version = layout.commit_version(info.key)
            version = layout.checkpoint_version(info.key) if version is None else version
            version = layout.archive_part_version(info.key) if version is None else version
            if version is not None and version < (erasure.rewritten_version or 0):
                return True
        return False

    def _end(self, erasure: Erasure, state: TopicState) -> None:
        kept = msgspec.structs.replace(erasure, hidden_hashes=())
        gone = ErasureNote(erasure=kept, topic_id=state.existing_id, gone_ms=self._clock.now_ms())
        replace_note(self._store, self._topic, gone)
        self._committer.commit(ForgetErasures(erasure_ids=[erasure.erasure_id]))
        self._report.event("gone", topic=self._topic, erasure=erasure.erasure_id)


def _left_by_ms(erasure: Erasure) -> int:
    return (erasure.rewritten_ms or 0) + CLOCKS_APART_MS


def _may_hold(info: ObjectInfo, removed_ms: int | None, erasure: Erasure) -> bool:
    """Return whether an object that is not in the table may have what was erased; one that no commit names may have been put an
    hour after the request's end."""
    if removed_ms is not None:
        return removed_ms < _left_by_ms(erasure)
    return info.modified_at_ms <= _left_by_ms(erasure) + limits.SEGMENT_AGE_MAX_MS
