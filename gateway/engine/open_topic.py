"""One topic as open in this gateway: its table, its writer, and the readers that wait for its records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from gateway.engine.bounds import PARTITION_STATE_BYTES, TOPIC_BYTES
from gateway.engine.early_flush import EarlyFlush
from gateway.engine.expired_on_arrival import ExpiredOnArrival
from gateway.engine.foreign_watch import ForeignWatch
from gateway.engine.maintenance_watch import MaintenanceWatch
from gateway.engine.manifest_budget import ManifestBudget
from gateway.engine.open_journal import Journals, OpenJournal
from gateway.engine.open_table import OpenTable, TableAccess
from gateway.engine.request_sequencer import RequestSequencer
from gateway.engine.tail_cache import TailCache
from gateway.engine.topic_appends import PendingBatch, TopicAppends
from gateway.engine.topic_mover import TopicMover, TopicMoverParts
from gateway.engine.waiters import DrainFlag, Waiters
from gateway.engine.writer import Writer
from gateway.memory_budget import Reservation
from log_format.checkpoints.topic_log import topic_table
from log_format.delta.change import TableChange
from log_format.delta.committer import Committed
from log_format.errors import BackOff, TidelogError, UnknownPartition, UnknownTopic
from log_format.journal.state import JournalState
from log_format.journal.topics import JournalTopic
from log_format.journal.view import AheadOfTable, is_open, may_have_left, overlay_journal
from log_format.topic.append import Batch
from log_format.topic.attachment import TopicMove
from log_format.topic.state import TopicState

ResultT = TypeVar("ResultT")

_log = logging.getLogger("gateway.topic")

_LOOKS_MAX = 10
"""Number of rounds of looking at a topic and its journal until both agree."""


class _View(NamedTuple):
    """A topic at a journal as readers see it."""

    own: TopicState
    """The table's state."""
    known: JournalTopic | int
    """The journal's state of the topic, or the number under which the journal closed it."""
    state: TopicState
    """Both as one state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicParts:
    """Parts that all topics of a gateway share. ``contended`` is set when another gateway keeps winning commits."""

    access: TableAccess
    tail: TailCache
    budget: ManifestBudget
    watch: MaintenanceWatch
    foreign: ForeignWatch
    contended: asyncio.Event
    draining: DrainFlag
    expired: ExpiredOnArrival
    moving: TopicMoverParts

    @property
    def journals(self) -> Journals:
        """The journals in use by this gateway."""
        return self.moving.journals


class OpenTopic(OpenTable[TopicState]):
    """A topic as open in this gateway. Thousands are, so parts that a quiet topic may never need are created on first use."""

    __slots__ = (
        "_parts",
        "_polling",
        "_sequencing",
        "_turn",
        "_view",
        "_waiters",
        "_writer",
        "appending",
        "moving",
        "name",
    )

    def __init__(self, name: str, parts: TopicParts) -> None:
        super().__init__(parts.access, topic_table(name), files=_segment_count)
        self.name = name
        self._waiters: Waiters | None = None
        self.moving = TopicMover(self, parts.moving)
        self.appending = TopicAppends(self, parts.access, parts.journals)
        self._sequencing: RequestSequencer | None = None
        self._writer: Writer | None = None
        self._view: _View | None = None
        self._parts = parts
        self._polling: asyncio.Task[None] | None = None
        self._turn = -1

    def next_sticky_number(self) -> int:
        """Return the next number of a counter of requests, for sticky round-robin over partitions."""
        self._turn += 1
        return self._turn

    @property
    def sequencing(self) -> RequestSequencer:
        """Order of the topic's idempotent requests."""
        if self._sequencing is None:
            self._sequencing = RequestSequencer(self, self._access, draining=self._parts.draining)
        return self._sequencing

    @property
    def waiters(self) -> Waiters:
        """Readers that wait for the topic's records."""
        if self._waiters is None:
            self._waiters = Waiters()
        return self._waiters

    @property
    def writer(self) -> Writer:
        """Writer of the topic's own commits."""
        if self._writer is None:
            self._writer = Writer(self, self._access, tail=self._parts.tail, contended=self._parts.contended)
        return self._writer

    @property
    def savings(self) -> EarlyFlush | None:
        """Savings of the topic, or of its journal, for early flushes; None: this gateway has written nothing to the topic."""
        if (journal := self.journal) is not None:
            return journal.writer.early
        return None if self._writer is None else self._writer.early

    def take_counts(self) -> tuple[int, int]:
        """Return the bytes of batches that came and the number of own flushes begun since the last call of this method."""
        if self._writer is None:
            return self.appending.take_sent_bytes(), 0
        self._writer.early.rest(asyncio.get_running_loop().time())
        return self.appending.take_sent_bytes(), self._writer.take_flush_count()

    @property
    def is_idle(self) -> bool:
        """Whether nothing needs this object, so that it may be dropped."""
        is_in_order = self._sequencing is None or self._sequencing.is_idle
        return self.appending.is_idle and super().is_idle and not self.is_awaited and is_in_order

    def count_memory(self) -> None:
        """Tell the budget roughly how much memory the state takes."""
        state = self.log.state
        manifest_bytes = state.manifest.memory_bytes
        history_bytes = state.producers.memory_bytes + state.transactions.memory_bytes
        total_bytes = TOPIC_BYTES + PARTITION_STATE_BYTES * state.partition_count + history_bytes + manifest_bytes
        self._parts.budget.set_bytes(self.name, total_bytes=total_bytes, manifest_bytes=manifest_bytes)

    @property
    def journal(self) -> OpenJournal | None:
        """Journal that the topic's appends go through, as far as is known; None: the topic has its own commits."""
        here = self.log.state.attachment
        return None if here is None else self._parts.journals.get(here.journal)

    @property
    def state(self) -> TopicState:
        """Newest known state: the table's, with what only its journal has."""
        try:
            return self._merged_state()
        except AheadOfTable:  # The next look at the table brings both together.
            own, view = self.log.state, self._view
            if view is None or view.own.topic_id != own.topic_id:
                return own
            return view.state if view.state.next_offsets.sum() >= own.next_offsets.sum() else own

    def _merged_state(self, at: JournalState | None = None) -> TopicState:
        """Return the newest state. ``at``: the journal's before the newest look at the table. Raises ``AheadOfTable``."""
        own, journal = self.log.state, self.journal
        if journal is None:
            return own
        looked, at = at is not None, at or journal.state
        known = at.topic(own.topic_id) or at.topics.closed_number(str(own.topic_id))
        if self._view is None or self._view.own is not own or self._view.known != known:
            if not looked and may_have_left(own, at):
                raise AheadOfTable
            self._view = _View(own, known, overlay_journal(own, at))
        return self._view.state

    async def fresh_with_table(self) -> TopicState:
        """Return a fresh state after a look at the table, whatever the journal says. Raises what ``fresh`` raises."""
        since_ms = self._access.clock.monotonic_ms()
        await super().fresh(since_ms)
        return await self.fresh(since_ms)

    async def fresh(self, arrival_ms: int | None = None) -> TopicState:
        """Return a fresh state. If the topic is open at its journal as known, only the journal is looked at.

        What retention and rewrites do to the table meanwhile is seen within ``table_look_ms``.
        """
        now_ms = self._access.clock.monotonic_ms()
        since_ms = now_ms if arrival_ms is None else arrival_ms
        if self.journal is None or not self._has_recent_table(now_ms):
            await super().fresh(since_ms)
        for _ in range(_LOOKS_MAX):
            journal, own = self.journal, self.log.state
            if journal is None:
                return own
            await journal.fresh(since_ms)
            if not is_open(self.log.state, journal.state):
                await super().fresh(since_ms)
            if self.log.state.attachment != own.attachment:
                continue
            try:
                return self._merged_state()
            except AheadOfTable:
                at = journal.state
                await super().fresh()
            with suppress(AheadOfTable):
                if self.log.state.attachment == own.attachment:
                    return self._merged_state(at)
        raise BackOff(f"Topic {self.name!r} moves between journal and table too often to be read.", topic=self.name)

    def is_fresh(self, since_ms: int) -> bool:
        """Return whether ``fresh(since_ms)`` would ask the store for nothing."""
        journal = self.journal
        if journal is not None and not is_open(self.log.state, journal.state):
            return False
        observed_ms = (self.log if journal is None else journal.log).observed_ms
        return observed_ms is not None and observed_ms > since_ms

    def is_polled(self) -> bool:
        """Return whether a look at the topic's journal is due within ``journal_poll_ms`` once a reader waits here."""
        now_ms = self._access.clock.monotonic_ms()
        since_ms = now_ms - self._access.bounds.journal_poll_ms - 1
        return self.journal is not None and self._has_recent_table(now_ms) and self.is_fresh(since_ms)

    def _has_recent_table(self, now_ms: int) -> bool:
        return now_ms - (self.log.observed_ms or 0) <= self._access.bounds.table_look_ms(self.log.state)

    @property
    def is_awaited(self) -> bool:
        """Whether a reader waits for the topic's records."""
        return bool(self._waiters)

    def on_journal_changed(self, before: JournalTopic | None, state: JournalState) -> None:
        """Wake the readers that wait for what has changed in the journal's knowledge of the topic.

        A gateway that commits what others received calls this for all of their topics, several times a second.
        """
        if self._sequencing is not None:
            self._sequencing.wake()
        own = self.log.state
        if own.attachment is None or own.attachment.journal != state.journal:
            return
        if self._view is not None and state.runs.of(own.topic_id) is None:
            _ = self.state  # Renews the view, since the old one keeps runs in memory that nothing else needs.
        known = state.topic(own.topic_id) if self._waiters else None
        if known is None:
            return
        if before is None or len(before.next_offsets) != len(known.next_offsets):
            self.waiters.wake_all()
        else:
            self.waiters.wake((known.next_offsets != before.next_offsets).nonzero()[0].tolist())

    def require_own_state(self) -> TopicState:
        """Return the table's own state, which has all settings and partitions. Raises ``UnknownTopic``."""
        state = self.log.state
        if not state.exists:
            raise UnknownTopic(self.name)
        return state

    def require_state(self) -> TopicState:
        """Return the state. Raises ``UnknownTopic`` when the topic does not exist in it."""
        state = self.state
        if not state.exists:
            raise UnknownTopic(self.name)
        return state

    def require_partition(self, partition: int) -> TopicState:
        """Return the state. Raises ``UnknownTopic``, ``UnknownPartition``."""
        state = self.require_state()
        if not 0 <= partition < state.partition_count:
            raise UnknownPartition(self.name, partition, state.partition_count)
        return state

    async def submit_in_order(self, batch: Batch, reservation: Reservation, deadline_ms: int) -> PendingBatch:
        """Wait for the request's predecessors by sequence, until ``deadline_ms`` (monotonic) at the latest, and submit the batch.

        The reservation is released even when this raises. Raises what ``submit`` and
        ``RequestSequencer.wait_for_predecessors`` raise.
        """
        try:
            if batch.stamp is not None:
                await self.sequencing.wait_for_predecessors(batch.stamp, deadline_ms)
            return self.submit(batch, reservation)
        except BaseException:
            reservation.release()
            raise

    def submit(self, batch: Batch, reservation: Reservation | None = None) -> PendingBatch:
        """Begin to append a batch that was routed for the topic's present incarnation.

        The reservation is released when the batch is settled. Raises ``BackOff`` (``DRAINING``, ``OVERLOADED``): then the
        caller keeps the reservation.
        """
        self._parts.draining.check()
        pending = self.appending.submit(batch, reservation)
        self._parts.expired.check(batch, self.log.state, self._access.clock.now_ms())
        if batch.stamp is not None:
            self.sequencing.track(batch.stamp, batch.counts, pending.settled)
        return pending

    def on_state_changed(self, before: TopicState) -> None:
        """Wake the readers that wait for what has changed since ``before``."""
        state = self.log.state
        self._parts.tail.drop_erased(before, state)
        self._wake_sequencing()
        if self._writer is not None and (state.topic_id != before.topic_id or state.config is not before.config):
            self._writer.reconsider()
        if self.is_awaited and state.topic_id != before.topic_id:
            self.waiters.wake_all()
        elif self.is_awaited:
            grown = (state.next_offsets[: before.partition_count] != before.next_offsets).nonzero()[0].tolist()
            self.waiters.wake([*grown, *range(before.partition_count, state.partition_count)])
        self._parts.watch.consider(self, state)
        self._parts.foreign.consider(self, before)
        self.count_memory()

    async def move(
        self,
        make: Callable[[TopicMove], TableChange[TopicState, ResultT]],
        *,
        joins: int | None,
        leaves: bool,
        reason: str,
        is_drained: bool = False,
    ) -> Committed[TopicState, ResultT]:
        """Commit a change of the topic (``TopicMover.change``). While the topic goes to a journal, its batches wait."""
        async with nullcontext() if joins is None else self.appending.hold_batches():
            return await self.moving.change(make, joins=joins, leaves=leaves, is_drained=is_drained, reason=reason)

    def poll_while_awaited(self) -> None:
        """Look at the log regularly for other gateways' commits, as long as a reader waits."""
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll())
            self._polling.add_done_callback(self._polling_ended)

    async def drain(self) -> None:
        """Flush and acknowledge all batches, wait until changes have ended, and stop looking at the log."""
        self._wake_sequencing()
        if self._writer is not None:
            await self._writer.drain()
        await self.appending.drain()
        await super().drain()
        if self._polling is not None:
            self._polling.cancel()

    def _wake_sequencing(self) -> None:
        if self._sequencing is not None:
            self._sequencing.wake()

    async def _poll(self) -> None:
        try:
            while self.is_awaited:
                pause_ms = self._next_look_ms() - self._access.clock.monotonic_ms()
                if pause_ms > 0:
                    await asyncio.sleep(pause_ms / 1000)
                    continue
                try:
                    await self.fresh()
                    self._attach()
                except BackOff:
                    await asyncio.sleep(self._access.bounds.log_poll_ms / 1000)
                except TidelogError as error:
                    _log.error("topic %s can't be followed: %s", self.name, error.detail)
                    self.waiters.wake_all()
                    return
        finally:
            self._polling = None  # Not in a callback: a reader that comes before it runs would wait without a look.

    def _attach(self) -> None:
        """Let the journal say that the topic is open there. Until it does, each look also reads the topic's own table."""
        own, journal = self.log.state, self.journal
        if journal is not None and own.exists and not is_open(own, journal.state):
            journal.attach(own)

    def _next_look_ms(self) -> int:
        bounds, journal = self._access.bounds, self.journal
        if journal is None:
            return (self.log.observed_ms or 0) + bounds.log_poll_ms
        return (journal.log.observed_ms or 0) + bounds.journal_poll_ms

    def _polling_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("looking for commits failed", exc_info=error)


def _segment_count(state: TopicState) -> int:
    return state.manifest.segment_count()
