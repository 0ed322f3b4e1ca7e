"""One topic's writer: requests gather, are flushed (one segment, one commit), and are acknowledged.

1. A batch is acknowledged only after it is committed in the store.
2. A flush begins ``flush.ms`` after its first batch came, or as soon as it has ``flush.bytes`` or ``flush_requests`` batches,
   or immediately while draining; or early, paid from savings (``early_flush``). Batches that arrive while a flush is encoded
   and uploaded share the next one (``group_commit``).
3. Commits go one after another. So each flush is uploaded before its turn to commit, in parallel with earlier flushes; a large
   flush is also encoded in parallel. A flush is encoded for the offsets that it gets if all earlier flushes succeed. When one
   does not, the committer encodes the flush anew. A small flush with no earlier flush under way is judged, encoded, uploaded and
   committed in one call of one thread: changing threads costs more than it saves.
4. Batches keep the order in which they were submitted.
5. A batch's reservation is held until the batch is settled, even when its caller has given up waiting.

Used on the event loop only; blocking calls run in the pool.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from gateway.engine.bounds import (
    BATCHES_WAITING_MAX,
    FLUSH_BATCHES_CAP,
    FLUSH_BYTES_CAP,
    FLUSHES_AHEAD_MAX,
)
from gateway.engine.contention import Contention
from gateway.engine.early_flush import EarlyFlush
from gateway.engine.flushes import Flushes
from gateway.engine.group_commit import IMMEDIATELY, EntryQueue, Group, GroupCommit
from gateway.engine.open_table import OpenTable, TableAccess
from gateway.engine.savings_watch import FlushReason, SavingsWatch
from gateway.engine.tail_cache import Original, Originals, TailCache
from log_format.delta.committer import Committed
from log_format.delta.log import TableLog
from log_format.topic.append import Append, Batch
from log_format.topic.append_outcome import AppendedRange, AppendResult, Duplicate
from log_format.topic.partition_offsets import Offsets
from log_format.topic.state import TopicState

_log = logging.getLogger("gateway.writer")

OffsetRanges = tuple[AppendedRange, ...]
Acknowledgement = OffsetRanges | Duplicate
"""Outcome of an acknowledged batch: where its records are, from this request or from an earlier try of it."""

ONE_STEP_FLUSH_BYTES_MAX: Final = 256 * 1024
"""Bytes of records up to which a flush is committed in one step. The five batches that Java's producer has under way by default
have about 100 KiB with their columns."""


@dataclass(slots=True, eq=False)
class Flush:
    """A flush under way. ``counts``: number of records that each partition gets if nothing is refused.

    ``predicted``: state and next offsets that the flush is encoded for; None if they can't be foreseen.
    """

    group: Group[Batch, Acknowledgement]
    append: Append
    counts: dict[int, int]
    predicted: tuple[TopicState, Offsets] | None


class FlushSchedule:
    """Schedule of a topic's flushes: when the next is due, and how many batches it takes.

    ``ahead``: flushes under way. ``requests``: number of waiting batches that makes a flush due.
    """

    def __init__(
        self,
        log: TableLog[TopicState],
        ahead: list[Flush],
        *,
        requests: int,
        early: EarlyFlush,
        watch: SavingsWatch,
    ) -> None:
        self._log = log
        self._watch = watch
        self._early = early
        self._ahead = ahead
        self._requests = requests
        self._seen = 0
        self._is_publishing = False
        """Whether one of the first ``_seen`` waiting batches is a publication of delayed records, which makes a flush due
        immediately."""

    def due(self, waiting: EntryQueue[Any], now: float) -> float:
        """Return ``flush.ms`` after the first batch came, or an earlier time."""
        if self._at_once(waiting) is not None:
            return IMMEDIATELY
        flush_seconds = self._flush_seconds()
        early = self._early.due(waiting, now, flush_seconds=flush_seconds, is_under_way=bool(self._ahead))
        return min(early, waiting.entries[0].arrived + flush_seconds)

    def has_room(self, waiting: EntryQueue[Any]) -> bool:
        """Return whether another flush may be encoded in addition to those under way."""
        # Two flushes keep the commits busy; a third would only wait longer for its commit, unless it has the full size. If other
        # gateways commit too, a flush encoded ahead is likely to be encoded again.
        if len(self._ahead) <= 1:
            return True
        state = self._log.state
        if waiting.size_bytes < self._flush_bytes() or (state.exists and state.config.integer("owners") > 1):
            return False
        size = sum(flush.group.size_bytes for flush in self._ahead) + min(waiting.size_bytes, FLUSH_BYTES_CAP)
        return len(self._ahead) < FLUSHES_AHEAD_MAX and size <= 2 * FLUSH_BYTES_CAP

    def take(self, waiting: EntryQueue[Any], now: float) -> int:
        """Return how many batches a flush may take."""
        timer_at = waiting.entries[0].arrived + self._flush_seconds()
        reason = self._at_once(waiting) or self._early.reason(timer_at, now)
        self._watch.count_flush(reason)
        size = count = 0
        for pending in waiting.entries:
            size += pending.size_bytes
            if count and (size > FLUSH_BYTES_CAP or count == FLUSH_BATCHES_CAP):
                break
            count += 1
        self._seen, self._is_publishing = 0, False
        self._early.on_taken(waiting, count, now, self._flush_seconds(), is_late=reason == "timer")
        return count

    def _at_once(self, waiting: EntryQueue[Any]) -> FlushReason | None:
        """Return why the waiting batches are flushed immediately, whoever sent them; None: they are not."""
        if len(waiting.entries) >= self._requests or waiting.size_bytes >= self._flush_bytes():
            return "size"
        if self._has_publication(waiting):
            return "publication"
        state = self._log.state
        if not state.exists or state.topic_id != waiting.entries[0].item.topic_id:
            return "refused"  # The batch will be refused, so there is no reason to wait for more.
        return None

    def _has_publication(self, waiting: EntryQueue[Any]) -> bool:
        if len(waiting.entries) < self._seen:
            self._seen, self._is_publishing = 0, False
        new, self._seen = waiting.entries[self._seen :], len(waiting.entries)
        self._is_publishing = self._is_publishing or any(pending.item.is_publication for pending in new)
        return self._is_publishing

    def _flush_seconds(self) -> float:
        return self._log.state.config.integer("flush.ms") / 1000

    def _flush_bytes(self) -> int:
        return min(self._log.state.config.integer("flush.bytes"), FLUSH_BYTES_CAP)


class Writer:
    """Writer of one topic. ``tail``: cache that receives each committed flush; ``contended`` is set when commits are lost in a
    row."""

    def __init__(
        self, table: OpenTable[TopicState], access: TableAccess, *, tail: TailCache, contended: asyncio.Event
    ) -> None:
        self._table = table
        self._pool = access.write_pool
        self._new_id = access.new_id
        self._type_records, self._know_schemas = access.type_records, access.know_schemas
        self._metrics = access.metrics
        self._bounds = access.bounds
        self._tail = tail
        self._contention = Contention()
        self._contended = contended
        self._flush_count = 0
        self._flushes: Flushes[Flush] = Flushes(table, access, "topics", _log)
        self.early = self._flushes.early
        self.commits: GroupCommit[Batch, Acknowledgement] = GroupCommit(
            self._flush,
            schedule=FlushSchedule(
                *(table.log, self._flushes.ahead),
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
        return self.commits.is_idle

    def take_flush_count(self) -> int:
        """Return the number of flushes begun since the last call of this method."""
        count, self._flush_count = self._flush_count, 0
        return count

    def reconsider(self) -> None:
        """Ask the schedule again, since the topic or its settings changed."""
        self.commits.reconsider()

    async def drain(self) -> None:
        """Flush all waiting batches immediately; return when all are settled."""
        await self.commits.drain()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _flush(self, group: Group[Batch, Acknowledgement]) -> None:
        """Encode, upload, commit, and acknowledge a group."""
        self._flush_count += 1
        subjects = self._table.state.config.subjects
        if subjects.are_set and any(batch.is_promised for batch in group.items):
            await self._know_schemas(subjects)
        append = Append(group.items, self._new_id, self._type_records)
        flush = Flush(group, append, append.counts(), self._predicted())
        is_one_step = not self._flushes.ahead and group.is_next and group.size_bytes <= ONE_STEP_FLUSH_BYTES_MAX
        with self._flushes.under_way(flush, group, self.commits.waiting):
            if is_one_step:
                group.allow_next()
            else:
                stage = None if flush.predicted is None else partial(append.stage, *flush.predicted)
                await self._flushes.upload(group, stage)
            committed = await self._commit(flush)
        group.settle(committed.result)
        self._remember(flush, committed)

    def _predicted(self) -> tuple[TopicState, Offsets] | None:
        """Return the state and next offsets that the next flush will probably meet; None when they can't be foreseen."""
        state = self._table.state
        base = self._table.commit_base or state
        if base.topic_id != state.topic_id or base.partition_count != state.partition_count:
            return None
        next_offsets = base.next_offsets.copy()
        for flush in self._flushes.ahead:
            for partition, count in flush.counts.items():
                if partition >= len(next_offsets):
                    return None
                next_offsets[partition] += count
        return state, next_offsets

    async def _commit(self, flush: Flush) -> Committed[TopicState, AppendResult]:
        started = self._now()
        lost = True  # Also if it fails: others may have been faster every time.
        try:
            committed = await self._table.commit_serialized(flush.append)
            lost = committed.attempts > 1
        finally:
            if (not lost or flush.append.is_uploaded) and self._contention.notice(self._table.state, lost=lost):
                self._contended.set()
        if committed.staged_ms is not None:
            self._metrics.stage_seconds.observe(committed.staged_ms / 1000)
        self._metrics.commit_seconds.observe(self._now() - started - (committed.staged_ms or 0) / 1000)
        return committed

    def _remember(self, flush: Flush, committed: Committed[TopicState, AppendResult]) -> None:
        """Keep the committed records in the tail cache, and count them."""
        self._flushes.acknowledged(flush.group)
        if committed.attempts:
            self._metrics.commit_attempts.observe(committed.attempts)
        placed = flush.append.staged_records
        standing = [
            (batch.topic_id, places)
            for batch, places in zip(flush.group.items, committed.result, strict=True)
            if isinstance(places, tuple) and places
        ]
        if standing and placed is not None:
            runs = _runs(places for _, places in standing)
            self._tail.add(standing[0][0], placed, runs, flush.append.nbytes, _originals(flush, committed))
            self._metrics.appended_records.inc(sum(run.count for run in runs))


def _originals(flush: Flush, committed: Committed[TopicState, AppendResult]) -> Originals:
    """Return the originals of the committed batches, as far as their producers' bytes are kept."""
    found: dict[int, list[Original]] = {}
    for batch, places in zip(flush.group.items, committed.result, strict=True):
        if batch.original is not None and isinstance(places, tuple):
            for place in places:
                end_offset = place.base_offset + place.count
                found.setdefault(place.partition, []).append(Original(place.base_offset, end_offset, batch.original))
    return found


def _runs(places_of_batches: Iterable[OffsetRanges]) -> list[AppendedRange]:
    """Return the runs of a flush from the places of its batches, which follow each other in each partition."""
    bases: dict[int, int] = {}
    counts: dict[int, int] = {}
    for places in places_of_batches:
        for place in places:
            bases.setdefault(place.partition, place.base_offset)
            counts[place.partition] = counts.get(place.partition, 0) + place.count
    return [AppendedRange(partition, bases[partition], counts[partition]) for partition in sorted(bases)]
