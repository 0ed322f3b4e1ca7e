"""Appends to one topic, submitted to its own writer or to its journal's, wherever the topic is when they are committed.

A batch that a writer refuses with ``TopicMoved`` came too late: the topic has moved, or is being changed. The batch waits until
the topic takes appends again, and is submitted to the topic's new place. Batches keep their order, since they are refused and
submitted in order.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Final, Protocol, TypeVar

from gateway.call import current_call, detached_from_call, mark_committed
from gateway.engine.group_commit import Entry, GroupCommit
from gateway.engine.open_journal import Journals
from gateway.engine.open_table import TableAccess
from gateway.engine.outcome import settle
from gateway.engine.topic_mover import TopicMover
from gateway.engine.writer import Acknowledgement, Writer
from gateway.memory_budget import Reservation
from log_format.delta.log import TableLog
from log_format.errors import BackOff, TidelogError
from log_format.journal.append import RoutedBatch
from log_format.topic.append import Batch
from log_format.topic.attachment import TopicMoved
from log_format.topic.state import TopicState

ItemT = TypeVar("ItemT")

_MOVES_MAX = 10
"""Number of times that one batch is submitted again because its topic has moved."""
_ROW_OVERHEAD_BYTES = 12
"""Bytes of the partition and offset columns that a record gets when it is placed."""
_NUMBER: Final = attrgetter("number")


@dataclass(slots=True, eq=False)
class PendingBatch:
    """A batch under way. ``settled`` gets its places or its error; ``reservation`` holds its memory."""

    number: int
    """Place in the order of submission to the topic."""
    batch: Batch
    size_bytes: int
    settled: asyncio.Future[Acknowledgement]
    reservation: Reservation | None
    sender: Hashable = None
    """Connection of the call that submitted the batch."""
    moves: int = 0
    at: _Submitted[Any] | None = None
    """Submission to the writer where the batch waits or is written; None: it came too late, and waits to be submitted again."""


@dataclass(slots=True, eq=False)
class _Submitted(Entry[ItemT, Acknowledgement]):
    """A batch submitted to one writer. ``pending`` is None once that writer has settled the batch."""

    commits: GroupCommit[ItemT, Acknowledgement]
    pending: PendingBatch | None
    settled: Callable[[PendingBatch, Acknowledgement | TidelogError], None]

    def settle(self, outcome: Acknowledgement | TidelogError) -> None:
        """Settle the batch with its outcome, once (``Entry.settle``)."""
        pending, self.pending = self.pending, None
        if pending is not None:
            self.settled(pending, outcome)


class AppendTarget(Protocol):
    """The part of a topic that its appends need."""

    @property
    def log(self) -> TableLog[TopicState]:
        """Log of the topic's own table."""
        ...

    @property
    def writer(self) -> Writer:
        """Writer of the topic's own commits."""
        ...

    @property
    def moving(self) -> TopicMover:
        """Moves of the topic; tells when the topic takes appends again."""
        ...


class TopicAppends:
    """Appends of one topic."""

    __slots__ = (
        "_access",
        "_count",
        "_following",
        "_held",
        "_journals",
        "_late",
        "_sent_bytes",
        "_topic",
        "_under_way",
    )

    def __init__(self, topic: AppendTarget, access: TableAccess, journals: Journals) -> None:
        self._topic = topic
        self._access = access
        self._journals = journals
        self._sent_bytes = 0
        self._count = 0
        self._under_way: set[PendingBatch] | None = None
        """Batches not settled; None when there are none: an empty set takes as much memory as all else here."""
        self._following: asyncio.Task[None] | None = None
        self._held: asyncio.Event | None = None
        """Event that is set when batches are no longer held back; None when they are not."""
        self._late: list[PendingBatch] = []

    @property
    def is_idle(self) -> bool:
        """Whether no batch is under way and none is held back."""
        return not self._under_way and self._held is None

    def submit(self, batch: Batch, reservation: Reservation | None = None) -> PendingBatch:
        """Submit a batch that was routed for the topic's present incarnation. The reservation is released when the batch is
        settled.

        Raises ``BackOff`` (``OVERLOADED``): then the caller keeps the reservation.
        """
        size = batch.nbytes + batch.record_count * _ROW_OVERHEAD_BYTES
        self._count += 1
        call = current_call()
        sender = None if call is None else call.sender
        pending = PendingBatch(
            self._count, batch, size, asyncio.get_running_loop().create_future(), reservation, sender
        )
        if self._following is None and self._held is None:
            self._submit(pending)
        else:
            self._late.append(pending)  # Keeps the order of arrival.
        if self._under_way is None:
            self._under_way = set()
        self._under_way.add(pending)
        self._sent_bytes += size
        self._access.metrics.buffered_bytes += size
        return pending

    def take_sent_bytes(self) -> int:
        """Return the bytes of the batches that were submitted since the last call of this method."""
        sent, self._sent_bytes = self._sent_bytes, 0
        return sent

    async def await_acknowledgement(self, pending: PendingBatch) -> Acknowledgement:
        """Return where the batch's records are, once they are committed; mark the present call's change as committed.

        Raises ``UnknownTopic``, ``TopicReplaced``, ``RequestRefused`` (too large now), ``BackOff`` (nothing happened),
        ``OutcomeUnknown``.
        """
        state = self._topic.log.state
        flush_ms = state.config.integer("flush.ms") if state.exists else 0
        acknowledgement = await self._access.time_limits.outcome(
            pending.settled,
            partial(self._withdraw, pending),
            label=self._topic.log.table.label,
            taken_within_ms=flush_ms + self._access.bounds.produce_wait_ms_max,
            ends_within_ms=self._access.bounds.commit_wait_ms_max,
        )
        mark_committed()
        return acknowledgement

    async def drain(self) -> None:
        """Wait until all batches are settled."""
        if self._under_way:
            await asyncio.wait([pending.settled for pending in self._under_way])

    @asynccontextmanager
    async def hold_batches(self) -> AsyncIterator[None]:
        """Hold batches back while the topic moves or takes a large transaction; submit them again afterwards.

        Batches that no flush has taken are withdrawn. The context is entered once the flushes under way have ended, so that
        flushes and the change don't compete for versions. One context at a time: others wait.
        """
        while self._held is not None:
            await self._held.wait()
        held = self._held = asyncio.Event()
        try:
            if self._under_way:
                self._late += [pending for pending in self._under_way if self._take_back(pending)]
                await self._topic.writer.commits.wait_under_way()
            yield
        finally:
            self._held = None
            held.set()
            if self._following is None:
                self._submit_late()

    def _take_back(self, pending: PendingBatch) -> bool:
        if pending.at is None or not pending.at.commits.withdraw(pending.at):
            return False
        pending.at = None
        return True

    def _submit(self, pending: PendingBatch) -> None:
        own = self._topic.log.state
        if own.attachment is None:
            self._submit_to(self._topic.writer.commits, pending.batch, pending)
        else:
            journal = self._journals.get(own.attachment.journal)
            journal.check_room()
            commits = journal.writer.commits
            self._submit_to(commits, RoutedBatch(own, pending.batch), pending, own.topic)

    def _submit_to(
        self,
        commits: GroupCommit[ItemT, Acknowledgement],
        item: ItemT,
        pending: PendingBatch,
        payer: str | None = None,
    ) -> None:
        submitted = _Submitted(item, pending.size_bytes, commits, pending, self._settled)
        submitted.sender, submitted.payer = pending.sender, payer
        commits.enqueue(submitted)
        pending.at = submitted

    def _settled(self, pending: PendingBatch, outcome: Acknowledgement | TidelogError) -> None:
        if isinstance(outcome, TopicMoved) and pending.moves < _MOVES_MAX:
            pending.moves += 1
            pending.at = None
            self._late.append(pending)
            if self._following is None:
                with detached_from_call():
                    self._following = asyncio.create_task(self._follow())
        else:
            self._end(pending, outcome)

    def _withdraw(self, pending: PendingBatch) -> bool:
        """Withdraw the batch; return False if a flush has taken it. The caller settles it."""
        if pending.at is not None:
            if not self._take_back(pending):
                return False
        elif pending in self._late:
            self._late.remove(pending)
        else:
            return False
        self._release(pending)
        return True

    async def _follow(self) -> None:
        """Submit the batches that came too late to where the topic is now."""
        problem: TidelogError = BackOff(
            "Internal error while following a topic that moved: the records were not written."
        )
        try:
            await self._topic.moving.wait_reopened()
            if self._held is None:
                self._submit_late()
        except TidelogError as refusal:
            problem = refusal
            self._refuse_late(problem)
        finally:
            self._following = None
            if self._late and self._held is None:
                self._refuse_late(problem)

    def _submit_late(self) -> None:
        """Submit the batches that came too late in the order in which they came first."""
        late, self._late = sorted(self._late, key=_NUMBER), []
        for number, pending in enumerate(late):
            try:
                self._submit(pending)
            except TidelogError as refusal:
                for other in late[number:]:
                    self._end(other, refusal)
                break

    def _refuse_late(self, problem: TidelogError) -> None:
        late, self._late = self._late, []
        for pending in late:
            self._end(pending, problem)

    def _end(self, pending: PendingBatch, outcome: Acknowledgement | TidelogError) -> None:
        settle(pending.settled, outcome)
        self._release(pending)

    def _release(self, pending: PendingBatch) -> None:
        if self._under_way is not None:
            self._under_way.discard(pending)
            self._under_way = self._under_way or None
        self._access.metrics.buffered_bytes -= pending.size_bytes
        if pending.reservation is not None:
            pending.reservation.release()
