"""Commits decisions to ``system/transactions``: whatever arrived while the last commit was under way shares the next.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio

from gateway.engine.bounds import COMMIT_WAIT_MS_MAX, STORE_WAIT_MS_MAX
from gateway.engine.log_look import LogLook
from gateway.engine.pool import Pool
from gateway.problem import overloaded
from log_format.change import NewId
from log_format.clock import Clock
from log_format.committer import Committer
from log_format.errors import BackOff, OutcomeUnknown, StoreUnavailable, TidelogError
from log_format.store import ObjectStore
from log_format.table_log import TableLog
from log_format.transaction_changes import Decide, Decision
from log_format.transaction_row import TransactionRow
from log_format.transactions_state import TransactionsState, transactions_table

DECISIONS_WAITING_MAX = 4_096
"""Decisions that wait for the next commit; each is a request."""


class Decider:
    """One gateway's hand on the table."""

    def __init__(self, store: ObjectStore, *, clock: Clock, new_id: NewId, look_pool: Pool, write_pool: Pool) -> None:
        self._log = TableLog(store, transactions_table(), clock)
        self._committer = Committer(self._log, new_id=new_id, engine="tidelog-gateway")
        self._clock = clock
        self._new_id = new_id
        self._look_pool = look_pool
        self._write_pool = write_pool
        self._look = LogLook(self._refresh)
        self._waiting: list[tuple[Decision, asyncio.Future[TransactionRow]]] = []
        self._running: asyncio.Task[None] | None = None

    async def fresh(self) -> TransactionsState:
        """The state at a version that was the head during this call. Raises ``BackOff``, ``CorruptData``."""
        try:
            async with asyncio.timeout(STORE_WAIT_MS_MAX / 1000):
                await self._look.after_now()
        except TimeoutError:
            raise BackOff("The store does not show the transactions in time.") from None
        return self._log.state

    async def decide(self, decision: Decision) -> TransactionRow:
        """The row that holds once the decision is in the store. It goes on when the caller is cancelled.

        Raises what the decision is refused with; ``BackOff`` (nothing happened), ``OutcomeUnknown``.
        """
        if len(self._waiting) >= DECISIONS_WAITING_MAX:
            raise overloaded("Too many decisions about transactions wait for the store.")
        future: asyncio.Future[TransactionRow] = asyncio.get_running_loop().create_future()
        self._waiting.append((decision, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(COMMIT_WAIT_MS_MAX / 1000):
                return await asyncio.shield(future)
        except TimeoutError:
            raise OutcomeUnknown("The decision about the transaction takes too long.") from None

    async def drain(self) -> None:
        """Return when everything that was asked is decided."""
        if self._running is not None:
            await asyncio.wait((self._running,))

    async def _run(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                await self._commit(taken)
        finally:
            self._running = None

    async def _commit(self, taken: list[tuple[Decision, asyncio.Future[TransactionRow]]]) -> None:
        change = Decide([decision for decision, _ in taken], self._new_id)
        try:
            committed = await self._write_pool.run(self._committer.commit, change)
            for (_, future), outcome in zip(taken, committed.result, strict=True):
                if isinstance(outcome, TidelogError):
                    _fail(future, outcome)
                elif not future.done():
                    future.set_result(outcome)
        except TidelogError as error:
            for _, future in taken:
                _fail(future, error)
        finally:
            for _, future in taken:
                _fail(future, OutcomeUnknown("The decision about the transaction ended without an outcome."))

    async def _refresh(self) -> None:
        try:
            await self._look_pool.run(self._log.refresh)
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not show the transactions: {problem.detail}.") from problem


def _fail(future: asyncio.Future[TransactionRow], error: TidelogError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # whoever waits may be gone
