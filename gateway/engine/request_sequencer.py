"""Order of the idempotent requests to one topic by their sequences, before the writer sees them.

A request passes when its predecessors are in the log or on their way there: it shares their flush without waiting for an
acknowledgement. A request that is ahead of its predecessors waits. The commit may still refuse a request that passed: it
judges sequences (``log_format.topic.producers``). This module only orders, and keeps nothing that must last.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.engine.bounds import SEQUENCE_AHEAD_MAX
from gateway.engine.open_table import OpenTable, TableAccess
from gateway.engine.waiters import DrainFlag
from gateway.engine.writer import Acknowledgement
from gateway.problem import overloaded
from log_format.errors import ErrorCode, TidelogError
from log_format.topic.producer_id import has_partition
from log_format.topic.producers import (
    Counts,
    ProducerStamp,
    SequenceCheck,
    next_sequence,
    out_of_order_error,
    sequence_distance,
)
from log_format.topic.state import TopicState

_LOOK_MS: Final = 200
"""Interval of looks at the log while a request waits: its predecessors may come in through other gateways."""


class RequestSequencer:
    """Order of the idempotent requests to one topic."""

    __slots__ = ("_changed", "_clock", "_draining", "_table", "_under_way", "_waiting", "_waiting_max")

    def __init__(self, table: OpenTable[TopicState], access: TableAccess, *, draining: DrainFlag) -> None:
        self._table = table
        self._clock = access.clock
        self._waiting_max = access.bounds.sequences_waiting_max
        self._draining = draining
        self._under_way: dict[tuple[str, int], dict[int, int]] = {}
        """Sequences that passed and are not settled, each with the sequence that follows it; by producer id and epoch."""
        self._waiting = 0
        self._changed: asyncio.Event | None = None
        """Event that is set at the next change; created when a request waits: most topics never need one."""

    @property
    def is_idle(self) -> bool:
        """Whether no request waits here, and no request that passed is under way."""
        return not self._waiting and not self._under_way

    def wake(self) -> None:
        """Let waiting requests check their predecessors again."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def wait_for_predecessors(self, stamp: ProducerStamp, deadline_ms: int) -> None:
        """Wait until the request may be submitted: its predecessors have passed, or the commit has to judge it.

        The caller must submit the request and call ``under_way`` before it awaits anything else. Raises ``RequestRefused``
        (``SEQUENCE_OUT_OF_ORDER``) when the request is too far ahead, or still ahead at ``deadline_ms`` (monotonic);
        ``BackOff``.
        """
        arrived_ms = self._clock.monotonic_ms()
        if self._missing_before(stamp) is None:
            return
        if self._waiting >= self._waiting_max:
            raise overloaded("Too many idempotent requests wait for earlier ones of their producers.")
        self._waiting += 1
        try:
            await self._table.fresh(arrived_ms)
            while (refusal := self._missing_before(stamp)) is not None:
                left_ms = deadline_ms - self._clock.monotonic_ms()
                if left_ms <= 0 or _is_too_far_ahead(stamp, refusal.fields["expected_sequence"]):
                    raise refusal
                self._draining.check()
                await self._change(min(left_ms, _LOOK_MS))
        finally:
            self._waiting -= 1

    def track(self, stamp: ProducerStamp, counts: Counts, settled: asyncio.Future[Acknowledgement]) -> None:
        """Note that the request was submitted, with ``counts`` records; ``settled`` is done when its outcome is known."""
        lane = (stamp.producer_id, stamp.epoch)
        self._under_way.setdefault(lane, {})[stamp.sequence] = next_sequence(stamp, counts)
        settled.add_done_callback(lambda _: self._settled(lane, stamp.sequence))
        self.wake()

    def _settled(self, lane: tuple[str, int], sequence: int) -> None:
        sequences = self._under_way.get(lane, {})
        sequences.pop(sequence, None)
        if not sequences:
            self._under_way.pop(lane, None)
        self.wake()

    def _missing_before(self, stamp: ProducerStamp) -> TidelogError | None:
        """Return the refusal if requests before this one are missing; None when it passes."""
        state = self._table.state
        if not state.exists:
            return None
        producers = state.producers
        expiration_ms = state.config.integer("producer.id.expiration.ms")
        verdict = SequenceCheck(producers, self._clock.now_ms(), expiration_ms).judge(stamp)
        if not isinstance(verdict, TidelogError) or verdict.code is not ErrorCode.SEQUENCE_OUT_OF_ORDER:
            return None
        expected = producers.expected_sequence(stamp.producer_id, stamp.epoch)
        under_way = self._under_way.get((stamp.producer_id, stamp.epoch), {})
        while expected in under_way:
            expected = under_way[expected]
        return out_of_order_error(stamp, expected) if sequence_distance(stamp, expected) > 0 else None

    async def _change(self, wait_ms: int) -> None:
        started_ms = self._clock.monotonic_ms()
        changed = self._changed = self._changed or asyncio.Event()
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await changed.wait()
        except TimeoutError:
            await self._table.fresh(started_ms)


def _is_too_far_ahead(stamp: ProducerStamp, expected: int) -> bool:
    """Return whether too many requests are missing. A Kafka client's sequences count records, so they do not tell."""
    return not has_partition(stamp.producer_id) and stamp.sequence - expected > SEQUENCE_AHEAD_MAX
