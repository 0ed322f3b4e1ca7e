"""Changes of one topic between its own commits and a journal: moves, drains, and changes of a topic that is at a journal
(docs/decisions/035-journals.md).

Used on the event loop only; blocking calls run in the pools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import pyarrow as pa

from gateway.call import detached_from_call
from gateway.engine.open_journal import Journals, OpenJournal
from gateway.engine.open_table import OpenTable, TableAccess
from gateway.engine.pool import Pool
from gateway.engine.tail_cache import TailCache
from log_format.delta.change import TableChange
from log_format.delta.committer import Committed
from log_format.errors import BackOff, StoreUnavailable, UnknownTopic
from log_format.journal.drain import Drain, make_drained_entry, plan_drain
from log_format.journal.entries import Close, Release
from log_format.journal.reader import JournalReader, JournalRunRef
from log_format.journal.undrained import UndrainedRun
from log_format.journal.view import journal_topic
from log_format.records.document_schemas import with_schema_rows
from log_format.records.schema import RECORD_SCHEMA
from log_format.segments.run import SegmentRef
from log_format.topic.attachment import NO_MOVE, Attachment, LastMove, TopicMove, TopicMoved
from log_format.topic.changes import MoveTopic
from log_format.topic.state import TopicState

ResultT = TypeVar("ResultT")

_ROUNDS_MAX: Final = 10
"""Number of times that a change begins again because another change was faster."""
_DRAINS_AHEAD_MAX: Final = 100
"""Number of drains before a change closes the topic's number: some 3 GiB, stored. Without a bound a producer that is faster than
its drains would keep the change waiting for ever."""
_LOOK_PAUSE_MS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMoverParts:
    """Parts that all topics of a gateway share. ``reader`` reads, in ``read_pool``, records that ``tail`` does not have."""

    access: TableAccess
    journals: Journals
    tail: TailCache
    reader: JournalReader
    read_pool: Pool
    drains: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """Locks of the topics that are being drained, by name: one drain of each topic at a time."""


class TopicMover:
    """Moves, changes and drains of one topic. ``table``: the topic's own table; its ``look`` looks at that table alone."""

    __slots__ = ("_parts", "_table", "_unread_since_ms")

    def __init__(self, table: OpenTable[TopicState], parts: TopicMoverParts) -> None:
        self._table = table
        self._parts = parts
        self._unread_since_ms: int | None = None
        """``Drain.unread_since_ms`` of the last drain."""

    async def change(
        self,
        make: Callable[[TopicMove], TableChange[TopicState, ResultT]],
        *,
        joins: int | None = None,
        leaves: bool = False,
        is_drained: bool = False,
        reason: str = "asked",
    ) -> Committed[TopicState, ResultT]:
        """Commit the change that ``make`` returns for the topic's present place.

        If the topic is at a journal, its number there is closed first.

        Args:
            make: returns the change for a ``TopicMove``; may be called several times.
            joins: journal to which a topic with its own commits goes.
            leaves: whether the topic gets its own commits.
            is_drained: whether the change needs all records in the table.
            reason: why the topic moves, for people.

        Raises what ``OpenTable.commit`` raises.
        """
        for number_of_round in range(_ROUNDS_MAX):
            own = self._table.log.state
            # The commit itself shows what is new in a topic with its own commits.
            if number_of_round or joins is not None or own.attachment is not None or not own.exists:
                await self._table.look()
                own = self._table.log.state
            here, topic_id = own.attachment, own.topic_id
            if topic_id is None:
                raise UnknownTopic(own.topic)
            journal = None if here is None else self._parts.journals.get(here.journal)
            if here is None or journal is None:
                to = await self._new_attachment(topic_id, joins)
                move = NO_MOVE if to is None else TopicMove(None, to, self._moved(reason), seen_version=own.version)
            else:
                trial = make(TopicMove(here, None if leaves else here, topic_id=topic_id)).propose(
                    self._table.state, self._parts.access.clock.now_ms()
                )
                if not trial.actions:
                    return Committed(state=own, result=trial.result, attempts=0)
                with detached_from_call():
                    if is_drained or leaves:
                        await self._drain_ahead()
                    await journal.commit_entries(Close(topic_id, here.number))
                    if is_drained or leaves:
                        await self.drain_all()
                number = journal.state.topics.next_number(topic_id)
                move = TopicMove(here, None, self._moved(reason), topic_id)
                if not leaves:
                    move = TopicMove(here, here.following(number), topic_id=topic_id)
            try:
                committed = await self._table.commit(make(move))
            except TopicMoved:
                continue
            if journal is not None and here is not None and committed.state.attachment is None:
                journal.writer.note(Release(topic_id, here.number))
            return committed
        raise BackOff(f"Others keep changing topic {self._table.log.state.topic!r}: this change was not made.")

    async def wait_reopened(self) -> None:
        """Wait until the topic takes appends again, at its own writer or its journal's; its log's state tells which.

        A change that closed the topic and does not end within ``overtake_ms`` is overtaken. Raises ``BackOff``.
        """
        clock = self._parts.access.clock
        closed: Attachment | None = None
        deadline_ms = 0
        while True:
            await self._table.look()
            own = self._table.log.state
            here = own.attachment
            if here is None or own.topic_id is None:
                return
            journal = self._parts.journals.get(here.journal)
            await journal.look()
            if journal.state.topics.closed_number(own.topic_id) < here.number:
                return
            if here != closed:
                closed, deadline_ms = here, clock.monotonic_ms() + self._parts.access.bounds.overtake_ms
            elif clock.monotonic_ms() >= deadline_ms:
                await self._overtake(own.topic_id, here, journal)
                continue
            await asyncio.sleep(_LOOK_PAUSE_MS / 1000)

    async def drain_all(self) -> None:
        """Drain until the topic's table has all records that its journal had at the call. Raises what ``OpenTable.commit``
        raises."""
        while await self.drain():
            pass

    async def _drain_ahead(self) -> None:
        """Drain most of the records while appends still come in, so that after the close appends wait for few."""
        for _ in range(_DRAINS_AHEAD_MAX):
            if not await self.drain():
                return

    async def drain(self) -> bool:
        """Put records that only the journal has into the topic's table; return False if there was nothing to do.

        Raises what ``OpenTable.commit`` raises, and ``CorruptData``.
        """
        async with self._parts.drains.setdefault(self._table.log.state.topic, asyncio.Lock()):
            own = self._table.log.state
            here = own.attachment
            if here is None:
                return False
            journal = self._parts.journals.get(here.journal)
            at = journal.state
            known = journal_topic(own, at)
            if known is None:
                return False
            bytes_max = self._parts.access.bounds.drain_bytes_max
            ends, parts = plan_drain(
                known, at.runs.of(known.topic_id), own.next_offsets, bytes_max=bytes_max, width=own.columns.width
            )
            is_typed = own.config.subjects.are_set
            records = await self._records(here.journal, known.topic_id, parts, is_typed=is_typed)
            access = self._parts.access
            drain = Drain(
                *(known, records, ends, access.new_id, access.type_records), unread_since_ms=self._unread_since_ms
            )
            try:
                with detached_from_call():
                    committed = await self._table.commit(drain)
            finally:
                self._unread_since_ms = drain.unread_since_ms
            if not committed.result:
                return False
            entry = make_drained_entry(known, ends, at.modification_time_ms)
            if entry is not None:
                journal.writer.note(entry)
            return committed.attempts > 0 or bool((ends != known.next_offsets).any())

    def _moved(self, reason: str) -> LastMove:
        return LastMove(self._parts.access.clock.now_ms(), reason)

    async def _new_attachment(self, topic_id: str, journal_number: int | None) -> Attachment | None:
        if journal_number is None:
            return None
        journal = self._parts.journals.get(journal_number)
        await journal.fresh()
        number = journal.state.topics.next_number(topic_id)
        return Attachment(journal_number, number, number)

    async def _overtake(self, topic_id: str, here: Attachment, journal: OpenJournal) -> None:
        move = TopicMove(here, here.following(journal.state.topics.next_number(topic_id)), topic_id=topic_id)
        try:
            with detached_from_call():
                await self._table.commit(MoveTopic(topic_id=topic_id, move=move))
        except (TopicMoved, UnknownTopic):
            return

    async def _records(
        self, journal: int, topic_id: str, parts: Sequence[tuple[SegmentRef, Sequence[UndrainedRun]]], *, is_typed: bool
    ) -> pa.Table:
        """Return the records of these runs, by partition and offset: those of a typed topic with the schemas by which they were
        judged."""
        read = self._parts.reader.read_judged if is_typed else self._parts.reader.read
        tables: list[tuple[int, int, pa.Table]] = []
        cold: list[JournalRunRef] = []
        for ref, runs in parts:
            for run in runs:
                table = self._in_memory(topic_id, run, is_typed=is_typed)
                if table is None:
                    cold.append(JournalRunRef(journal, ref, topic_id, run.partition, run.base_offset))
                else:
                    tables.append((run.partition, run.base_offset, table))
        for place in cold:
            try:
                table = await self._parts.read_pool.run(read, place)
            except StoreUnavailable as problem:
                raise BackOff(f"The store did not return the records to drain: {problem.detail}.") from problem
            tables.append((place.partition, place.base_offset, table))
        if not tables:
            return RECORD_SCHEMA.empty_table()
        tables.sort(key=lambda one: one[:2])
        return pa.concat_tables([table for _, _, table in tables]).combine_chunks()

    def _in_memory(self, topic_id: str, run: UndrainedRun, *, is_typed: bool) -> pa.Table | None:
        found = self._parts.tail.find(topic_id, run.partition, run.base_offset)
        if found is None or found.end_offset < run.end_offset:
            return None
        first = found.first_row + run.base_offset - found.base_offset
        records = found.flush.records.slice(first, run.record_count)
        if not is_typed:
            return records
        schemas = found.flush.schemas
        return with_schema_rows(records, None if schemas is None else schemas[first : first + run.record_count])
