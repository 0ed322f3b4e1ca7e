"""One topic's writer: requests gather in a buffer, the buffer goes out as a flush (one segment, one commit), and is acknowledged.

1. A batch is acknowledged only after the commit that holds it stands in the store.
2. A flush begins ``flush.ms`` after its first batch came, or when ``flush.bytes`` are there, or at once while draining; what
   arrives while it is encoded and uploaded shares the next one (group commit).
3. Commits stand one behind another, so each flush is encoded and uploaded before its turn comes, side by side with those before
   it, for the offsets that it will get if they all succeed; when one does not, the committer encodes it anew.
4. Batches keep the order in which they were submitted.
5. Every submitted batch is settled exactly once, and its reservation is held until then: also when whoever submitted it
   has given up waiting.
6. Who loses commits in a row says so (``on_contended``), at the 2nd, 4th, 8th and so on: somebody else believes to be preferred
   for the topic, and one of the two is wrong. With ``owners`` above 1 it is to be expected, and nothing is said.

Belongs to the event loop; what blocks runs in the pool.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from gateway.engine.bounds import FLUSH_BATCHES_CAP, FLUSH_BYTES_CAP, FLUSHES_AHEAD_MAX
from gateway.engine.metrics import EngineMetrics
from gateway.engine.pool import Pool
from gateway.memory_budget import Reservation
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.committer import Committed, Committer
from log_format.errors import OutcomeUnknown, TidelogError
from log_format.ids import NewId
from log_format.topic.append import Append, AppendResult, Batch
from log_format.topic.appended import Appended, Duplicate
from log_format.topic.change import StagedSegment
from log_format.topic.state import Offsets, TopicState

_log = logging.getLogger("gateway.writer")

Places = tuple[Appended, ...]
Acknowledgement = Places | Duplicate
"""Where a batch's records are, by this request or by an earlier try of it."""
OnFlushed = Callable[[str, pa.Table, Sequence[Appended]], None]
"""Takes the topic's incarnation, and the records and runs (in order of partition) of a flush that stands."""

_ROW_OVERHEAD_BYTES: Final = 12
"""Partition and offset, which a record gets when it is placed."""


@dataclass(slots=True, eq=False)
class PendingBatch:
    """A batch on its way. ``settled`` gets its places or its error."""

    batch: Batch
    size_bytes: int
    reservation: Reservation | None
    arrived: float
    settled: asyncio.Future[Acknowledgement]

    def settle(self, outcome: Acknowledgement | TidelogError) -> None:
        """Tell whoever waits, and give the memory back. Only the first call counts."""
        if self.reservation is not None:
            self.reservation.release()
            self.reservation = None
        if not self.settled.done():
            if isinstance(outcome, TidelogError):
                self.settled.set_exception(outcome)
                self.settled.exception()  # seen, also when nobody waits any more
            else:
                self.settled.set_result(outcome)


@dataclass(slots=True, eq=False)
class _Flush:
    pending: list[PendingBatch]
    append: Append
    size_bytes: int
    counts: dict[int, int]
    """How many records each partition gets if nothing is refused."""


class Writer:
    """``commit_lock`` keeps a topic's commits one after another, whoever makes them."""

    def __init__(
        self,
        log: TopicLog,
        committer: Committer[TopicState],
        commit_lock: asyncio.Lock,
        *,
        pool: Pool,
        new_id: NewId,
        metrics: EngineMetrics,
        on_flushed: OnFlushed,
        on_commit_ended: Callable[[], None],
        on_contended: Callable[[], None],
    ) -> None:
        self._log = log
        self._committer = committer
        self._commit_lock = commit_lock
        self._pool = pool
        self._new_id = new_id
        self._metrics = metrics
        self._on_flushed = on_flushed
        self._on_commit_ended = on_commit_ended
        self._on_contended = on_contended
        self._lost_in_a_row = 0
        self._buffer: deque[PendingBatch] = deque()
        self._buffer_bytes = 0
        self._changed = asyncio.Event()
        self._draining = False
        self._running: asyncio.Task[None] | None = None
        self._flushes: list[_Flush] = []
        """Those that are encoded and have not ended, in the order of their commits."""
        self._newest: asyncio.Task[None] | None = None
        """What uploads and commits the last of them, after those before it."""
        self._base: TopicState | None = None
        """The state on which the first of them commits now; None between commits."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return self._running is None and not self._flushes

    def submit(self, batch: Batch, reservation: Reservation | None) -> PendingBatch:
        """Take a batch that was routed for the topic's present incarnation. The reservation is released when it is settled."""
        loop = asyncio.get_running_loop()
        size = batch.records.nbytes + batch.records.num_rows * _ROW_OVERHEAD_BYTES
        pending = PendingBatch(batch, size, reservation, loop.time(), loop.create_future())
        self._buffer.append(pending)
        self._buffer_bytes += size
        self._metrics.buffered_bytes.inc(size)
        if self._running is None:
            self._running = asyncio.create_task(self._run())
            self._running.add_done_callback(_report)
        elif self._buffer_bytes >= self._flush_bytes():
            self._changed.set()
        return pending

    def withdraw(self, pending: PendingBatch) -> bool:
        """Take a batch back whose flush has not begun; False when it has. The caller settles it."""
        try:
            self._buffer.remove(pending)
        except ValueError:
            return False
        self._buffer_bytes -= pending.size_bytes
        self._metrics.buffered_bytes.dec(pending.size_bytes)
        return True

    def reconsider(self) -> None:
        """The topic or its settings changed: what waits may be due now."""
        self._changed.set()

    async def drain(self) -> None:
        """Flush what is buffered without waiting for company; return when all of it is settled."""
        self._draining = True
        self._changed.set()
        while under_way := [task for task in (self._running, self._newest) if task is not None and not task.done()]:
            await asyncio.wait(under_way)

    def _flush_bytes(self) -> int:
        return min(self._log.state.config.integer("flush.bytes"), FLUSH_BYTES_CAP)

    async def _run(self) -> None:
        try:
            while self._buffer:
                await self._until_due()
                await self._until_room()
                flush = self._next_flush()
                if flush is not None:
                    await self._encode(flush)
        finally:
            # Not in a callback of the task: what is submitted before that is called would wait for a run that is over.
            self._running = None
            for pending in self._buffer:
                self._settle_unknown(pending)
            self._buffer.clear()
            self._buffer_bytes = 0

    async def _until_room(self) -> None:
        while True:
            self._changed.clear()
            if self._has_room():
                return
            await self._changed.wait()

    def _has_room(self) -> bool:
        """Whether another flush may be encoded beside those that have not ended."""
        state = self._log.state
        # Two keep the commits busy; a third would only wait longer for its turn, unless it is as large as it may be. And where
        # others commit too, what is encoded ahead is likely to be in vain.
        if len(self._flushes) <= 1:
            return True
        if self._buffer_bytes < self._flush_bytes() or (state.exists and state.config.integer("owners") > 1):
            return False
        size = sum(flush.size_bytes for flush in self._flushes) + min(self._buffer_bytes, FLUSH_BYTES_CAP)
        return len(self._flushes) < FLUSHES_AHEAD_MAX and size <= 2 * FLUSH_BYTES_CAP

    async def _until_due(self) -> None:
        while True:
            self._changed.clear()
            if self._draining or self._buffer_bytes >= self._flush_bytes() or not self._buffer:
                return
            state = self._log.state
            if not state.exists or state.topic_id != self._buffer[0].batch.topic_id:
                return  # it will be refused: no reason to wait for company
            due = self._buffer[0].arrived + state.config.integer("flush.ms") / 1000
            if due <= asyncio.get_running_loop().time():
                # One turn of the loop, so that what is arriving at this very moment comes along.
                await asyncio.sleep(0)
                return
            try:
                async with asyncio.timeout_at(due):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _next_flush(self) -> _Flush | None:
        taken: list[PendingBatch] = []
        size = 0
        while self._buffer and len(taken) < FLUSH_BATCHES_CAP:
            if taken and size + self._buffer[0].size_bytes > FLUSH_BYTES_CAP:
                break
            pending = self._buffer.popleft()
            size += pending.size_bytes
            taken.append(pending)
        self._buffer_bytes -= size
        if not taken:
            return None
        self._metrics.flush_bytes.observe(size)
        self._metrics.flush_batches.observe(len(taken))
        append = Append([pending.batch for pending in taken], self._new_id)
        return _Flush(taken, append, size, append.counts())

    async def _encode(self, flush: _Flush) -> None:
        """Encode, and leave the rest to a task of its own."""
        started = asyncio.get_running_loop().time()
        predicted = self._predicted()
        segment = None
        encoded = False
        try:
            if predicted is not None:
                segment = await self._pool.run(flush.append.stage, *predicted)
            encoded = True
        except TidelogError as error:
            self._fail(flush, error)
        finally:
            if not encoded:
                self._end(flush)
        if encoded:
            self._flushes.append(flush)
            self._newest = asyncio.create_task(self._finish(flush, segment, self._newest, started))
            self._newest.add_done_callback(_report)

    def _predicted(self) -> tuple[TopicState, Offsets] | None:
        """The state and next offsets that the next flush will probably meet; None when that can't be told."""
        state = self._log.state
        base = self._base or state
        if base.topic_id != state.topic_id or base.partition_count != state.partition_count:
            return None
        next_offsets = base.next_offsets.copy()
        for flush in self._flushes:
            for partition, count in flush.counts.items():
                if partition >= len(next_offsets):
                    return None
                next_offsets[partition] += count
        return state, next_offsets

    async def _finish(
        self, flush: _Flush, segment: StagedSegment | None, before: asyncio.Task[None] | None, started: float
    ) -> None:
        """Upload, wait for the turn, commit."""
        try:
            try:
                if segment is not None:
                    await self._pool.run(self._committer.stage, segment)
                    self._metrics.stage_seconds.observe(asyncio.get_running_loop().time() - started)
            finally:
                if before is not None:
                    await asyncio.wait((before,))
            await self._commit(flush)
        except TidelogError as error:
            self._fail(flush, error)
        finally:
            self._flushes.remove(flush)
            self._end(flush)
            self._changed.set()
            self._on_commit_ended()

    async def _commit(self, flush: _Flush) -> None:
        try:
            async with self._commit_lock:
                self._base = self._log.state
                started = asyncio.get_running_loop().time()
                committed = await self._pool.run(self._committer.commit, flush.append)
        except TidelogError:
            # Others may have been faster every time.
            self._notice_contention(lost=True)
            raise
        finally:
            self._base = None
        self._acknowledge(flush, committed)
        self._metrics.commit_seconds.observe(asyncio.get_running_loop().time() - started)
        self._notice_contention(lost=committed.attempts > 1)

    def _notice_contention(self, *, lost: bool) -> None:
        state = self._log.state
        is_shared = state.exists and state.config.integer("owners") > 1
        self._lost_in_a_row = self._lost_in_a_row + 1 if lost and not is_shared else 0
        if self._lost_in_a_row > 1 and self._lost_in_a_row.bit_count() == 1:
            self._on_contended()

    def _acknowledge(self, flush: _Flush, committed: Committed[TopicState, AppendResult]) -> None:
        # First of all, so that nothing that follows can take it back. Nobody hears of it before this turn of the loop is over.
        now = asyncio.get_running_loop().time()
        for pending, outcome in zip(flush.pending, committed.result, strict=True):
            pending.settle(outcome)
            self._metrics.acknowledgement_seconds.observe(now - pending.arrived)
        if committed.attempts:
            self._metrics.commit_attempts.observe(committed.attempts)
        records = flush.append.records
        standing = [
            (pending.batch.topic_id, places)
            for pending, places in zip(flush.pending, committed.result, strict=True)
            if isinstance(places, tuple) and places
        ]
        if standing and records is not None:
            self._on_flushed(standing[0][0], records, _runs(places for _, places in standing))
            self._metrics.appended_records.inc(records.num_rows)

    def _fail(self, flush: _Flush, error: TidelogError) -> None:
        _log.warning("a flush failed: %s: %s", error.code, error.detail)
        self._metrics.flush_failures.labels(str(error.code)).inc()
        for pending in flush.pending:
            pending.settle(error)

    def _end(self, flush: _Flush) -> None:
        self._metrics.buffered_bytes.dec(flush.size_bytes)
        for pending in flush.pending:
            self._settle_unknown(pending)

    def _settle_unknown(self, pending: PendingBatch) -> None:
        """What is not settled by now was met by an error that nobody foresaw."""
        if not pending.settled.done():
            pending.settle(OutcomeUnknown("The flush ended without an outcome.", topic=self._log.topic))


def _runs(places_of_batches: Iterable[Places]) -> list[Appended]:
    """The runs of a flush from the places of its batches, which follow each other in each partition."""
    bases: dict[int, int] = {}
    counts: dict[int, int] = {}
    for places in places_of_batches:
        for place in places:
            bases.setdefault(place.partition, place.base_offset)
            counts[place.partition] = counts.get(place.partition, 0) + place.count
    return [Appended(partition, bases[partition], counts[partition]) for partition in sorted(bases)]


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("the writer failed", exc_info=error)
