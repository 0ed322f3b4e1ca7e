"""A topic's appends, by its own writer or by its journal's: wherever the topic is when they are committed.

A batch that its writer refuses with ``Attached`` came too late: the topic has moved, or is being changed. It waits until the
topic takes appends again, and is submitted there. Batches keep their order, since they are refused and submitted in order.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from gateway.call import stands, unasked
from gateway.engine.group_commit import GroupCommit, outcome_in_time, settle
from gateway.engine.open_journal import Journals
from gateway.engine.open_table import TableAccess
from gateway.engine.writer import Acknowledgement, Writer
from gateway.memory_budget import Reservation
from log_format.delta.log import TableLog
from log_format.errors import BackOff, TidelogError
from log_format.journal.append import Routed
from log_format.topic.append import Batch
from log_format.topic.attachment import Attached
from log_format.topic.state import TopicState

ItemT = TypeVar("ItemT")

_MOVES_MAX = 10
"""How often one batch follows its topic."""
_ROW_OVERHEAD_BYTES = 12
"""Partition and offset, which a record gets when it is placed."""


@dataclass(slots=True, eq=False)
class PendingBatch:
    """A batch under way. ``settled`` gets its places or its error."""

    batch: Batch
    size_bytes: int
    settled: asyncio.Future[Acknowledgement]
    moves: int = 0
    withdraw: Callable[[], bool] = lambda: False
    """Take the batch back; False where a flush has taken it."""

    def settle(self, outcome: Acknowledgement | TidelogError) -> None:
        """Only the first call counts."""
        settle(self.settled, outcome)


class Appending:
    """``log``: the topic's own. ``reopened`` returns once the topic takes appends again."""

    def __init__(
        self,
        log: TableLog[TopicState],
        access: TableAccess,
        own: Writer,
        journals: Journals,
        *,
        reopened: Callable[[], Awaitable[None]],
    ) -> None:
        self._log = log
        self._bounds = access.bounds
        self._metrics = access.metrics
        self._own = own
        self._journals = journals
        self._reopened = reopened
        self.sent_bytes = 0
        """Of all batches taken."""
        self._under_way: set[PendingBatch] = set()
        self._following: asyncio.Task[None] | None = None
        self._late: list[PendingBatch] = []

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._under_way

    def submit(self, batch: Batch, reservation: Reservation | None = None) -> PendingBatch:
        """Take a batch that was routed for the topic's present incarnation. The reservation is released when the batch is
        settled.

        Raises ``BackOff`` (``OVERLOADED``): then the caller keeps the reservation.
        """
        size = batch.records.nbytes + batch.records.num_rows * _ROW_OVERHEAD_BYTES
        pending = PendingBatch(batch, size, asyncio.get_running_loop().create_future())
        if self._following is None:
            self._submit(pending)
        else:
            self._wait_for_topic(pending)  # behind those that came before it
        self._under_way.add(pending)
        self.sent_bytes += size
        self._metrics.buffered_bytes.inc(size)
        pending.settled.add_done_callback(partial(self._let_go, pending, reservation))
        return pending

    async def acknowledged(self, pending: PendingBatch) -> Acknowledgement:
        """Where the batch's records are, once their commit stands; then the present call's change stands.

        Raises ``UnknownTopic``, ``TopicReplaced``, ``RequestRefused`` (too large now), ``BackOff`` (nothing happened),
        ``OutcomeUnknown``.
        """
        state = self._log.state
        flush_ms = state.config.integer("flush.ms") if state.exists else 0
        acknowledgement = await outcome_in_time(
            pending.settled,
            lambda: pending.withdraw(),  # noqa: PLW0108 - the one of the moment: the batch may move meanwhile
            label=self._log.table.label,
            taken_within_ms=flush_ms + self._bounds.produce_wait_ms_max,
            ends_within_ms=self._bounds.commit_wait_ms_max,
        )
        stands()
        return acknowledgement

    async def drain(self) -> None:
        """Flush all waiting batches of the topic's own writer; return when all are settled."""
        await self._own.drain()
        if self._under_way:
            await asyncio.wait([pending.settled for pending in self._under_way])

    def _submit(self, pending: PendingBatch) -> None:
        own = self._log.state
        if own.attachment is None:
            self._submit_to(self._own.commits, pending.batch, pending)
        else:
            journal = self._journals.get(own.attachment.journal)
            journal.check_room()
            commits = journal.writer.commits
            self._submit_to(commits, Routed(own, pending.batch), pending)

    def _submit_to(self, commits: GroupCommit[ItemT, Acknowledgement], item: ItemT, pending: PendingBatch) -> None:
        inner = commits.submit(item, pending.size_bytes)
        pending.withdraw = partial(commits.withdraw, inner)
        inner.settled.add_done_callback(partial(self._settled, pending))

    def _settled(self, pending: PendingBatch, inner: asyncio.Future[Acknowledgement]) -> None:
        error = inner.exception()
        if error is None:
            pending.settle(inner.result())
        elif isinstance(error, Attached) and pending.moves < _MOVES_MAX:
            pending.moves += 1
            self._wait_for_topic(pending)
            if self._following is None:
                with unasked():
                    self._following = asyncio.create_task(self._follow())
        else:
            assert isinstance(error, TidelogError)
            pending.settle(error)

    def _wait_for_topic(self, pending: PendingBatch) -> None:
        pending.withdraw = partial(self._withdraw_late, pending)
        self._late.append(pending)

    def _withdraw_late(self, pending: PendingBatch) -> bool:
        if pending not in self._late:
            return False
        self._late.remove(pending)
        return True

    async def _follow(self) -> None:
        """Submit the batches that came too late to where the topic is."""
        problem: TidelogError = BackOff("Following a topic that moved met a defect: this was not written.")
        try:
            await self._reopened()
            late, self._late = self._late, []
            for number, pending in enumerate(late):
                try:
                    self._submit(pending)
                except TidelogError as refusal:
                    for other in late[number:]:
                        other.settle(refusal)
                    break
        except TidelogError as refusal:
            problem = refusal
            self._refuse_late(problem)
        finally:
            self._following = None
            if self._late:
                self._refuse_late(problem)

    def _refuse_late(self, problem: TidelogError) -> None:
        late, self._late = self._late, []
        for pending in late:
            pending.settle(problem)

    def _let_go(self, pending: PendingBatch, reservation: Reservation | None, _settled: object) -> None:
        self._under_way.discard(pending)
        self._metrics.buffered_bytes.dec(pending.size_bytes)
        if reservation is not None:
            reservation.release()
