"""One Delta table as open in this gateway: its log, kept fresh; its committer, one commit at a time; checkpoints after commits.

Freshness (G4): a read that began after an acknowledgement must see the record, whichever gateway acknowledged it. So each read
calls ``fresh(arrival_ms)`` first. That looks at the log, unless a look that began after the arrival has already found the
head.

Used on the event loop only; blocking calls run in the pools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final, Generic, TypeVar

from gateway.call import check_may_ask_store, mark_committed
from gateway.engine.bounds import EngineBounds
from gateway.engine.checkpointing import Checkpointing
from gateway.engine.log_look import LogLook
from gateway.engine.metrics import EngineMetrics
from gateway.engine.outcome import TimeLimits
from gateway.engine.pool import Pool
from log_format.clock import Clock
from log_format.delta.change import StagedFile, TableChange
from log_format.delta.committer import Committed, Committer
from log_format.delta.log import Map, TableLog
from log_format.delta.table import NO_LOG, StateT, TableDescription
from log_format.errors import BackOff, OutcomeUnknown, StoreUnavailable
from log_format.ids import NewId
from log_format.store import ObjectStore
from log_format.topic.append import TypeRecords
from log_format.topic.config import Subjects

ResultT = TypeVar("ResultT")

_NONE: Final[frozenset[asyncio.Task[object]]] = frozenset()


async def _know_none(_subjects: Subjects) -> None:
    """Know no schemas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """Parts needed to read and commit to the tables of a store."""

    store: ObjectStore
    clock: Clock
    new_id: NewId
    jitter: Callable[[], float]
    bounds: EngineBounds
    look_pool: Pool
    load_pool: Pool
    write_pool: Pool
    metrics: EngineMetrics
    fetch_all: Map
    """Function that reads the commits of a log that is being loaded."""
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    """Time limits of the waits for acknowledgements."""
    type_records: TypeRecords | None = None
    """Function that gives typed columns to records that were accepted before they could have any."""
    know_schemas: Callable[[Subjects], Awaitable[None]] = _know_none
    """Function to be awaited before such records are appended: ``type_records`` then knows what accepted them."""


class OpenTable(Generic[StateT]):
    """A Delta table as open in this gateway. ``files``: returns a state's number of data files, which decides when a checkpoint
    is due."""

    __slots__ = (
        "__weakref__",
        "_access",
        "_changes",
        "_checkpointing",
        "_commit_lock",
        "_committer",
        "_files",
        "_look",
        "_noticed",
        "commit_base",
        "log",
    )

    def __init__(self, access: TableAccess, table: TableDescription[StateT], *, files: Callable[[StateT], int]) -> None:
        self.log = TableLog(access.store, table, access.clock, fetch_all=access.fetch_all)
        self.commit_base: StateT | None = None
        """State from which the commit under way began; None between commits."""
        self._access = access
        self._committer = Committer(self.log, new_id=access.new_id, jitter=access.jitter, engine="tidelog-gateway")
        self._commit_lock = asyncio.Lock()
        self._look: LogLook | None = None
        self._changes: frozenset[asyncio.Task[object]] = _NONE
        """Tasks of the changes under way. Few run in parallel, and most tables have none: those share one empty set."""
        self._noticed = self.log.state
        self._files = files
        self._checkpointing: Checkpointing[StateT] | None = None
        """Checkpoints of the table, made when the log is so long that a checkpoint may be due."""

    @property
    def state(self) -> StateT:
        """Newest known state of the table; that of an absent table before the first look."""
        return self.log.state

    @property
    def label(self) -> str:
        """Name of the table in errors."""
        return self.log.table.label

    def seconds_since_write(self, written_ms: int) -> float:
        """Return the seconds since ``written_ms``; infinity if that is 0: the table was never written to."""
        return max(0.0, (self._access.clock.now_ms() - written_ms) / 1000) if written_ms else inf

    @property
    def is_idle(self) -> bool:
        """Whether no look, checkpoint or change is under way."""
        is_looked_at = self._look is not None and not self._look.is_idle
        is_written = self._checkpointing is not None and not self._checkpointing.is_idle
        return not (is_looked_at or is_written or self._changes or self._commit_lock.locked())

    async def fresh(self, arrival_ms: int | None = None) -> StateT:
        """Return the state at a version that was the head at a moment after ``arrival_ms`` (monotonic; None: during this call).

        Raises ``BackOff`` when the store can't be read, ``CorruptData``.
        """
        if arrival_ms is None or not self.is_seen_after(arrival_ms):
            try:
                async with asyncio.timeout(self._access.bounds.store_wait_ms_max / 1000):
                    await self.look()
            except TimeoutError:
                raise self._back_off(f"The store did not return {self.label} in time.") from None
        return self.log.state

    def is_seen_after(self, arrival_ms: int) -> bool:
        """Return whether a look that began after ``arrival_ms`` (monotonic) has found the state."""
        observed_ms = self.log.observed_ms
        # Equal is not enough: within that millisecond the look may have begun before the arrival.
        return observed_ms is not None and observed_ms > arrival_ms and self.log.state.version != NO_LOG

    async def look(self) -> None:
        """Look at the log now; concurrent callers share looks. Raises what ``fresh`` raises, but has no time limit."""
        look = self._look
        if look is None:
            look = self._look = LogLook(self._refresh)
        try:
            await look.after_now()
        finally:
            if self._look is look and look.is_idle:
                self._look = None

    async def recent(self, age_ms_max: int) -> StateT:
        """Return a state at most ``age_ms_max`` old. Raises what ``fresh`` raises."""
        check_may_ask_store()
        observed_ms = self.log.observed_ms
        if observed_ms is not None and self._access.clock.monotonic_ms() - observed_ms <= age_ms_max:
            return self.log.state
        return await self.fresh()

    async def commit(self, change: TableChange[StateT, ResultT]) -> Committed[StateT, ResultT]:
        """Commit a change that a call asks for, after the changes before it; mark the call's change as committed. The change goes
        on when the caller is cancelled.

        Raises what ``Committer.commit`` raises; ``BackOff`` when earlier changes take too long, ``OutcomeUnknown`` when this
        one does.
        """
        check_may_ask_store()
        begun = asyncio.Event()
        task = asyncio.create_task(self.commit_serialized(change, begun))
        self._changes |= {task}
        task.add_done_callback(self._change_ended)
        done, _ = await asyncio.wait((task,), timeout=self._access.bounds.store_wait_ms_max / 1000)
        if not done and not begun.is_set():
            task.cancel()
            raise self._back_off(f"Other changes of {self.label} take too long: this one was not made.")
        if not done:
            done, _ = await asyncio.wait((task,), timeout=self._access.bounds.commit_wait_ms_max / 1000)
        if not done:
            raise OutcomeUnknown(f"The change of {self.label} takes too long.", **self.log.table.fields)
        committed = task.result()
        if committed.attempts:
            mark_committed()
        return committed

    async def commit_serialized(
        self,
        change: TableChange[StateT, ResultT],
        begun: asyncio.Event | None = None,
        *,
        prepare: Callable[[Committer[StateT]], object] | None = None,
    ) -> Committed[StateT, ResultT]:
        """Commit a change after the changes before it.

        ``begun`` is set when the change begins. ``prepare`` is called before the commit, in the same thread. Raises what
        ``Committer.commit`` and ``prepare`` raise.
        """

        def made() -> Committed[StateT, ResultT]:
            if prepare is not None:
                prepare(self._committer)
            return self._committer.commit(change)

        try:
            async with self._commit_lock:
                if begun is not None:
                    begun.set()
                self.commit_base = self.log.state
                try:
                    return await self._access.write_pool.run(made)
                finally:
                    self.commit_base = None
        finally:
            # Runs before the caller resumes, and apart from it: no later failure can undo the commit.
            asyncio.get_running_loop().call_soon(self._notice)

    async def stage(self, file: StagedFile) -> None:
        """Put a file into the store before the change that adds it. Raises what ``Committer.stage`` raises."""
        await self._access.write_pool.run(self._committer.stage, file)

    async def drain(self) -> None:
        """Wait until the changes and the checkpoint under way have ended."""
        while self._changes:
            await asyncio.wait(self._changes)
        if self._checkpointing is not None:
            await self._checkpointing.stop()

    def on_state_changed(self, before: StateT, /) -> None:
        """React to a look or a commit that has replaced the state ``before``. Each kind of table overrides this."""

    async def _refresh(self) -> None:
        try:
            await self._access.look_pool.run(self.log.refresh)
        except StoreUnavailable as problem:
            self._access.metrics.store_errors.labels("look").inc()
            raise self._back_off(f"The store did not return {self.label}: {problem.detail}.") from problem
        self._notice()

    def _notice(self) -> None:
        state = self.log.state
        before, self._noticed = self._noticed, state
        if state.version != before.version:
            self._consider_checkpoint(state)
            self.on_state_changed(before)

    def _consider_checkpoint(self, state: StateT) -> None:
        access = self._access
        if self._checkpointing is None and state.version + 1 >= access.bounds.checkpoint_interval_min:
            self._checkpointing = Checkpointing(
                self.log,
                access.clock,
                files=self._files,
                pool=access.look_pool,
                metrics=access.metrics,
                bounds=access.bounds,
            )
        if self._checkpointing is not None:
            self._checkpointing.consider(state)

    def _change_ended(self, task: asyncio.Task[Committed[StateT, ResultT]]) -> None:
        self._changes = self._changes - {task} or _NONE
        if not task.cancelled():
            task.exception()

    def _back_off(self, detail: str) -> BackOff:
        return BackOff(detail, **self.log.table.fields)
