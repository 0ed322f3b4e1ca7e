"""The queue of a share group, which has the group's name: clients' sessions acquire, settle and release its records.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from gateway.engine.answer_memory import reserve_for_tail
from gateway.forwarding.peer_queues import PeerQueues
from gateway.kafka.shares.sessions import ShareSession
from gateway.log_engine import LogEngine
from gateway.memory_budget import Memory, Reservation
from gateway.queues.bounds import SETTLEMENTS_MAX
from gateway.queues.peer_messages import PASSED_BYTES_MAX, TakenRecords, taken_records
from gateway.queues.received import ReceiveRequest
from gateway.queues.settlement import Result, Settlement
from log_format.errors import TidelogError

_log = logging.getLogger("gateway.kafka")


class ShareQueues:
    """Access to the queues of all share groups, on this gateway or on the peer that coordinates the queue."""

    def __init__(self, engine: LogEngine, peering: PeerQueues) -> None:
        self._engine = engine
        self._peering = peering
        self._releasing: set[asyncio.Task[None]] = set()

    async def take(self, queue: str, wish: ReceiveRequest, memory: Memory) -> tuple[TakenRecords, Reservation]:
        """Acquire records, perhaps none, and return them with their memory: release it once the answer is sent. Raise as
        ``Queues.receive`` does."""
        passed = await self._peering.take(queue, replace(wish, bytes_max=min(wish.bytes_max, PASSED_BYTES_MAX)))
        if passed is not None:
            # If there is no memory, the records stay locked until their locks expire.
            return passed, await reserve_for_tail(memory, passed.size_bytes)
        received = await self._engine.queues.receive(queue, wish, memory)
        lock_ms = received.locked_until_ms - self._engine.clock.now_ms()
        return taken_records(received, lock_ms), received.reservation

    async def settle(self, queue: str, settlements: list[Settlement]) -> list[Result]:
        """Settle records, and return each settlement's result. Raise as ``Queues.settle`` does."""
        results = await self._peering.settle(queue, settlements)
        return await self._engine.queues.settle(queue, settlements) if results is None else results

    def release(self, session: ShareSession) -> None:
        """Release the records of a closed session in the background. If that fails, they are delivered again once their locks
        expire."""
        settlements = release_settlements(session)
        if settlements:
            task = asyncio.create_task(self._release(session.group, settlements))
            self._releasing.add(task)
            task.add_done_callback(self._on_released)

    async def _release(self, queue: str, settlements: list[Settlement]) -> None:
        for start in range(0, len(settlements), SETTLEMENTS_MAX):
            try:
                await self.settle(queue, settlements[start : start + SETTLEMENTS_MAX])
            except TidelogError as problem:
                _log.info("records of queue %s are released when their locks end: %s", queue, problem.detail)
                return

    def _on_released(self, task: asyncio.Task[None]) -> None:
        self._releasing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("giving records back failed", exc_info=error)


def release_settlements(session: ShareSession) -> list[Settlement]:
    """Return settlements that release all records of a session."""
    return [
        Settlement(
            topic=acquired.topic,
            partition=partition,
            first=one.first,
            last=one.last,
            lease=one.lease,
            action="release",
        )
        for (_, partition), acquired in session.acquired.items()
        for one in acquired.ranges
    ]
