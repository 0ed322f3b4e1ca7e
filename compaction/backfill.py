"""What one topic's backfill (``data.backfill``) still has to do: the segments whose records no schema has judged.

A round rewrites a limited number of bytes for it, so that a large topic does not hold up the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compaction.fill_columns import open_readers, typed_names
from compaction.merge_plan import Merge, RewriteReason, lacks_columns
from compaction.report import Reporter, Totals
from compaction.rewrite import RewriteTask
from log_format.errors import TidelogError
from log_format.store import ObjectStore
from log_format.topic.config import UNTYPED, Subjects
from log_format.topic.live_segments import LiveSegment
from log_format.topic.state import TopicState


class Backfill:
    """The backfill of one topic, as of the last look."""

    def __init__(self, store: ObjectStore, topic: str, report: Reporter) -> None:
        self._store = store
        self._topic = topic
        self._report = report
        self._left: dict[str, int] = {}
        """Bytes of the segments that are left, by path."""
        self._reported = 0
        self._taken_bytes = 0
        """Bytes that this round has taken on."""
        self.is_cut = False
        """Whether this round leaves some for the next one, since it has had its share."""
        self.subjects: Subjects = UNTYPED
        """Subjects by whose schemas rewrites judge records without typed columns; ``UNTYPED``: such records stay without."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Typed columns that all segments are to have."""
        return typed_names(self.subjects)

    def look(self, state: TopicState, live: Sequence[LiveSegment]) -> None:
        """Find what is left. Where the registry has no fitting schemas, that is reported, and nothing is to do.

        Raises ``StoreUnavailable``, ``CorruptData``.
        """
        self.subjects = UNTYPED
        if _is_on(state):
            try:
                open_readers(self._store, state.config.subjects, state.columns)
                self.subjects = state.config.subjects
            except TidelogError as problem:
                self._report.event("backfill not possible", topic=self._topic, problem=problem.detail)
        self._left = {one.segment.path: one.segment.size_bytes for one in live if lacks_columns(one, self.columns)}
        self.report()

    def begin_round(self) -> None:
        """Begin a round, with a share of its own."""
        self._taken_bytes, self.is_cut = 0, False

    def within_share(self, merges: Sequence[Merge], share_bytes: Callable[[], int]) -> list[Merge]:
        """Return the rewrites without the backfills that this round has no share left for. At least one is done.

        ``share_bytes`` is only called if there are backfills.
        """
        kept = []
        for merge in merges:
            if merge.reason is RewriteReason.BACKFILL:
                taken = self._taken_bytes + merge.size_bytes
                if self._taken_bytes and taken > share_bytes():
                    self.is_cut = True
                    continue
                self._taken_bytes = taken
            kept.append(merge)
        return kept

    def still_wanted(self, tasks: Sequence[RewriteTask], state: TopicState) -> Sequence[RewriteTask]:
        """Return the tasks that are to be done at a newer state: no backfill where it was turned off meanwhile."""
        return tasks if _is_on(state) else [task for task in tasks if task.reason is not RewriteReason.BACKFILL]

    def note_committed(self, task: RewriteTask) -> None:
        """Note that the sources of a task are replaced."""
        for source in task.sources:
            self._left.pop(source.segment.path, None)

    def report(self) -> None:
        """Report how much is left, if that is not what was reported before."""
        if len(self._left) != self._reported:
            self._reported = len(self._left)
            bytes_left = sum(self._left.values())
            self._report.event("backfill", topic=self._topic, segments_left=self._reported, bytes_left=bytes_left)

    def count(self, totals: Totals) -> None:
        """Add what is left to ``totals``."""
        totals.untyped_segments += len(self._left)
        totals.untyped_bytes += sum(self._left.values())
        totals.unfinished_backfills += self.is_cut


def _is_on(state: TopicState) -> bool:
    return state.config.subjects.are_set and state.config.choice("data.backfill") == "on"
