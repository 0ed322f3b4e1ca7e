"""A share group's queue, which has the group's name, as clients' sessions use it: records taken, settled, given back.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from gateway.engine.answer_memory import reserve_for_tail
from gateway.forwarding.queue_peers import QueuePeering
from gateway.kafka.shares.sessions import ShareSession
from gateway.log_engine import LogEngine
from gateway.memory_budget import Memory, Reservation
from gateway.queues.bounds import SETTLEMENTS_MAX
from gateway.queues.received import ReceiveWish
from gateway.queues.settlement import Result, Settlement
from gateway.queues.taken import PASSED_BYTES_MAX, Taken, taken
from log_format.errors import TidelogError

_log = logging.getLogger("gateway.kafka")


class SharedQueues:
    """Those of one gateway."""

    def __init__(self, engine: LogEngine, peering: QueuePeering) -> None:
        self._engine = engine
        self._peering = peering
        self._giving_back: set[asyncio.Task[None]] = set()

    async def take(self, queue: str, wish: ReceiveWish, memory: Memory) -> tuple[Taken, Reservation]:
        """Records, perhaps none, with their memory: release it once the answer is sent. Raises as ``Queues.receive``."""
        passed = await self._peering.take(queue, replace(wish, bytes_max=min(wish.bytes_max, PASSED_BYTES_MAX)))
        if passed is not None:
            # Without memory the records stay locked until their locks end.
            return passed, await reserve_for_tail(memory, passed.size_bytes)
        received = await self._engine.queues.receive(queue, wish, memory)
        lock_ms = received.locked_until_ms - self._engine.clock.now_ms()
        return taken(received, lock_ms), received.reservation

    async def settle(self, queue: str, settlements: list[Settlement]) -> list[Result]:
        """What became of each. Raises as ``Queues.settle``."""
        results = await self._peering.settle(queue, settlements)
        return await self._engine.queues.settle(queue, settlements) if results is None else results

    def give_back(self, session: ShareSession) -> None:
        """Release what a session has that is over, beside other work. What fails comes again when its lock ends."""
        settlements = release_of(session)
        if settlements:
            task = asyncio.create_task(self._give_back(session.group, settlements))
            self._giving_back.add(task)
            task.add_done_callback(self._given_back)

    async def _give_back(self, queue: str, settlements: list[Settlement]) -> None:
        for start in range(0, len(settlements), SETTLEMENTS_MAX):
            try:
                await self.settle(queue, settlements[start : start + SETTLEMENTS_MAX])
            except TidelogError as problem:
                _log.info("records of queue %s are released when their locks end: %s", queue, problem.detail)
                return

    def _given_back(self, task: asyncio.Task[None]) -> None:
        self._giving_back.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("giving records back failed", exc_info=error)


def release_of(session: ShareSession) -> list[Settlement]:
    """The release of all that a session has."""
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
