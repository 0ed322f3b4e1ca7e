"""One gateway's hand on a system table: whatever was asked while the last commit was under way shares the next.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gateway.call import check_way_back, stands
from gateway.engine.bounds import COMMIT_WAIT_MS_MAX, STORE_WAIT_MS_MAX
from gateway.engine.checkpointing import Checkpointing
from gateway.engine.log_look import LogLook
from gateway.engine.metrics import EngineMetrics
from gateway.engine.pool import Pool
from gateway.engine.state_budget import StateBudget
from gateway.problem import overloaded
from log_format.clock import Clock
from log_format.delta.change import TableChange
from log_format.delta.committer import Committed, Committer
from log_format.delta.log import TableLog
from log_format.delta.table import StateT, Table
from log_format.errors import BackOff, OutcomeUnknown, StoreUnavailable, TidelogError
from log_format.ids import NewId
from log_format.store import ObjectStore

DECISIONS_WAITING_MAX = 4_096
"""Decisions that wait for the next commit; each is a request."""

FILES_MIN = 200
"""Live data files after which a system table is compacted."""

DecisionT = TypeVar("DecisionT")
OutcomeT = TypeVar("OutcomeT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """At most ``burst`` commits at once and ``per_second`` in the long run: what waits shares the next."""

    burst: int
    per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """What it takes to read the system tables of a store and to commit to them."""

    store: ObjectStore
    clock: Clock
    new_id: NewId
    look_pool: Pool
    write_pool: Pool
    metrics: EngineMetrics


class SharedCommits(Generic[StateT, DecisionT, OutcomeT]):
    """``change`` makes the change of decisions that share a commit; its result has for each what holds then, or its refusal.

    ``files``: how many data files a state has, which says how often a checkpoint is due.
    """

    def __init__(
        self,
        access: TableAccess,
        table: Table[StateT],
        change: Callable[[Sequence[DecisionT]], TableChange[StateT, Sequence[OutcomeT | TidelogError]]],
        *,
        files: Callable[[StateT], int],
        pace: Pace | None = None,
    ) -> None:
        self.budgets: list[tuple[StateBudget, Callable[[DecisionT, StateT], int]]] = []
        """What the table may take in memory, and by how much a decision makes it more. Add them before the first decision."""
        clock = access.clock
        self._log = TableLog(access.store, table, clock)
        self._committer = Committer(self._log, new_id=access.new_id, engine="tidelog-gateway")
        self._change = change
        self._clock = clock
        self._look_pool = access.look_pool
        self._write_pool = access.write_pool
        self._look = LogLook(self._refresh)
        self._checkpointing = Checkpointing(
            self._log, clock, files=files, pool=access.look_pool, metrics=access.metrics
        )
        self._pace = pace
        self._tokens = float(pace.burst) if pace is not None else 0.0
        self._counted_ms = clock.monotonic_ms()
        self._waiting: list[tuple[DecisionT, asyncio.Future[OutcomeT]]] = []
        self._running: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    @property
    def log(self) -> TableLog[StateT]:
        """The table as it is known here."""
        return self._log

    async def fresh(self) -> StateT:
        """The state at a version that was the head during this call. Raises ``BackOff``, ``CorruptData``."""
        try:
            async with asyncio.timeout(STORE_WAIT_MS_MAX / 1000):
                await self._look.after_now()
        except TimeoutError:
            raise BackOff(f"The store does not show {self._log.table.label} in time.") from None
        return self._log.state

    async def recent(self, age_ms_max: int) -> StateT:
        """The state as of at most so long ago. Raises as ``fresh``."""
        check_way_back()
        observed_ms = self._log.observed_ms
        if observed_ms is not None and self._clock.monotonic_ms() - observed_ms <= age_ms_max:
            return self._log.state
        return await self.fresh()

    async def decide(self, decision: DecisionT) -> OutcomeT:
        """What holds once the decision is in the store; then the present call's change stands. It goes on when the caller is
        cancelled.

        Raises what the decision is refused with; ``BackOff`` (nothing happened), ``OutcomeUnknown``.
        """
        check_way_back()
        if len(self._waiting) >= DECISIONS_WAITING_MAX:
            raise overloaded(f"Too many decisions about {self._log.table.label} wait for the store.")
        future: asyncio.Future[OutcomeT] = asyncio.get_running_loop().create_future()
        try:
            for budget, growth_bytes in self.budgets:
                future.add_done_callback(budget.admit(growth_bytes(decision, self._log.state)))
        except TidelogError:
            future.cancel()
            raise
        self._waiting.append((decision, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(COMMIT_WAIT_MS_MAX / 1000):
                outcome = await asyncio.shield(future)
        except TimeoutError:
            raise OutcomeUnknown(f"The decision about {self._log.table.label} takes too long.") from None
        stands()
        return outcome

    async def commit(self, change: TableChange[StateT, ResultT]) -> ResultT:
        """The result of a change of another kind. Raises as the committer does."""
        committed = await self._put(change)
        self._checkpointing.consider(committed.state)
        return committed.result

    async def drain(self) -> None:
        """Return when everything that was asked is decided."""
        if self._running is not None:
            await asyncio.wait((self._running,))
        await self._checkpointing.stop()

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._turn()
                taken, self._waiting = self._waiting, []
                await self._commit(taken)
        finally:
            self._running = None
            left, self._waiting = self._waiting, []
            for _, future in left:
                # Nobody foresaw what ended this run. Who came meanwhile must not wait for the next one that comes.
                _fail(future, BackOff(f"The commits of {self._log.table.label} met a defect: this was not decided."))

    async def _turn(self) -> None:
        """Wait until the pace allows a commit."""
        if self._pace is None:
            return
        now_ms = self._clock.monotonic_ms()
        gained = (now_ms - self._counted_ms) / 1000 * self._pace.per_second
        self._tokens = min(float(self._pace.burst), self._tokens + gained) - 1
        self._counted_ms = now_ms
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / self._pace.per_second)

    async def _commit(self, taken: list[tuple[DecisionT, asyncio.Future[OutcomeT]]]) -> None:
        try:
            committed = await self._put(self._change([decision for decision, _ in taken]))
            # First of all, so that nothing that follows can take it back.
            for (_, future), outcome in zip(taken, committed.result, strict=True):
                if isinstance(outcome, TidelogError):
                    _fail(future, outcome)
                elif not future.done():
                    future.set_result(outcome)
            self._checkpointing.consider(committed.state)
        except TidelogError as error:
            for _, future in taken:
                _fail(future, error)
        finally:
            for _, future in taken:
                _fail(future, OutcomeUnknown(f"The decision about {self._log.table.label} ended without an outcome."))

    async def _put(self, change: TableChange[StateT, ResultT]) -> Committed[StateT, ResultT]:
        async with self._writing:
            return await self._write_pool.run(self._committer.commit, change)

    async def _refresh(self) -> None:
        try:
            await self._look_pool.run(self._log.refresh)
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not show {self._log.table.label}: {problem.detail}.") from problem


def _fail(future: asyncio.Future[OutcomeT], error: TidelogError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # whoever waits may be gone
