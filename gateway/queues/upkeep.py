"""A coordinator's background work: ends locks and delays, moves dead letters, concludes transactions, looks for new topics,
compacts the table.

A queue that is not in use costs nothing here: it is dropped from memory, and claimed again when it is called.

Used on the event loop only.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial

from gateway.call import detached_from_call
from gateway.cluster.ownership import Ownership
from gateway.queues.bounds import PARALLEL_QUEUES_MAX
from gateway.queues.coordinator import Coordinator
from gateway.queues.dead_letters import DeadLetters
from gateway.queues.live_queue import LiveQueue, QueueParts
from gateway.queues.watch import TopicWatch, look_logged
from gateway.system_tables.look_backoff import LookBackoff
from gateway.tasks.parallel import run_parallel
from gateway.tasks.supervised import SupervisedTasks
from log_format.errors import RequestRefused, TidelogError
from log_format.queues.changes import AllowLocks, CoordinatorFenced
from log_format.queues.runs import DEAD
from log_format.queues.state import Queue, QueuesState

_log = logging.getLogger("gateway.queues")


class Upkeep:
    """Background work for queues. Call ``start`` once the gateway serves."""

    def __init__(
        self,
        coordinator: Coordinator,
        parts: QueueParts,
        dead_letters: DeadLetters,
        watch: TopicWatch,
        *,
        ownership: Ownership,
    ) -> None:
        self._coordinator = coordinator
        self._parts = parts
        self._table = parts.table
        self._dead_letters = dead_letters
        self._watch = watch
        self._ownership = ownership
        self._clock = parts.clock
        self._adopting = LookBackoff(parts.bounds.adoption_ms)
        self._bounds = parts.bounds
        self._works = SupervisedTasks("queues", _log, pause_after_defect_ms=parts.bounds.pause_after_defect_ms)
        self._retry_ms: dict[str, int] = {}
        self._state: QueuesState | None = None
        """State of the table in which dead records were last looked for; None: they are to be looked for again."""

    def start(self) -> None:
        """Start the work."""
        bounds = self._bounds
        for work, pause_ms, what in (
            (self._tick, bounds.tick_ms, "the end of queues' locks"),
            (self._follow, bounds.followed_ms, "the look whether queues are still coordinated here"),
            (self._watch_topics, bounds.topics_watched_ms, "the watch for topics of queues"),
            (self._adopt, bounds.adoption_ms, "the adoption of queues"),
            (self._table.keep_small, bounds.compaction_ms, "the compaction of queues"),
        ):
            self._works.repeat(work, what, pause_ms=pause_ms)

    def stop(self) -> None:
        """Stop the work."""
        self._works.stop()

    async def _tick(self) -> None:
        await self._coordinator.wait_for_any()
        now_ms = self._clock.monotonic_ms()
        for name in self._parts.deadlines.due(now_ms):
            queue = self._coordinator.known(name)
            if queue is not None:
                queue.tick()
        if self._state is self._table.state and not self._retry_ms:
            return
        self._state = self._table.state
        for queue in self._coordinator:
            if queue.moving is None and queue.is_current and _has_dead(queue.queue):
                self._begin_moving(queue, now_ms)

    def _begin_moving(self, queue: LiveQueue, now_ms: int) -> None:
        if now_ms < self._retry_ms.get(queue.name, now_ms):
            return
        with detached_from_call():
            queue.moving = self._works.begin(self._move(queue))

    async def _move(self, queue: LiveQueue) -> None:
        """Move dead records until none is left that can be moved."""
        try:
            while queue.is_current and await self._dead_letters.move(queue):
                self._retry_ms.pop(queue.name, None)
            if _has_dead(queue.queue):
                self._retry_ms[queue.name] = self._clock.monotonic_ms() + self._bounds.retry_ms
        except TidelogError as problem:
            _log.info("dead records of queue %s are moved later: %s", queue.name, problem.detail)
            self._retry_ms[queue.name] = self._clock.monotonic_ms() + self._bounds.retry_ms
        finally:
            queue.moving = self._state = None

    async def _follow(self) -> None:
        queues = list(self._coordinator)
        if not any(queue.waiters or queue.leases or queue.queue.pending for queue in queues):
            return
        await self._table.recent(self._bounds.head_ms // 2)
        for queue in queues:
            if not queue.is_current:
                self._forget(queue)
                continue
            queue.follow()
            try:
                if queue.queue.pending and queue.moving is None:
                    await self._dead_letters.resolve(queue)
                await queue.relax()
            except TidelogError as problem:
                _log.info("work on queue %s is put off: %s", queue.name, problem.detail)

    async def _watch_topics(self) -> None:
        arrival_ms = self._clock.monotonic_ms()
        used, unused = list[LiveQueue](), list[LiveQueue]()
        for queue in self._coordinator:
            if not queue.is_current:
                self._forget(queue)
            elif arrival_ms - queue.used_ms < self._bounds.awake_ms or not queue.is_idle:
                used.append(queue)
            else:
                unused.append(queue)
        failed = await self._watch.refresh({name for queue in used for name in queue.settings.topics}, arrival_ms)
        news = [queue for queue in used if queue.is_current and self._has_news(queue, failed)]
        looks = [partial(look_logged, self._watch, queue, arrival_ms) for queue in news]
        works = [*looks, *(partial(self._drop_unused, queue) for queue in unused)]
        await run_parallel(lambda work: work(), works, limit=PARALLEL_QUEUES_MAX)

    def _has_news(self, queue: LiveQueue, failed: frozenset[str]) -> bool:
        return failed.isdisjoint(queue.settings.topics) and self._watch.has_news(queue)

    async def _drop_unused(self, queue: LiveQueue) -> None:
        """Drop an unused queue, which has no lease; note in the table that the next coordinator need not wait."""
        queue.is_lost = True
        with suppress(CoordinatorFenced, RequestRefused):
            await self._table.decide(AllowLocks(queue=queue.name, epoch=queue.epoch, lock_ms_max=0))
        self._forget(queue)

    def _forget(self, queue: LiveQueue) -> None:
        self._coordinator.forget(queue)
        self._watch.forget(queue)
        self._retry_ms.pop(queue.name, None)

    async def _adopt(self) -> None:
        seen = (self._ownership.view(), self._table.state.version)
        if not self._ownership.adopts_groups or not self._adopting.is_due(self._clock.monotonic_ms(), seen):
            return
        state = await self._table.recent(self._bounds.adoption_ms)
        left, recent = list[str](), list[str]()
        for name, queue in state.queues.items():
            has_work = queue.pending or _has_dead(queue)
            if (has_work or self._is_recent(queue)) and self._is_left(name):
                (left if has_work else recent).append(name)
        room = max(0, self._bounds.adopted_max - len(left) - sum(1 for _ in self._coordinator))
        left += recent[:room]
        if left:
            self._adopting.reset()
        await self._works.for_each(left, self._coordinator.live, limit=PARALLEL_QUEUES_MAX)

    def _is_left(self, name: str) -> bool:
        """Return whether this gateway should coordinate the queue and does not."""
        return self._coordinator.known(name) is None and self._ownership.coordinates_queue(name)

    def _is_recent(self, queue: Queue) -> bool:
        """Return whether the queue was created or changed recently, or its coordinator had leases when it left."""
        row = queue.row
        assert row is not None
        return row.lock_ms_max > 0 or self._clock.now_ms() - row.changed_at_ms < self._bounds.awake_ms


def _has_dead(queue: Queue) -> bool:
    return any(run.state == DEAD for one in queue.partitions.values() for run in one.runs)
