"""The end of everything older that may have what a topic's requests to erase were about (docs/decisions/108-erasure.md).

1. What left the table until a request was carried out goes ``erase.grace.ms`` later, whatever other retentions say.
2. A request is over when nothing that could have what it erased is in the store any more; then its last note is put beside the
   log, and it leaves the table's properties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final

import msgspec
import pyarrow as pa

from compaction.archive_erasures import archived_set
from compaction.path_set import PathSet
from compaction.report import Reporter
from log_format import layout, limits
from log_format.checkpoints.erasure_notes import replace_note
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
from log_format.topic.erasure_changes import ForgetErasures
from log_format.topic.erasures import Erasure, ErasureNote
from log_format.topic.live_segments import live_segments, removed_segments
from log_format.topic.state import TopicState

FILES_AT_ONCE: Final = 10_000
"""Listed files that are in memory together."""
CLOCKS_APART_MS: Final = 60_000
"""How much later than a request's end, by its time, a file may have left the table and still be deleted with the others."""

Look = Callable[[], tuple[TopicState, pa.Table]]
"""Function that returns the head, as a state and as a reconciled log."""


class ErasedFiles:
    """Older objects of one topic, and requests that wait for their end. Every call raises ``TidelogError`` or ``StoreError``."""

    def __init__(
        self,
        store: ObjectStore,
        topic: str,
        committer: Committer[TopicState],
        *,
        clock: Clock,
        new_id: NewId,
        report: Reporter,
    ) -> None:
        self._store = store
        self._topic = topic
        self._committer = committer
        self._clock = clock
        self._new_id = new_id
        self._report = report
        self._looked_through: dict[tuple[str, str], bool] = {}
        """Pinned file and request -> whether the file has what the request erased."""

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
        if self.erase_delayed(state, past):
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

    def erase_delayed(self, state: TopicState, wanted: Sequence[Erasure]) -> bool:
        """Cancel and empty the delayed records that these requests mean; return whether some may still be in objects."""
        calendar = Calendar(self._store, self._topic, state.existing_id, self._clock, self._new_id)
        judge = judge_for(wanted, self._store, state.config.subjects)
        erased = erase_delayed(calendar, wanted, load_cluster(self._store, self._new_id).producer_key, judge)
        if erased.record_count:
            self._report.event("erase delayed", topic=self._topic, records=erased.record_count)
        return erased.is_left

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
