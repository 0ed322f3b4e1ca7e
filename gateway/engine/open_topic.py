"""One topic as this gateway has it: its log, its committer, its writer, and who waits for it.

Freshness (G4): a read that began after an acknowledgement must see the record, whoever acknowledged it. So each read asks
``fresh(arrival_ms)`` first: the log is looked at unless a look that began later has already found its head.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from gateway.call import check_way_back, stands
from gateway.engine.bounds import COMMIT_WAIT_MS_MAX, PARTITION_STATE_BYTES, STORE_WAIT_MS_MAX, TOPIC_BYTES
from gateway.engine.checkpointing import Checkpointing
from gateway.engine.log_look import LogLook
from gateway.engine.maintenance_watch import MaintenanceWatch
from gateway.engine.metrics import EngineMetrics
from gateway.engine.pool import Pool
from gateway.engine.sequencing import Sequencing
from gateway.engine.waiting import Waiters
from gateway.engine.writer import OnFlushed, Writer
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.delta.committer import Committed, Committer
from log_format.delta.table import NO_LOG
from log_format.errors import BackOff, OutcomeUnknown, StoreUnavailable, TidelogError, UnknownPartition, UnknownTopic
from log_format.ids import NewId
from log_format.store import ObjectStore
from log_format.topic.change import Change
from log_format.topic.state import TopicState

_log = logging.getLogger("gateway.topic")
ResultT = TypeVar("ResultT")


class OpenTopic:
    """Belongs to the event loop."""

    def __init__(
        self,
        name: str,
        store: ObjectStore,
        *,
        clock: Clock,
        new_id: NewId,
        look_pool: Pool,
        load_pool: Pool,
        write_pool: Pool,
        metrics: EngineMetrics,
        on_flushed: OnFlushed,
        on_contended: Callable[[], None],
        watch: MaintenanceWatch,
        on_change: Callable[[OpenTopic], None],
        log_poll_ms: int,
        is_draining: Callable[[], bool],
    ) -> None:
        self.name = name
        self.log = TopicLog(store, name, clock, fetch_all=load_pool.map)
        self.waiters = Waiters()
        self._clock = clock
        self._look_pool = look_pool
        self._write_pool = write_pool
        self._metrics = metrics
        self._watch = watch
        self._on_change = on_change
        self._log_poll_ms = log_poll_ms
        self._committer = Committer(self.log, new_id=new_id, engine="tidelog-gateway")
        self._commit_lock = asyncio.Lock()
        self._look = LogLook(self._refresh)
        self._polling: asyncio.Task[None] | None = None
        self._noticed = self.log.state
        self._turn = -1
        self._changes: set[asyncio.Task[object]] = set()
        self._checkpointing = Checkpointing(
            self.log, clock, files=lambda state: state.manifest.segment_count(), pool=look_pool, metrics=metrics
        )
        self.sequencing = Sequencing(
            state=lambda: self.log.state, fresh=self.fresh, clock=clock, is_draining=is_draining
        )
        self.writer = Writer(
            self.log,
            self._committer,
            self._commit_lock,
            pool=write_pool,
            new_id=new_id,
            metrics=metrics,
            on_flushed=on_flushed,
            on_commit_ended=self.notice,
            on_contended=on_contended,
        )

    @property
    def state(self) -> TopicState:
        """What is known of the topic; absent before the first look."""
        return self.log.state

    def next_in_turn(self) -> int:
        """A number that counts requests: sticky round-robin over partitions."""
        self._turn += 1
        return self._turn

    @property
    def is_idle(self) -> bool:
        """Whether nobody needs this object: it may be forgotten."""
        return (
            self.writer.is_idle
            and self._look.is_idle
            and not self._changes
            and not self.waiters
            and not self._commit_lock.locked()
            and self.sequencing.is_idle
            and self._checkpointing.is_idle
        )

    @property
    def memory_bytes(self) -> int:
        """About how much memory the state takes."""
        state = self.log.state
        partitions_bytes = PARTITION_STATE_BYTES * state.partition_count
        history_bytes = state.producers.memory_bytes + state.transactions.memory_bytes
        return TOPIC_BYTES + partitions_bytes + history_bytes + state.manifest.memory_bytes

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

    async def fresh(self, arrival_ms: int) -> TopicState:
        """The state at a version that was the head at some moment after ``arrival_ms`` (monotonic).

        Raises ``BackOff`` when the store can't be read, ``CorruptData``.
        """
        observed_ms = self.log.observed_ms
        # Equal is not enough: within that millisecond the look may have come first.
        if observed_ms is None or observed_ms <= arrival_ms or self.log.state.version == NO_LOG:
            try:
                async with asyncio.timeout(STORE_WAIT_MS_MAX / 1000):
                    await self._look.after_now()
            except TimeoutError:
                raise BackOff(f"The store does not show topic {self.name!r} in time.", topic=self.name) from None
        return self.log.state

    async def commit(self, change: Change[ResultT]) -> Committed[TopicState, ResultT]:
        """Make a change of the topic, in turn with its flushes; then the present call's change stands. It goes on when the
        caller is cancelled.

        Raises what ``Committer.commit`` raises; ``BackOff`` when its turn does not come, ``OutcomeUnknown`` when it takes long.
        """
        check_way_back()
        begun = asyncio.Event()
        task = asyncio.create_task(self._commit(change, begun))
        self._changes.add(task)
        task.add_done_callback(self._change_ended)
        done, _ = await asyncio.wait((task,), timeout=STORE_WAIT_MS_MAX / 1000)
        if not done and not begun.is_set():
            task.cancel()
            raise BackOff(
                f"Other changes of topic {self.name!r} take too long: this one was not made.", topic=self.name
            )
        if not done:
            done, _ = await asyncio.wait((task,), timeout=COMMIT_WAIT_MS_MAX / 1000)
        if not done:
            raise OutcomeUnknown(f"The change of topic {self.name!r} takes too long.", topic=self.name)
        committed = task.result()
        if committed.attempts:
            stands()
        return committed

    def notice(self) -> None:
        """Wake those who wait for what happened since the last call, and see to what follows a commit."""
        state = self.log.state
        before, self._noticed = self._noticed, state
        if state.version == before.version:
            return
        self.sequencing.wake()
        if state.topic_id != before.topic_id or state.config is not before.config:
            self.writer.reconsider()
        if state.topic_id != before.topic_id:
            self.waiters.wake_all()
        elif self.waiters:
            known = before.partition_count
            grown = (state.next_offsets[:known] != before.next_offsets).nonzero()[0].tolist()
            self.waiters.wake([*grown, *range(known, state.partition_count)])
        self._checkpointing.consider(state)
        self._watch.consider(self, state)
        self._on_change(self)

    def poll_while_waited_for(self) -> None:
        """Look at the log now and then, for others' commits, as long as somebody waits."""
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll())
            self._polling.add_done_callback(self._polling_ended)

    async def drain(self) -> None:
        """Flush, acknowledge, end."""
        self.sequencing.wake()
        await self.writer.drain()
        while self._changes:
            await asyncio.wait(self._changes)
        await self._checkpointing.stop()
        if self._polling is not None:
            self._polling.cancel()

    async def _refresh(self) -> None:
        try:
            await self._look_pool.run(self.log.refresh)
        except StoreUnavailable as problem:
            self._metrics.store_errors.labels("look").inc()
            raise BackOff(
                f"The store did not show topic {self.name!r}: {problem.detail}.", topic=self.name
            ) from problem
        self.notice()

    async def _commit(self, change: Change[ResultT], begun: asyncio.Event) -> Committed[TopicState, ResultT]:
        try:
            async with self._commit_lock:
                begun.set()
                return await self._write_pool.run(self._committer.commit, change)
        finally:
            self.notice()

    def _change_ended(self, task: asyncio.Task[Committed[TopicState, ResultT]]) -> None:
        self._changes.discard(task)
        if not task.cancelled():
            task.exception()

    async def _poll(self) -> None:
        try:
            while self.waiters:
                observed_ms = self.log.observed_ms or 0
                pause_ms = observed_ms + self._log_poll_ms - self._clock.monotonic_ms()
                if pause_ms > 0:
                    await asyncio.sleep(pause_ms / 1000)
                    continue
                try:
                    await self._look.after_now()
                except BackOff:
                    await asyncio.sleep(self._log_poll_ms / 1000)
                except TidelogError as error:
                    _log.error("topic %s can't be followed: %s", self.name, error.detail)
                    self.waiters.wake_all()
                    return
        finally:
            self._polling = None  # not in a callback: who begins to wait before that is called would wait for no look

    def _polling_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("looking for commits failed", exc_info=error)
