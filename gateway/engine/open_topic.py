"""One topic as this gateway has it: its table, its writer, and the readers that wait for its records."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from gateway.engine.bounds import PARTITION_STATE_BYTES, TOPIC_BYTES
from gateway.engine.maintenance_watch import MaintenanceWatch
from gateway.engine.manifest_budget import ManifestBudget
from gateway.engine.open_table import OpenTable, TableAccess
from gateway.engine.sequencing import Sequencing
from gateway.engine.tail_cache import TailCache
from gateway.engine.waiting import Draining, Waiters
from gateway.engine.writer import PendingBatch, Writer
from gateway.memory_budget import Reservation
from log_format.checkpoints.topic_log import topic_table
from log_format.errors import BackOff, TidelogError, UnknownPartition, UnknownTopic
from log_format.topic.append import Batch
from log_format.topic.state import TopicState

_log = logging.getLogger("gateway.topic")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicParts:
    """What the topics of a gateway share. ``contended`` is set when another gateway keeps winning commits."""

    access: TableAccess
    tail: TailCache
    budget: ManifestBudget
    watch: MaintenanceWatch
    contended: asyncio.Event
    draining: Draining


class OpenTopic(OpenTable[TopicState]):
    """Belongs to the event loop."""

    def __init__(self, name: str, parts: TopicParts) -> None:
        super().__init__(parts.access, topic_table(name), files=lambda state: state.manifest.segment_count())
        self.name = name
        self.waiters = Waiters()
        self.sequencing = Sequencing(self, parts.access, draining=parts.draining)
        self.writer = Writer(self, parts.access, tail=parts.tail, contended=parts.contended)
        self._parts = parts
        self._polling: asyncio.Task[None] | None = None
        self._turn = -1

    def next_in_turn(self) -> int:
        """Counts requests, for sticky round-robin over partitions."""
        self._turn += 1
        return self._turn

    @property
    def is_idle(self) -> bool:
        """Whether this object may be forgotten: nothing needs it."""
        return self.writer.is_idle and super().is_idle and not self.waiters and self.sequencing.is_idle

    def count_memory(self) -> None:
        """Tell the budget roughly how much memory the state takes."""
        state = self.log.state
        manifest_bytes = state.manifest.memory_bytes
        partitions_bytes = PARTITION_STATE_BYTES * state.partition_count
        history_bytes = state.producers.memory_bytes + state.transactions.memory_bytes
        total_bytes = TOPIC_BYTES + partitions_bytes + history_bytes + manifest_bytes
        self._parts.budget.hold(self.name, total_bytes=total_bytes, manifest_bytes=manifest_bytes)

    def existing(self) -> TopicState:
        """The state. Raises ``UnknownTopic`` when the topic does not exist in it."""
        state = self.log.state
        if not state.exists:
            raise UnknownTopic(self.name)
        return state

    def existing_with(self, partition: int) -> TopicState:
        """The state. Raises ``UnknownTopic``, ``UnknownPartition``."""
        state = self.existing()
        if not 0 <= partition < state.partition_count:
            raise UnknownPartition(self.name, partition, state.partition_count)
        return state

    async def submit_in_order(self, batch: Batch, reservation: Reservation, deadline_ms: int) -> PendingBatch:
        """As ``submit``, once it is the turn of the request's sequence: by ``deadline_ms`` (monotonic) at the latest.

        The reservation is released even when this raises. Raises as ``submit`` and ``Sequencing.turn``.
        """
        try:
            if batch.stamp is not None:
                await self.sequencing.turn(batch.stamp, deadline_ms)
            return self.submit(batch, reservation)
        except BaseException:
            reservation.release()
            raise

    def submit(self, batch: Batch, reservation: Reservation | None = None) -> PendingBatch:
        """Begin to append a batch that was routed for the topic's present incarnation.

        The reservation is released when the batch is settled. Raises ``BackOff`` (``DRAINING``, ``OVERLOADED``): then the caller
        keeps the reservation.
        """
        self._parts.draining.check()
        pending = self.writer.submit(batch, reservation)
        if batch.stamp is not None:
            self.sequencing.under_way(batch.stamp, pending.settled)
        return pending

    def moved(self, before: TopicState) -> None:
        """Wake the readers that wait for what has changed since."""
        state = self.log.state
        self.sequencing.wake()
        if state.topic_id != before.topic_id or state.config is not before.config:
            self.writer.reconsider()
        if state.topic_id != before.topic_id:
            self.waiters.wake_all()
        elif self.waiters:
            known = before.partition_count
            grown = (state.next_offsets[:known] != before.next_offsets).nonzero()[0].tolist()
            self.waiters.wake([*grown, *range(known, state.partition_count)])
        self._parts.watch.consider(self, state)
        self.count_memory()

    def poll_while_waited_for(self) -> None:
        """Look at the log regularly for other gateways' commits, as long as a reader waits."""
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll())
            self._polling.add_done_callback(self._polling_ended)

    async def drain(self) -> None:
        """Flush, acknowledge, close."""
        self.sequencing.wake()
        await self.writer.drain()
        await super().drain()
        if self._polling is not None:
            self._polling.cancel()

    async def _poll(self) -> None:
        try:
            while self.waiters:
                observed_ms = self.log.observed_ms or 0
                pause_ms = observed_ms + self._access.bounds.log_poll_ms - self._access.clock.monotonic_ms()
                if pause_ms > 0:
                    await asyncio.sleep(pause_ms / 1000)
                    continue
                try:
                    await self.look()
                except BackOff:
                    await asyncio.sleep(self._access.bounds.log_poll_ms / 1000)
                except TidelogError as error:
                    _log.error("topic %s can't be followed: %s", self.name, error.detail)
                    self.waiters.wake_all()
                    return
        finally:
            self._polling = None  # not in a callback: a reader that comes before it runs would wait without a look

    def _polling_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("looking for commits failed", exc_info=error)
