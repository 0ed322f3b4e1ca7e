"""One topic's writer: requests gather, are flushed (one segment, one commit), and are acknowledged.

1. A batch is acknowledged only after its commit stands in the store.
2. A flush begins ``flush.ms`` after its first batch came, or when ``flush.bytes`` are there, or ``flush_requests`` batches, or at
   once while draining; or early, paid from savings (``early_flush``). Batches that arrive while it is encoded and uploaded share
   the next one (``group_commit``).
3. Commits go one after another, so each flush is uploaded before its turn, beside those before it, and a large one is also
   encoded beside them. It assumes the offsets that it gets if these all succeed. When one does not, the committer encodes the
   flush anew. A small flush that finds none before it is encoded, uploaded and committed by one thread at one go: changing
   threads costs more than it saves.
4. Batches keep the order in which they were submitted.
5. A batch's reservation is held until the batch is settled, even when its caller has given up waiting.

Belongs to the event loop; blocking calls run in the pool.
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
    ENCODED_BESIDE_BYTES_MIN,
    FLUSH_BATCHES_CAP,
    FLUSH_BYTES_CAP,
    FLUSHES_AHEAD_MAX,
)
from gateway.engine.contention import Contention
from gateway.engine.early_flush import EarlyFlush
from gateway.engine.group_commit import AT_ONCE, Group, GroupCommit, Waiting
from gateway.engine.open_table import OpenTable, TableAccess
from gateway.engine.savings_watch import FlushReason, SavingsWatch
from gateway.engine.tail_cache import Original, Originals, TailCache
from log_format.delta.committer import Committed, Committer
from log_format.delta.log import TableLog
from log_format.errors import TidelogError
from log_format.topic.append import Append, AppendResult, Batch
from log_format.topic.appended import Appended, Duplicate
from log_format.topic.state import Offsets, TopicState

_log = logging.getLogger("gateway.writer")

Places = tuple[Appended, ...]
Acknowledgement = Places | Duplicate
"""Where a batch's records are, from this request or from an earlier try of it."""

AT_ONE_GO_BYTES_MAX: Final = 64 * 1024
"""Up to so many bytes of records are encoded in less time than two changes of threads take."""


@dataclass(slots=True, eq=False)
class Flush:
    """A flush under way. ``counts``: how many records each partition gets if nothing is refused.

    ``predicted``: the state and offsets that it is encoded for, if any can be foreseen. ``staged_s``: how long the committing
    thread took to encode and upload it, 0 where that was done before; None until it is done.
    """

    group: Group[Batch, Acknowledgement]
    append: Append
    counts: dict[int, int]
    predicted: tuple[TopicState, Offsets] | None
    staged_s: float | None = None


class FlushSchedule:
    """When a topic's next flush is due, and how much it takes. ``ahead``: flushes that are under way.

    ``requests``: so many batches do not wait any longer.
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
        """Whether one of the first ``_seen`` batches that wait is a publication, which waits for none."""

    def due(self, waiting: Waiting[Any], now: float) -> float:
        """``flush.ms`` after the first batch came, or earlier."""
        if self._at_once(waiting) is not None:
            return AT_ONCE
        flush_seconds = self._flush_seconds()
        early = self._early.due(waiting, now, flush_seconds=flush_seconds, is_under_way=bool(self._ahead))
        return min(early, waiting.entries[0].arrived + flush_seconds)

    def has_room(self, waiting: Waiting[Any]) -> bool:
        """Whether another flush may be encoded beside those that have not ended."""
        # Two keep the commits busy; a third would only wait longer for its turn, unless it has the full size. Where others commit
        # too, a flush encoded ahead is likely to be encoded in vain.
        if len(self._ahead) <= 1:
            return True
        state = self._log.state
        if waiting.size_bytes < self._flush_bytes() or (state.exists and state.config.integer("owners") > 1):
            return False
        size = sum(flush.group.size_bytes for flush in self._ahead) + min(waiting.size_bytes, FLUSH_BYTES_CAP)
        return len(self._ahead) < FLUSHES_AHEAD_MAX and size <= 2 * FLUSH_BYTES_CAP

    def take(self, waiting: Waiting[Any], now: float) -> int:
        """As many batches as a flush may have."""
        timer_at = waiting.entries[0].arrived + self._flush_seconds()
        reason = self._at_once(waiting) or self._early.reason(timer_at, now)
        self._watch.began(reason)
        size = count = 0
        for pending in waiting.entries:
            size += pending.size_bytes
            if count and (size > FLUSH_BYTES_CAP or count == FLUSH_BATCHES_CAP):
                break
            count += 1
        self._seen, self._is_publishing = 0, False
        self._early.taken(waiting, count, now, self._flush_seconds(), is_late=reason == "timer")
        return count

    def _at_once(self, waiting: Waiting[Any]) -> FlushReason | None:
        """Why what waits is flushed at once, whoever sent it; None: it is not."""
        if len(waiting.entries) >= self._requests or waiting.size_bytes >= self._flush_bytes():
            return "size"
        if self._has_publication(waiting):
            return "publication"
        state = self._log.state
        if not state.exists or state.topic_id != waiting.entries[0].item.topic_id:
            return "refused"  # no reason to wait for more
        return None

    def _has_publication(self, waiting: Waiting[Any]) -> bool:
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
    """``tail`` gets the flushes that stand; ``contended`` is set when commits are lost in a row."""

    def __init__(
        self, table: OpenTable[TopicState], access: TableAccess, *, tail: TailCache, contended: asyncio.Event
    ) -> None:
        self._table = table
        self._pool = access.write_pool
        self._clock = access.clock
        self._new_id = access.new_id
        self._metrics = access.metrics
        self._bounds = access.bounds
        self._tail = tail
        self._contention = Contention()
        self._contended = contended
        self._flush_count = 0
        self._ahead: list[Flush] = []
        """Flushes that are under way, in the order of their commits."""
        bounds = access.bounds
        self.early = EarlyFlush.opened(
            *("topics", table.label, access), lambda: table.rested_seconds(table.state.modification_time_ms)
        )
        self.commits: GroupCommit[Batch, Acknowledgement] = GroupCommit(
            self._flush,
            schedule=FlushSchedule(
                *(table.log, self._ahead),
                requests=bounds.flush_requests,
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
        """Flushes begun since this was last called."""
        count, self._flush_count = self._flush_count, 0
        return count

    def reconsider(self) -> None:
        """The topic or its settings changed: waiting batches may be due now."""
        self.commits.reconsider()

    async def drain(self) -> None:
        """Flush all waiting batches at once; return when all are settled."""
        await self.commits.drain()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _flush(self, group: Group[Batch, Acknowledgement]) -> None:
        """Encode, upload, commit, acknowledge."""
        self._metrics.flush_bytes.observe(group.size_bytes)
        self._metrics.flush_batches.observe(len(group.pending))
        self._flush_count += 1
        append = Append(group.items, self._new_id)
        flush = Flush(group, append, append.counts(), self._predicted())
        try:
            if self._ahead or not group.is_next or group.size_bytes > AT_ONE_GO_BYTES_MAX:
                await self._upload(flush)
            else:
                self._ahead.append(flush)
                group.make_way()
            committed = await self._commit(flush)
        except TidelogError as error:
            _log.warning("a flush failed: %s: %s", error.code, error.detail)
            self._metrics.flush_failures.labels(str(error.code)).inc()
            raise
        finally:
            if flush in self._ahead:
                self._ahead.remove(flush)
            self.early.ended(self.commits.waiting, group.pending, asyncio.get_running_loop().time())
        group.settle(committed.result)
        self._remember(flush, committed)

    async def _upload(self, flush: Flush) -> None:
        """Encode and upload beside other flushes, and return when it is this flush's turn to commit."""
        started = self._now()
        self._ahead.append(flush)
        if flush.group.size_bytes >= ENCODED_BESIDE_BYTES_MIN:
            flush.group.make_way()
        try:
            segment = None if flush.predicted is None else await self._pool.run(flush.append.stage, *flush.predicted)
            flush.group.make_way()
            if segment is not None:
                await self._table.stage(segment)
                self._metrics.stage_seconds.observe(self._now() - started)
            flush.staged_s = 0.0
        finally:
            await flush.group.turn()

    def _stage(self, flush: Flush, committer: Committer[TopicState]) -> None:
        """Encode and upload in the committing thread, unless that is done."""
        if flush.staged_s is not None:
            return
        started_ms = self._clock.monotonic_ms()
        segment = None if flush.predicted is None else flush.append.stage(*flush.predicted)
        if segment is not None:
            committer.stage(segment)
        flush.staged_s = (self._clock.monotonic_ms() - started_ms) / 1000

    def _predicted(self) -> tuple[TopicState, Offsets] | None:
        """The state and next offsets that the next flush will probably meet; None when they can't be foreseen."""
        state = self._table.state
        base = self._table.commit_base or state
        if base.topic_id != state.topic_id or base.partition_count != state.partition_count:
            return None
        next_offsets = base.next_offsets.copy()
        for flush in self._ahead:
            for partition, count in flush.counts.items():
                if partition >= len(next_offsets):
                    return None
                next_offsets[partition] += count
        return state, next_offsets

    async def _commit(self, flush: Flush) -> Committed[TopicState, AppendResult]:
        started = self._now()
        is_at_one_go = flush.staged_s is None
        lost = True  # even where it fails: others may have been faster every time
        try:
            committed = await self._table.commit_in_turn(flush.append, prepare=partial(self._stage, flush))
            lost = committed.attempts > 1
        finally:
            if flush.staged_s is not None and self._contention.notice(self._table.state, lost=lost):
                self._contended.set()
        assert flush.staged_s is not None
        if is_at_one_go:
            self._metrics.stage_seconds.observe(flush.staged_s)
        self._metrics.commit_seconds.observe(self._now() - started - flush.staged_s)
        return committed

    def _remember(self, flush: Flush, committed: Committed[TopicState, AppendResult]) -> None:
        """Keep the committed records for readers, and count them."""
        now = asyncio.get_running_loop().time()
        for pending in flush.group.pending:
            self._metrics.acknowledgement_seconds.observe(now - pending.arrived)
        if committed.attempts:
            self._metrics.commit_attempts.observe(committed.attempts)
        placed = flush.append.placed
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
    """Of the batches that stand, those whose producers' bytes are here."""
    found: dict[int, list[Original]] = {}
    for batch, places in zip(flush.group.items, committed.result, strict=True):
        if batch.original is not None and isinstance(places, tuple):
            for place in places:
                end_offset = place.base_offset + place.count
                found.setdefault(place.partition, []).append(Original(place.base_offset, end_offset, batch.original))
    return found


def _runs(places_of_batches: Iterable[Places]) -> list[Appended]:
    """The runs of a flush from the places of its batches, which follow each other in each partition."""
    bases: dict[int, int] = {}
    counts: dict[int, int] = {}
    for places in places_of_batches:
        for place in places:
            bases.setdefault(place.partition, place.base_offset)
            counts[place.partition] = counts.get(place.partition, 0) + place.count
    return [Appended(partition, bases[partition], counts[partition]) for partition in sorted(bases)]
