"""A queue that this gateway coordinates: its leases, and the settlements of its callers.

1. A settlement is checked and its records held immediately; it is written with the next commit, and only then answered. While
   it is under way nothing else touches its records.
2. The end of a lock is a release, written like any other. Until the release is in the store the record is not delivered.
3. A caller that goes away does not stop its settlement.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from gateway.call import detached_from_call
from gateway.engine.waiters import Wakeup
from gateway.queues.bounds import QueueBounds
from gateway.queues.dropped import Dropped, DropReports, Drops
from gateway.queues.leases import Leases
from gateway.queues.metrics import QueueMetrics
from gateway.queues.outcomes import LiveSettlement, ended_drops, ended_runs, released_runs, settled_drops, settled_runs
from gateway.queues.partitions import Partitions
from gateway.queues.promise import LockPromise
from gateway.queues.queue_partition import BUSY, HeldRange, Lease, QueuePartition
from gateway.queues.settled_leases import SettledLeases
from gateway.queues.settlement import EXPIRED, SETTLED, Result, Settlement, settled_as
from gateway.system_tables.queues import QueuesTable
from gateway.tasks.deadlines import Deadlines
from log_format.clock import Clock
from log_format.errors import OutcomeUnknown, TidelogError
from log_format.queues.changes import CoordinatorFenced, PrepareSettlement, SettleRuns, unknown_queue_error
from log_format.queues.row import Key, PartitionChange, PendingSettlement, QueueRow, QueueSettings
from log_format.queues.runs import Run
from log_format.queues.state import Queue

_log = logging.getLogger("gateway.queues")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueParts:
    """Parts that all queues of a gateway share."""

    table: QueuesTable
    clock: Clock
    deadlines: Deadlines
    settled_leases: SettledLeases
    metrics: QueueMetrics
    bounds: QueueBounds
    reports: DropReports


class LiveQueue:
    """A queue coordinated by this gateway. ``row``: row with which this gateway claimed it."""

    def __init__(self, row: QueueRow, parts: QueueParts) -> None:
        self.name = row.queue
        self.epoch = row.epoch
        self.queue_id = row.queue_id
        self.is_lost = False
        self.used_ms = parts.clock.monotonic_ms()
        """Monotonic time of the last call."""
        self.drops = Drops(row.queue, parts.reports)
        self.turn = 0
        """Position at which the next answer begins, so that no partition is always the last."""
        self.waiters: dict[Wakeup, None] = {}
        self.leases = Leases(
            self.name,
            self.epoch,
            parts.clock,
            parts.settled_leases,
            expect=lambda deadline_ms: parts.deadlines.expect(row.queue, deadline_ms),
            counted=parts.table.count_leases,
        )
        self.topics_version = 0
        """Number that is raised when the queue's topics or their partitions have changed."""
        self.promise = LockPromise(row, parts.table)
        self.moving: asyncio.Task[None] | None = None
        """Task that moves dead letters; None if none is under way."""
        self.redriving = asyncio.Lock()
        claimed_ms = parts.clock.monotonic_ms()
        self.blind_until_ms = claimed_ms + (parts.bounds.head_ms if row.inherited_ms else 0)
        """Time until which the previous coordinator may still give leases."""
        self.quiet_until_ms = self.blind_until_ms + row.inherited_ms
        """Time until the previous coordinator's last lease has expired."""
        self._parts = parts
        self._table = parts.table
        self._clock = parts.clock
        self._partitions = Partitions(row.queue, parts.clock)
        self._ended: list[HeldRange] = []
        """Parts whose locks have ended and are to be written."""
        self._flush_due_ms: int | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    # State
    @property
    def queue(self) -> Queue:
        """State of the queue in the table."""
        return self._table.state.queue(self.name)

    @property
    def is_current(self) -> bool:
        """Whether this gateway coordinates the queue, as far as the table is known here."""
        return not self.is_lost and self.queue.epoch == self.epoch

    @property
    def settings(self) -> QueueSettings:
        """The queue's settings. Raises ``RequestRefused`` (``UNKNOWN_QUEUE``) once it is deleted."""
        row = self.queue.row
        if row is None:
            raise unknown_queue_error(self.name)
        return row.settings

    @property
    def is_idle(self) -> bool:
        """Whether dropping this object loses nothing."""
        is_used = self.leases or self.waiters or self._under_way or self.moving is not None
        return not is_used and self._partitions.is_idle

    def share(self, topic: str, key: Key, log_start: int) -> QueuePartition:
        """Return a partition, as it is now."""
        return self._partitions.share(topic, key, log_start)

    @property
    def shares(self) -> dict[Key, QueuePartition]:
        """Partitions that were asked for."""
        return self._partitions.shares

    def follow(self) -> None:
        """Take up what the table has now: settlements that wait for transactions, and those that other gateways concluded."""
        if self.is_current and self._partitions.follow(self.queue):
            self._expect_due()
            self.wake_all()

    def wake_all(self) -> None:
        """Wake all waiting callers."""
        for wakeup in self.waiters:
            wakeup.set()

    # Leases

    async def relax(self) -> None:
        """Write that no lock is longer than the settings allow, once that is so. Raises what ``LockPromise.allow`` raises."""
        if self._clock.monotonic_ms() >= self.quiet_until_ms:
            await self.promise.relax(self.leases.parts)

    def leave_ms(self) -> int:
        """Give no more leases, and return for how long, in milliseconds, the present ones are still live."""
        self.is_lost = True
        now_ms = self._clock.monotonic_ms()
        deadlines = [held.deadline_ms for held in self.leases.parts]
        return max(0, self.quiet_until_ms - now_ms, *(deadline_ms - now_ms for deadline_ms in deadlines))

    def forget(self) -> None:
        """Drop the leases: this gateway does not coordinate the queue any more."""
        self.is_lost = True
        self.leases.clear()
        self.shares.clear()
        self._parts.deadlines.forget(self.name)
        self.wake_all()

    # Settling

    async def settle(self, settlements: Sequence[Settlement]) -> list[Result]:
        """Settle; return the result of each. Raises ``BackOff`` (nothing happened), ``OutcomeUnknown``, ``RequestRefused``."""
        await self._ready(settlements)
        results, checked = self._check(settlements, "")
        if checked:
            runs = settled_runs(checked, self.settings, self._clock.now_ms())
            lost = settled_drops(checked, self.settings)
            await self._complete(lambda: self._commit_settlements(runs, checked, lost))
        return results

    async def prepare(
        self,
        settlements: Sequence[Settlement],
        transaction_id: str,
        pending_id: str,
        stage: Callable[[], Awaitable[None]],
    ) -> list[Result]:
        """Settle in a transaction: records are held until it ends; ``stage`` goes before the commit. Raises as ``settle``."""
        await self._ready(settlements)
        results, checked = self._check(settlements, transaction_id)
        if checked:
            runs = settled_runs(checked, self.settings, self._clock.now_ms())
            back = released_runs(checked, self.settings)
            pending = PendingSettlement(
                pending_id=pending_id,
                queue=self.name,
                transaction_id=transaction_id,
                on_commit=tuple(share.change(some) for share, some in runs.items()),
                on_abort=tuple(share.change(some) for share, some in back.items()),
                prepared_at_ms=0,
            )
            await self._complete(lambda: self._commit_pending(pending, checked, stage))
        return results

    async def _ready(self, settlements: Sequence[Settlement]) -> None:
        """Wait until these settlements can be judged."""
        if self._under_way and any(map(self.leases.is_busy, settlements)):
            await asyncio.wait(set(self._under_way))  # The one under way may be the first try of a repeated settlement.
        renewed_ms = [one.lock_ms or self.settings.lock_ms for one in settlements if one.action == "renew"]
        if renewed_ms:
            await self.promise.allow(max(renewed_ms))
        if self.queue.row is None:
            raise unknown_queue_error(self.name)
        if not self.is_current:
            raise CoordinatorFenced(self.name)

    def _check(
        self, settlements: Sequence[Settlement], transaction_id: str
    ) -> tuple[list[Result], list[LiveSettlement]]:
        results: list[Result] = []
        checked: list[LiveSettlement] = []
        for settlement in settlements:
            found = self.leases.find(settlement, transaction_id)
            if found is None:
                is_known = self.leases.was_settled(settlement, transaction_id)
                results.append(SETTLED if is_known else EXPIRED)
                continue
            lease, parts = found
            if settlement.action == "renew":
                lock_ms = settlement.lock_ms or self.settings.lock_ms
                self.leases.lock(lease, parts, lock_ms)
                for part in parts:
                    part.is_begun |= settlement.begun
                results.append(Result(True, self._clock.now_ms() + lock_ms) if parts else EXPIRED)
                continue
            for part in parts:
                part.state = BUSY
            if parts:
                checked.append(LiveSettlement(settlement, parts))
            results.append(SETTLED)
        return results, checked

    async def _complete(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work to its end, whether or not the caller stays."""
        task = asyncio.ensure_future(work())
        self._keep(task)
        await asyncio.shield(task)

    def _keep(self, task: asyncio.Future[None]) -> None:
        assert isinstance(task, asyncio.Task)
        self._under_way.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()

    async def _commit_settlements(
        self, runs: Mapping[QueuePartition, Sequence[Run]], checked: Sequence[LiveSettlement], lost: Sequence[Dropped]
    ) -> None:
        try:
            await self.write(runs)
        except TidelogError as problem:
            self._resume_leases([part for one in checked for part in one.parts], problem)
            raise
        self.drops.tell(lost)
        self._end(checked, "")
        self._parts.metrics.settled.inc(sum(one.settlement.last - one.settlement.first + 1 for one in checked))

    async def _commit_pending(
        self, pending: PendingSettlement, checked: Sequence[LiveSettlement], stage: Callable[[], Awaitable[None]]
    ) -> None:
        held = [part for one in checked for part in one.parts]
        try:
            await stage()
        except TidelogError:
            self.leases.resume(held)
            raise
        self._partitions.preparing.add(pending.pending_id)
        try:
            await self._table.decide(PrepareSettlement(pending=pending, epoch=self.epoch))
        except TidelogError as problem:
            self._resume_leases(held, problem)
            raise
        finally:
            self._partitions.preparing.discard(pending.pending_id)
        self._note_ended(checked, pending.transaction_id)
        self._partitions.wait_for(pending.pending_id, held)
        self.leases.forget_empty(dict.fromkeys(part.leased_by for part in held if part.leased_by is not None))
        self.follow()

    def _resume_leases(self, held: Sequence[HeldRange], problem: TidelogError) -> None:
        """Go on with the leases after a failed write, or drop the queue if the outcome is unknown."""
        if isinstance(problem, OutcomeUnknown | CoordinatorFenced) or not self.is_current:
            # Claiming the queue anew shows what the table has.
            self.forget()
        else:
            self.leases.resume(held)

    def _end(self, checked: Sequence[LiveSettlement], transaction_id: str) -> None:
        self._note_ended(checked, transaction_id)
        leases: dict[Lease, None] = {}
        for part in (part for one in checked for part in one.parts):
            leases[part.lease] = None
            part.lease.share.release(part)
        self.leases.forget_empty(leases)
        self._parts.metrics.settlements.inc(len(checked))
        self.follow()
        self.wake_all()

    def _note_ended(self, checked: Sequence[LiveSettlement], transaction_id: str) -> None:
        for one in checked:
            ended_as = settled_as(one.settlement, transaction_id)
            for part in one.parts:
                part.lease.ended.append((part.first, part.last, ended_as))

    # Writing

    async def write(self, runs: Mapping[QueuePartition, Sequence[Run]], forgotten: Sequence[str] = ()) -> None:
        """Write settled ranges, with all noted ones. Raises ``BackOff``, ``OutcomeUnknown``, ``RequestRefused``."""
        noted = self._partitions.take_unwritten()
        self._flush_due_ms = None
        changes: list[PartitionChange] = [share.change(some) for share, some in noted.items()]
        changes += [share.change(some) for share, some in runs.items() if some]
        if not changes and not forgotten:
            return
        try:
            await self._table.decide(
                SettleRuns(queue=self.name, epoch=self.epoch, changes=tuple(changes), forgotten=tuple(forgotten))
            )
        except TidelogError:
            if noted and not self.is_lost:
                self.expect_flush(self._parts.bounds.retry_ms)
            raise
        for share, some in noted.items():
            share.written(some)
        self.follow()

    def expect_flush(self, within_ms: int) -> None:
        """Let noted ranges be written within this time."""
        due_ms = self._clock.monotonic_ms() + within_ms
        if self._flush_due_ms is None or due_ms < self._flush_due_ms:
            self._flush_due_ms = due_ms
            self._parts.deadlines.expect(self.name, due_ms)

    def tick(self) -> None:
        """End locks, wake callers for records whose time has come, and write noted ranges that are due."""
        if not self.is_current:
            return
        self.follow()
        now_ms = self._clock.monotonic_ms()
        self._ended += self.leases.ended()
        if self._ended:
            ended, self._ended = self._ended, []
            self._keep(asyncio.ensure_future(self._write_ended(ended)))
        elif self._flush_due_ms is not None and self._flush_due_ms <= now_ms:
            self._keep(asyncio.ensure_future(self._flush()))
        for share in self.shares.values():
            share.restart_search()
        self._expect_due()
        if (end_ms := self.leases.next_end_ms) is not None:
            self._parts.deadlines.expect(self.name, end_ms)
        self.wake_all()

    async def _write_ended(self, ended: Sequence[HeldRange]) -> None:
        now_ms = self._clock.now_ms()
        try:
            settings = self.settings
            with detached_from_call():
                await self.write(ended_runs(ended, settings, now_ms))
        except TidelogError as problem:
            if isinstance(problem, OutcomeUnknown | CoordinatorFenced) or not self.is_current:
                self.forget()
                return
            _log.info("locks of queue %s that ended are not written yet: %s", self.name, problem.detail)
            self._ended += ended
            self._parts.deadlines.expect(self.name, self._clock.monotonic_ms() + self._parts.bounds.retry_ms)
            return
        self._parts.metrics.ended_locks.inc(len(ended))
        self.drops.tell(ended_drops(ended, settings))
        for part in ended:
            part.lease.share.release(part)
            self.leases.forget_empty([part.lease])
        self.follow()
        self.wake_all()

    async def _flush(self) -> None:
        try:
            with detached_from_call():
                await self.write({})
        except TidelogError as problem:
            if isinstance(problem, OutcomeUnknown | CoordinatorFenced):
                self.forget()
            _log.info("records of queue %s that were left out are not written yet: %s", self.name, problem.detail)

    def _expect_due(self) -> None:
        now_ms = self._clock.now_ms()
        due_ms = self._partitions.next_due_ms(now_ms)
        if due_ms is not None:
            self._parts.deadlines.expect(self.name, self._clock.monotonic_ms() + due_ms - now_ms + 1)
