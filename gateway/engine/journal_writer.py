"""A journal's writer: requests to many topics gather, are flushed (one object, one commit), and are acknowledged.

The rules of ``writer`` hold here too, but a flush has the batches of all topics at the journal. It is due when one batch has
waited for its topic's ``flush.ms``, or when ``flush_requests`` batches wait. The object has no offsets, so a flush is encoded
and uploaded once; a large flush is encoded in parallel with earlier flushes.

The gateway that is preferred for the journal takes the object up: this one (``offered_objects``), or another
(``journal_peers``). If that gateway does not, because a batch is refused or because it does not answer, this gateway commits
the flush by itself.

Used on the event loop only; blocking calls run in the pool.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gateway.engine.bounds import (
    BATCHES_WAITING_MAX,
    FLUSH_BATCHES_CAP,
    FLUSH_BYTES_CAP,
    JOURNAL_FLUSH_BYTES,
)
from gateway.engine.early_flush import EarlyFlush
from gateway.engine.flushes import Flushes
from gateway.engine.group_commit import IMMEDIATELY, EntryQueue, Group, GroupCommit, Pending
from gateway.engine.journal_peers import JournalPeers, OfferLost
from gateway.engine.offered_objects import OfferedObjects
from gateway.engine.open_table import OpenTable, ResultT, TableAccess
from gateway.engine.savings_watch import FlushReason, SavingsWatch
from gateway.engine.tail_cache import TailCache
from gateway.engine.writer import Acknowledgement
from log_format.delta.change import TableChange
from log_format.errors import OutcomeUnknown, TidelogError
from log_format.journal.append import AllOrNothingAppend, JournalAppend, RoutedBatch
from log_format.journal.entries import Entry, attach_entry_bytes
from log_format.journal.journal_object import EncodedObject
from log_format.journal.object_tags import TopicRuns
from log_format.journal.offer import Offer
from log_format.journal.reclaim import Reclaim, committed_bases
from log_format.journal.state import JournalState
from log_format.limits import JOURNAL_ATTACH_BYTES_MAX, JOURNAL_RUNS_MAX
from log_format.records.schema import BATCH_SCHEMA, RECORD_SCHEMA
from log_format.topic.append_outcome import AppendedRange, AppendResult

_log = logging.getLogger("gateway.journal")

_AHEAD_MAX: Final = 2
"""Number of flushes under way: one commits, the next uploads."""

PendingRouted = Pending[RoutedBatch, Acknowledgement]


class JournalSchedule:
    """Schedule of a journal's flushes: when the next is due, and how many batches it takes.

    ``ahead``: flushes under way. ``requests``: number of waiting batches that makes a flush due.
    """

    def __init__(
        self,
        table: OpenTable[JournalState],
        ahead: list[Group[RoutedBatch, Acknowledgement]],
        *,
        requests: int,
        early: EarlyFlush,
        watch: SavingsWatch,
    ) -> None:
        self._early = early
        self._watch = watch
        self._flush_seconds = inf
        """Shortest ``flush.ms``, in seconds, of the first ``_seen`` waiting batches."""
        self._table = table
        self._ahead = ahead
        self._requests = requests
        self._seen = 0
        self._earliest = inf
        """Earliest deadline of the first ``_seen`` waiting batches."""
        self._at_once: FlushReason | None = None
        """Reason why one of the waiting batches makes a flush due immediately; None if none does."""

    def due(self, waiting: EntryQueue[Any], now: float) -> float:
        """Return the first deadline of the waiting batches (``flush.ms`` of the topic after arrival), or an earlier time.
        O(batches that came since the last call)."""
        if len(waiting.entries) >= self._requests or waiting.size_bytes >= JOURNAL_FLUSH_BYTES:
            return IMMEDIATELY
        if len(waiting.entries) < self._seen:
            self._forget()
        for pending in waiting.entries[self._seen :]:
            config = pending.item.state.config
            if pending.item.batch.is_publication:
                self._at_once = "publication"
            elif pending.size_bytes >= config.integer("flush.bytes"):
                self._at_once = "size"
            flush_seconds = config.integer("flush.ms") / 1000
            self._flush_seconds = min(self._flush_seconds, flush_seconds)
            self._earliest = min(self._earliest, pending.arrived + flush_seconds)
        self._seen = len(waiting.entries)
        if self._at_once is not None:
            return IMMEDIATELY
        early = self._early.due(waiting, now, flush_seconds=self._flush_seconds, is_under_way=bool(self._ahead))
        return min(early, self._earliest)

    def has_room(self, waiting: EntryQueue[Any]) -> bool:
        """Return whether another flush may be encoded in addition to those under way."""
        del waiting
        return len(self._ahead) < _AHEAD_MAX

    def take(self, waiting: EntryQueue[Any], now: float) -> int:
        """Return how many batches a flush may take, within the limits for topics that it attaches."""
        is_full = len(waiting.entries) >= self._requests or waiting.size_bytes >= JOURNAL_FLUSH_BYTES
        reason = "size" if is_full else self._at_once or self._early.reason(self._earliest, now)
        self._watch.count_flush(reason)
        size = count = runs = attached_bytes = 0
        known = self._table.state.topics.by_id
        attached: set[str] = set()
        for pending in waiting.entries:
            own, batch = pending.item
            size += pending.size_bytes
            runs += len(batch.counts)
            topic = known.get(batch.topic_id)
            if (topic is None or not topic.is_open) and batch.topic_id not in attached:
                attached.add(batch.topic_id)
                attached_bytes += attach_entry_bytes(own)
            is_full = size > FLUSH_BYTES_CAP or attached_bytes > JOURNAL_ATTACH_BYTES_MAX
            if count and (is_full or count == FLUSH_BATCHES_CAP or runs > JOURNAL_RUNS_MAX):
                break
            count += 1
        flush_seconds = 0.0 if self._flush_seconds == inf else self._flush_seconds
        self._early.on_taken(waiting, count, now, flush_seconds, is_late=reason == "timer")
        self._forget()
        return count

    def _forget(self) -> None:
        self._seen, self._earliest, self._flush_seconds, self._at_once = 0, inf, inf, None


class JournalWriter:
    """Writer of one journal. ``tail``: cache that receives each committed flush."""

    def __init__(
        self, table: OpenTable[JournalState], access: TableAccess, *, tail: TailCache, peers: JournalPeers
    ) -> None:
        self._number = table.state.journal
        self._table = table
        self._store = access.store
        self._peers = peers
        self.offered = OfferedObjects(table, access.metrics, take_notes=self.take_notes)
        self._pool = access.write_pool
        self._clock = access.clock
        self._new_id = access.new_id
        self._metrics = access.metrics
        self._tail = tail
        self._flushes: Flushes[Group[RoutedBatch, Acknowledgement]] = Flushes(table, access, "journals", _log)
        self.early = self._flushes.early
        self._notes: list[Entry] = []
        self.commits: GroupCommit[RoutedBatch, Acknowledgement] = GroupCommit(
            self._flush,
            schedule=JournalSchedule(
                *(table, self._flushes.ahead),
                requests=access.bounds.flush_requests,
                early=self.early,
                watch=access.metrics.savings,
            ),
            label=table.label,
            waiting_max=BATCHES_WAITING_MAX,
        )

    @property
    def is_idle(self) -> bool:
        """Whether no batch waits and no flush is under way."""
        return self.commits.is_idle and self.offered.is_idle

    @property
    def has_notes(self) -> bool:
        """Whether a note waits for the next flush."""
        return bool(self._notes)

    def note(self, entry: Entry) -> None:
        """Add a note to the next flush. The note may be lost: then the caller repeats it."""
        self._notes.append(entry)

    def take_notes(self) -> list[Entry]:
        """Return the notes that no flush has taken, and clear them."""
        notes, self._notes = self._notes, []
        return notes

    async def append_all_or_none(self, routed: Sequence[RoutedBatch]) -> AppendResult:
        """Commit the batches in one commit, all or none; return their places. Raises ``NotWhole``, and what ``OpenTable.commit``
        raises."""
        append = JournalAppend(routed, self._new_id)
        staged = await self._pool.run(append.stage, self._table.state, self._clock.now_ms())
        if staged is not None and append.offer is not None:
            await self._table.stage(staged)
        committed = await self._table.commit(AllOrNothingAppend(append))
        self._keep(append)
        return committed.result

    async def drain(self) -> None:
        """Flush all waiting batches; return when all are settled."""
        await self.commits.drain()
        await self.offered.drain()

    async def _flush(self, group: Group[RoutedBatch, Acknowledgement]) -> None:
        """Encode, upload, commit, and acknowledge a group."""
        append = JournalAppend(group.items, self._new_id)
        with self._flushes.under_way(group, group, self.commits.waiting):
            await self._flushes.upload(group, partial(append.stage, self._table.state, self._clock.now_ms()))
            result = await self._committed(append)
        group.settle(result)
        self._remember(group, append)

    async def _committed(self, append: JournalAppend) -> AppendResult:
        """Commit the flush by the gateway preferred for the journal, or here; return the outcomes."""
        offer = append.offer
        if offer is None:
            return await self._commit(append)
        if not self._peers.is_committed_elsewhere(self._number):
            taken = await self.offered.take(offer)
        else:
            try:
                taken = await self._peers.offer(self._number, offer)
            except OfferLost:
                return await self._reclaim(append, offer)
            if taken is not None:
                await self._catch_up(taken.version)
        return await self._commit(append) if taken is None else append.outcomes_at(taken.bases)

    async def _commit(self, change: TableChange[JournalState, ResultT]) -> ResultT:
        started = asyncio.get_running_loop().time()
        committed = await self._table.commit_serialized(change)
        self._metrics.commit_seconds.observe(asyncio.get_running_loop().time() - started)
        if committed.attempts:
            self._metrics.commit_attempts.observe(committed.attempts)
        return committed.result

    async def _reclaim(self, append: JournalAppend, offer: Offer) -> AppendResult:
        """Commit an object that another gateway may have taken up, unless it has; return the outcomes."""
        try:
            result = await self._commit(Reclaim(append, offer))
            if isinstance(result, int):
                bases = await self._pool.run(
                    committed_bases, self._store, self._table.log.table.root, result, offer.path
                )
                result = append.outcomes_at(bases)
        except OutcomeUnknown:
            raise
        except TidelogError as error:
            raise OutcomeUnknown(f"Another gateway may have stored these records: {error.detail}") from error
        return result

    async def _catch_up(self, version: int) -> None:
        """Refresh the state so that it has the acknowledged commit; a failure changes nothing."""
        if self._table.state.version < version:
            with suppress(TidelogError):
                await self._table.fresh()

    def _remember(self, group: Group[RoutedBatch, Acknowledgement], append: JournalAppend) -> None:
        """Keep the committed records in the tail cache, and count them."""
        self._flushes.acknowledged(group)
        if append.topic_runs:
            self._metrics.journal_flush_bytes.observe(group.size_bytes)
        self._keep(append)

    def _keep(self, append: JournalAppend) -> None:
        if append.topic_runs and append.staged is not None:
            records = with_offsets(append.staged.encoded, append.topic_runs)
            runs = [
                (of_topic.topic_id, AppendedRange(run.partition, run.base_offset, run.record_count))
                for of_topic in append.topic_runs
                for run in of_topic.runs
            ]
            self._tail.add_shared(records, runs, records.nbytes, schemas=append.staged.encoded.schemas)
            self._metrics.journal_flush_topics.observe(len(append.topic_runs))
            self._metrics.appended_records.inc(records.num_rows)


def with_offsets(encoded: EncodedObject, placed: Sequence[TopicRuns]) -> pa.Table:
    """Return all records of an object with their offsets: a table of ``RECORD_SCHEMA``, in the object's order."""
    runs = [run for of_topic in placed for run in of_topic.runs]
    counts = np.array([run.record_count for run in runs], np.int64)
    bases = np.array([run.base_offset for run in runs], np.int64)
    firsts = np.cumsum(counts) - counts
    offsets = np.arange(len(encoded.partitions), dtype=np.int64) + np.repeat(bases - firsts, counts)
    columns = [pa.array(encoded.partitions), pa.array(offsets)]
    columns += [encoded.records.column(name) for name in BATCH_SCHEMA.names]
    return pa.table(columns, schema=RECORD_SCHEMA)
