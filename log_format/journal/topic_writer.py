"""Appending to topics and draining them, at a journal or not, for programs other than the gateway (Spark's jobs, maintenance).

All calls block.

1. A batch goes to the topic's own log or to its journal. If the topic moves meanwhile, the batch follows.
2. If another program has closed the topic's number and does not finish its change, this one goes on without waiting for it, like
   a gateway.
3. A typed topic's records wait in the journal while the registry can't be read: gateways, which fill journals, bound that time.
4. A large batch does not go to a journal, since the gateway that drains it would need all of it in memory. Instead the topic gets
   its own commits for that time. A program that dies meanwhile leaves it that way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa

from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.delta.table import StateT
from log_format.errors import BackOff, StoreUnavailable, TidelogError, UnknownTopic
from log_format.ids import NewId
from log_format.journal.append import JournalAppend, RoutedBatch
from log_format.journal.drain import DRAIN_BYTES_MAX, Drain, make_drained_entry, plan_drain
from log_format.journal.entries import Close, Drained, Entry, Release
from log_format.journal.notes import JournalNotes
from log_format.journal.reader import JournalReader, JournalRunRef
from log_format.journal.refresh import JournalOf
from log_format.journal.state import JournalState
from log_format.journal.undrained import UndrainedRun
from log_format.journal.view import journal_topic
from log_format.limits import HEAD_TRUSTED_MS, OVERTAKE_MS
from log_format.records.schema import RECORD_SCHEMA
from log_format.segments.run import SegmentRef
from log_format.topic.append import Append, Batch, TypeRecords
from log_format.topic.append_outcome import AppendOutcome
from log_format.topic.attachment import Attachment, TopicMove, TopicMoved
from log_format.topic.changes import MoveTopic
from log_format.topic.state import TopicState

_LOOK_PAUSE_MS: Final = 100
_ROUNDS_MAX: Final = 200
"""Most refreshes of a topic that moves, or is being changed."""


class TopicWriter:
    """A writer to topics wherever they are. For one thread at a time. ``engine``: the program's name in the tables' histories."""

    def __init__(
        self,
        journal_of: JournalOf,
        reader: JournalReader,
        *,
        new_id: NewId,
        engine: str,
        type_records: TypeRecords | None = None,
        direct_bytes_min: int = DRAIN_BYTES_MAX,
        drain_bytes_max: int = DRAIN_BYTES_MAX,
    ) -> None:
        """Prepare a writer.

        Args:
            journal_of: returns the log of a journal.
            reader: reads journals' objects.
            new_id: source of unique ids.
            engine: the program's name in the tables' histories.
            type_records: gives records of typed topics their columns; None: they are marked as not judged.
            direct_bytes_min: size in bytes from which a batch does not go to a journal.
            drain_bytes_max: limit of one drain, as for ``plan_drain``.
        """
        self._journal_of = journal_of
        self._reader = reader
        self._new_id = new_id
        self._engine = engine
        self._type_records = type_records
        self._direct_bytes_min = direct_bytes_min
        self._drain_bytes_max = drain_bytes_max

    def append(self, log: TableLog[TopicState], batch: Batch) -> AppendOutcome:
        """Append the batch, and return its outcome. The topic is not refreshed if that was done lately.

        Raises ``BackOff`` (nothing happened), ``OutcomeUnknown``, ``CorruptData``.
        """
        observed_ms = log.observed_ms
        if observed_ms is None or log.clock.monotonic_ms() - observed_ms > HEAD_TRUSTED_MS:
            _look(log)
        if log.state.attachment is not None and batch.nbytes >= self._direct_bytes_min:
            return self._append_directly(log, batch)
        return self._append_anywhere(log, batch)

    def drain(self, log: TableLog[TopicState]) -> Drained | None:
        """Drain the topic's journal into its table. Return the entry that tells the journal, None if nothing is new.

        Raises the same errors as ``append``.
        """
        here = _look(log).attachment
        if here is None:
            return None
        journal = self._journal_of(here.journal)
        while True:
            at = _look(journal)
            own = _look(log)  # after the journal, so it has what the journal has dropped
            known = journal_topic(own, at)
            if known is None:
                return None
            undrained = at.runs.of(known.topic_id)
            ends, parts = plan_drain(
                known, undrained, own.next_offsets, bytes_max=self._drain_bytes_max, width=own.columns.width
            )
            read = self._reader.read_judged if own.config.subjects.are_set else self._reader.read
            records = self._records(here.journal, known.topic_id, parts, read)
            drain = Drain(known, records, ends, self._new_id, self._type_records, wait_ms_max=None)
            if not self._committer(log).commit(drain).result:
                return None
            if (ends == known.next_offsets).all():
                break
        return make_drained_entry(known, ends, at.modification_time_ms)

    def note(self, journal: int, entries: Sequence[Entry]) -> JournalState:
        """Commit the entries that are new, and remove objects that no topic needs. Raises the same errors as ``append``."""
        return self._committer(self._journal_of(journal)).commit(JournalNotes(entries)).state

    def _append_anywhere(self, log: TableLog[TopicState], batch: Batch) -> AppendOutcome:
        """Append wherever the topic is, once it accepts appends."""
        closed: Attachment | None = None
        closed_ms = 0
        for _ in range(_ROUNDS_MAX):
            own = log.state
            here = own.attachment
            if here is None:
                (outcome,) = self._committer(log).commit(Append([batch], self._new_id, self._type_records)).result
            else:
                journal = self._journal_of(here.journal)
                append = JournalAppend([RoutedBatch(own, batch)], self._new_id)
                (outcome,) = self._committer(journal).commit(append).result
            if not isinstance(outcome, TopicMoved):
                return outcome
            _look(log)
            if here is None or own.topic_id is None or log.state.attachment != here:
                continue
            topics = _look(self._journal_of(here.journal)).topics
            if topics.closed_number(own.topic_id) < here.number:
                continue
            now_ms = log.clock.monotonic_ms()
            if here != closed:
                closed, closed_ms = here, now_ms
            elif now_ms - closed_ms >= OVERTAKE_MS:
                move = TopicMove(here, here.following(topics.next_number(own.topic_id)), topic_id=own.topic_id)
                with suppress(TopicMoved, UnknownTopic):
                    self._committer(log).commit(MoveTopic(topic_id=own.topic_id, move=move))
                continue
            log.clock.sleep_ms(_LOOK_PAUSE_MS)
        raise TopicMoved(log.state.topic)

    def _append_directly(self, log: TableLog[TopicState], batch: Batch) -> AppendOutcome:
        """Append by the topic's own commit, between leaving its journal and joining it again.

        Return the outcome of the append: a topic that can't join again keeps its own commits.
        """
        before = self._leave(log)
        try:
            return self._append_anywhere(log, batch)
        finally:
            if before is not None:
                with suppress(TidelogError):
                    self._join(log, before)

    def _leave(self, log: TableLog[TopicState]) -> Attachment | None:
        """Give the topic its own commits, and return its former attachment. Raises the same errors as ``append``."""
        for _ in range(_ROUNDS_MAX):
            own = _look(log)
            here = own.attachment
            if here is None or own.topic_id is None:
                return None
            self.drain(log)  # most of the records before the topic is closed
            self.note(here.journal, [Close(own.topic_id, here.number)])
            drained = self.drain(log)
            try:
                change = MoveTopic(topic_id=own.topic_id, move=TopicMove(here, None, topic_id=own.topic_id))
                self._committer(log).commit(change)
            except TopicMoved:
                continue
            notes = [Release(own.topic_id, here.number)]
            with suppress(TidelogError):  # the topic has left anyway: the journal's owner will notice
                self.note(here.journal, notes if drained is None else [drained, *notes])
            return here
        raise TopicMoved(log.state.topic)

    def _join(self, log: TableLog[TopicState], before: Attachment) -> None:
        """Move the topic back to its journal, if it still has its own commits. Raises the same errors as ``append``."""
        own = _look(log)
        if own.topic_id is None or own.attachment is not None:
            return
        number = _look(self._journal_of(before.journal)).topics.next_number(own.topic_id)
        move = TopicMove(None, Attachment(before.journal, number, number), seen_version=own.version)
        with suppress(TopicMoved, UnknownTopic):
            self._committer(log).commit(MoveTopic(topic_id=own.topic_id, move=move))

    def _committer(self, log: TableLog[StateT]) -> Committer[StateT]:
        return Committer(log, new_id=self._new_id, engine=self._engine)

    def _records(
        self,
        journal: int,
        topic_id: str,
        parts: Sequence[tuple[SegmentRef, Sequence[UndrainedRun]]],
        read: Callable[[JournalRunRef], pa.Table],
    ) -> pa.Table:
        """Return the records of these runs, by partition and offset."""
        places = [
            JournalRunRef(journal, ref, topic_id, run.partition, run.base_offset) for ref, runs in parts for run in runs
        ]
        if not places:
            return RECORD_SCHEMA.empty_table()
        try:
            tables = {place: read(place) for place in places}
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not return journal {journal}: {problem.detail}.") from problem
        in_order = sorted(places, key=lambda place: (place.partition, place.base_offset))
        return pa.concat_tables([tables[place] for place in in_order]).combine_chunks()


def _look(log: TableLog[StateT]) -> StateT:
    try:
        return log.refresh()
    except StoreUnavailable as problem:
        raise BackOff(f"The store did not return {log.table.label}: {problem.detail}.") from problem
