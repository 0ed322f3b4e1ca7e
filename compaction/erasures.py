"""Carrying out a topic's requests to erase (docs/decisions/108-erasure.md): rewrites, then the end of every older object.

1. All open requests share one pass over the segments that have records of before them.
2. A request is done only when each such segment at the head was read and had nothing of it. Other rewrites that are committed
   meanwhile are read again in the same round.
3. What left the table until then goes ``erase.grace.ms`` later, whatever other retentions say. A request is over when nothing
   that could have what it erased is in the store any more; then its last note is put beside the log.

A killed round keeps what it has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from compaction.merge_plan import RewriteReason
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
from log_format.ids import NewId
from log_format.inspection.erased import erased_in
from log_format.store import ObjectInfo, ObjectStore
from log_format.topic.erasure_changes import EraseSegments, FinishErasures, ForgetErasures
from log_format.topic.erasures import Erasure, ErasureNote, note_key, notes_prefix
from log_format.topic.live_segments import LiveSegment, live_segments, removed_segments
from log_format.topic.rewrite import Rewrite, RewriteOutcome, UploadedFile
from log_format.topic.state import TopicState

PASSES_MAX: Final = 8
"""Most passes of a round: each reads what others committed during the one before."""
SEGMENTS_AT_ONCE: Final = 64
"""Most segments of one commit."""
BYTES_AT_ONCE: Final = 1024 * 1024 * 1024
"""Most stored bytes of the segments of one commit: minutes of work, while uploads must be committed within an hour."""
CLOCKS_APART_MS: Final = 60_000
"""How much later than a request's end, by its time, a file may have left the table and still be deleted with the others."""

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
    ) -> None:
        self._store = store
        self._topic = topic
        self._workers = workers
        self._committer = committer
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
        erased = {path for path in pinned if removed_ms.get(path, 0) < left_by_ms and self._holds(path, past)}
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
        files = [info for below in (layout.SEGMENTS, layout.COMPACTED) for info in self._store.list(f"{root}{below}")]
        left = [
            info
            for info in files
            if (path := info.key.removeprefix(root)) not in live and not self._is_looked_through(path, past)
        ]
        others = [*self._undrained(), *self._store.list(f"{layout.TRANSACTIONS_ROOT}staged/")]
        for one in past:
            if any(_may_hold(info, removed_ms.get(info.key.removeprefix(root)), one) for info in left):
                continue
            if any(info.modified_at_ms <= one.requested_ms + CLOCKS_APART_MS for info in others):
                continue
            if state.columns and self._has_older_log(one):
                continue
            self._end(one, state)

    def _note(self, state: TopicState, wanted: Iterable[Erasure]) -> None:
        """Put the notes that gateways could not put any more."""
        noted = {info.key for info in self._store.list(notes_prefix(self._topic))}
        for one in wanted:
            if note_key(self._topic, one.erasure_id) not in noted:
                note_request(self._store, self._topic, state.existing_id, one)

    def _carry_out(self, wanted: Sequence[Erasure], look: Look, totals: Totals) -> None:
        secret = load_cluster(self._store, self._new_id).producer_key
        clean: set[str] = set()
        names = [one.erasure_id for one in wanted]
        for _ in range(PASSES_MAX):
            state, reconciled = look()
            if state.topic_id is None:
                return
            left = [
                live
                for live in live_segments(reconciled)
                if live.segment.path not in clean
                and any(one.concerns(run.partition, run.base_offset) for one in wanted for run in live.runs)
            ]
            for some in _batches(left):
                started_ms = self._clock.monotonic_ms()
                tasks = [self._task(number, live, state, wanted, secret) for number, live in enumerate(some)]
                results = list(self._workers.rewrite(tasks))
                clean |= {some[done.number].segment.path for done in results if done.is_unchanged}
                clean |= self._commit(
                    state, tasks, [one for one in results if not one.is_unchanged], started_ms, totals
                )
            if all(live.segment.path in clean for live in left):
                finish = FinishErasures(topic_id=state.existing_id, erasure_ids=names, clean=clean)
                if self._committer.commit(finish).result:
                    self._report.event("erased", topic=self._topic, erasures=len(names), segments_read=len(clean))
                    return
        self._report.event("erasing goes on", topic=self._topic, erasures=len(names), segments_read=len(clean))

    def _task(
        self, number: int, live: LiveSegment, state: TopicState, wanted: Sequence[Erasure], secret: bytes
    ) -> RewriteTask:
        partitions = {run.partition for run in live.runs}
        keeps_all = state.config.table_retention.keeps_archive
        return RewriteTask(
            number=number,
            topic=self._topic,
            reason=RewriteReason.ERASE,
            sources=(live,),
            log_starts={} if keeps_all else {partition: state.log_start(partition) for partition in partitions},
            compression=state.config.choice("compression.type"),
            columns=state.columns,
            now_ms=self._clock.now_ms(),
            erasures=tuple(wanted),
            secret=secret,
        )

    def _commit(
        self,
        state: TopicState,
        tasks: Sequence[RewriteTask],
        results: Sequence[TaskResult],
        started_ms: int,
        totals: Totals,
    ) -> set[str]:
        """Replace the sources of these results in one commit; return the paths of the new segments, none if others were
        faster."""
        if not results:
            return set()
        done = [tasks[one.number] for one in results]
        added = [new for one in results for new in one.added]
        counts: dict[str, int] = {}
        for one in results:
            for name, count in one.erased.items():
                counts[name] = counts.get(name, 0) + count
        size_bytes = sum(task.sources[0].segment.size_bytes for task in done)
        ends: dict[int, int] = {}
        for run in (run for task in done for run in task.sources[0].runs):
            ends[run.partition] = max(run.end_offset, ends.get(run.partition, 0))
        has_gaps = any(one.keep == "nothing" and one.erasure_id in counts for one in state.erasures)
        rewrite = Rewrite(
            topic_id=state.existing_id,
            sources=[task.sources[0].segment for task in done],
            source_record_count=sum(task.record_count for task in done),
            added=added,
            uploaded=UploadedFile(added[0].segment.path, started_ms) if added else None,
            keys_compacted=ends if has_gaps else {},
            changes_records=True,
        )
        outcome = self._committer.commit(
            EraseSegments(rewrite=rewrite, counts=counts, partitions=set(ends), size_bytes=size_bytes)
        ).result
        sizes = {"segments_in": len(done), "segments_out": len(added), "bytes_in": size_bytes}
        sizes["bytes_out"] = sum(new.segment.size_bytes for new in added)
        self._report.event("erase", topic=self._topic, outcome=outcome.value, **sizes)
        if outcome is not RewriteOutcome.COMMITTED:
            totals.overtaken += 1
            return set()
        totals.rewritten(**sizes)
        return {new.segment.path for new in added}

    def _cover_log(self, look: Look) -> None:
        """Write a checkpoint behind finished requests, so that the log before may go, whose bounds of typed columns have what
        was erased."""
        state, _ = look()
        versions = [one.rewritten_version for one in state.erasures if one.rewritten_version is not None]
        newest = checkpoint.last_checkpoint_version(self._store, self._topic)
        if state.columns and versions and (newest is None or newest < max(versions)):
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

    def _holds(self, path: str, erasures: Sequence[Erasure]) -> bool:
        """Return whether the file has anything of what these requests erased; no, if it is gone."""
        new = [one for one in erasures if (path, one.erasure_id) not in self._looked_through]
        if new:
            secret = load_cluster(self._store, self._new_id).producer_key
            found = erased_in(self._store, f"{layout.topic_root(self._topic)}{path}", new, secret)
            self._looked_through |= {(path, one.erasure_id): one.erasure_id in found for one in new}
        return any(self._looked_through[path, one.erasure_id] for one in erasures)

    def _is_looked_through(self, path: str, erasures: Sequence[Erasure]) -> bool:
        return all(self._looked_through.get((path, one.erasure_id)) is False for one in erasures)

    def _undrained(self) -> Iterator[ObjectInfo]:
        for number in list_journals(self._store):
            yield from self._store.list(f"{layout.journal_root(number)}{layout.SEGMENTS}")

    def _has_older_log(self, erasure: Erasure) -> bool:
        for info in self._store.list(layout.log_prefix(self._topic)):
            version = layout.commit_version(info.key)
            version = layout.checkpoint_version(info.key) if version is None else version
            if version is not None and version < (erasure.rewritten_version or 0):
                return True
        return False

    def _end(self, erasure: Erasure, state: TopicState) -> None:
        gone = ErasureNote(erasure=erasure, topic_id=state.existing_id, gone_ms=self._clock.now_ms())
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


def _batches(segments: Iterable[LiveSegment]) -> Iterator[Sequence[LiveSegment]]:
    batch: list[LiveSegment] = []
    size_bytes = 0
    for one in segments:
        if batch and (len(batch) >= SEGMENTS_AT_ONCE or size_bytes + one.segment.size_bytes > BYTES_AT_ONCE):
            yield batch
            batch, size_bytes = [], 0
        batch.append(one)
        size_bytes += one.segment.size_bytes
    if batch:
        yield batch
