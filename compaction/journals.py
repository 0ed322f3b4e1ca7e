"""Maintenance of journals: draining topics, releasing topics that left, and removing objects that no reader needs.

Gateways do all of this. Maintenance does what gateways leave undone for twice ``drain.ms``. Doing it concurrently does no harm.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from compaction.report import Reporter, Totals
from log_format.checkpoints.checkpoint import is_checkpoint_due, write_table_checkpoint
from log_format.checkpoints.journal_log import JournalLogs
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.delta.checkpoint_hint import read_hinted_version
from log_format.errors import StoreError, TidelogError
from log_format.ids import NewId
from log_format.journal.entries import Entry, Release
from log_format.journal.reader import JournalReader
from log_format.journal.state import JournalState
from log_format.journal.topic_writer import TopicWriter
from log_format.journal.topics import JournalTopic
from log_format.journal.view import is_current_stay
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.store import ObjectStore

CACHE_BYTES: Final = 128 * 1024 * 1024
"""Cache of journals' decoded objects in bytes: minutes of flushes, which are drained topic by topic."""
_REMOVES_ROUNDS_MAX: Final = 100
"""Most commits of one round that remove objects; each removes up to ``JOURNAL_REMOVES_MAX``."""


class JournalUpkeep:
    """The maintenance of one journal, whose state is kept between rounds."""

    def __init__(
        self,
        store: ObjectStore,
        number: int,
        *,
        clock: Clock,
        new_id: NewId,
        report: Reporter,
        is_dry_run: bool = False,
    ) -> None:
        journals = JournalLogs(store, clock)
        self._store = store
        self._number = number
        self._clock = clock
        self._report = report
        self._is_dry_run = is_dry_run
        self._log = journals.get(number)
        reader = JournalReader(store, cache_bytes=CACHE_BYTES)
        self._anywhere = TopicWriter(
            journals.get,
            reader,
            new_id=new_id,
            engine="tidelog-maintenance",
            type_records=StoredReaders(store, clock).type_records,
        )

    def run(self, totals: Totals, *, collect: bool, only: Collection[str] = ()) -> None:
        """Run one round. A topic that can't be drained is reported, and the others go on.

        ``collect``: also look at closed topics. ``only``: if given, only topics of these names, and no checkpoint. Raises
        ``TidelogError`` or ``StoreError`` if the journal itself can't be maintained.
        """
        state = self._log.refresh()
        if not only:
            self._write_checkpoint(state, totals)
        entries: list[Entry] = []
        for topic in list(state.topics.by_id.values()):
            if only and topic.name not in only:
                continue
            if not _is_overdue(topic, self._clock.now_ms()) and not (collect and not topic.is_open):
                continue
            try:
                entries += self._drain_or_release(topic, totals)
            except (TidelogError, StoreError) as problem:
                totals.failed_topics += 1
                totals.failed_drains += 1
                self._report.event("failed", topic=topic.name, journal=self._number, problem=str(problem))
        self._note(entries)

    def _drain_or_release(self, topic: JournalTopic, totals: Totals) -> list[Entry]:
        """Drain the topic, or release it; return the entries for the journal."""
        log = TopicLog(self._store, topic.name, self._clock)
        if not is_current_stay(log.refresh(), topic, self._number):
            # The topic left entirely drained, or was deleted.
            return [] if topic.is_open else [Release(topic.topic_id, topic.number)]
        if topic.undrained_since_ms is None:
            return []
        behind_ms = self._clock.now_ms() - topic.undrained_since_ms
        self._report.event(
            "would drain" if self._is_dry_run else "drain", topic=topic.name, journal=self._number, behind_ms=behind_ms
        )
        if self._is_dry_run:
            return []
        drained = self._anywhere.drain(log)
        totals.drains += 1
        return [] if drained is None else [drained]

    def _note(self, entries: list[Entry]) -> None:
        """Commit the entries, and remove unneeded objects from the journal's table."""
        if self._is_dry_run:
            return
        for _ in range(_REMOVES_ROUNDS_MAX):
            if not entries and not self._log.state.runs.unneeded(1):
                return
            self._anywhere.note(self._number, entries)
            entries = []

    def _write_checkpoint(self, state: JournalState, totals: Totals) -> None:
        root = self._log.table.root
        newest = read_hinted_version(self._store, root)
        if self._is_dry_run or not is_checkpoint_due(state.version, newest, state.runs.file_count()):
            return
        write_table_checkpoint(self._store, root, state.version, self._clock.now_ms())
        self._report.event("checkpoint", journal=self._number, version=state.version)
        totals.checkpoints += 1


def _is_overdue(topic: JournalTopic, now_ms: int) -> bool:
    """Return whether gateways have left the topic undrained: for too long, or at all if the topic is closed.

    A time far in the future comes from another machine's wrong clock, and counts as overdue; otherwise the topic would wait until
    then.
    """
    since_ms = topic.undrained_since_ms
    if since_ms is None:
        return False
    return not topic.is_open or abs(now_ms - since_ms) >= 2 * topic.drain_ms
