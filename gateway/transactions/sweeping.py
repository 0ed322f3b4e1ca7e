"""Sweep for leftovers of transactions: finishes them, deletes leftover staged objects, compacts the table.

Every gateway sweeps at its start, then every few seconds while there are leftovers, and ever more rarely while there are none
(``LookBackoff``). Concurrent sweeps do no harm.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gateway.applied_transactions.finishing_parts import FinishingParts
from gateway.cluster.ownership import Ownership
from gateway.engine.bounds import EngineBounds
from gateway.system_tables.look_backoff import LookBackoff
from gateway.tasks.supervised import run_supervised
from log_format import limits
from log_format.clock import Clock
from log_format.errors import TidelogError
from log_format.topic.producer_id import JOB, issued_ms, kind_of
from log_format.transactions.changes import DecideAbort, ForbidTransaction
from log_format.transactions.row import TransactionRow
from log_format.transactions.staged_index import is_index

LARGE_LEFT_ALONE: Final = 20
"""Factor of the time for which a large transaction is left to its gateway: another gateway would do the same work again."""

_log = logging.getLogger("gateway.transactions")


class TransactionSweeper:
    """Sweep of transactions. Used on the event loop only."""

    def __init__(self, finishing: FinishingParts, ownership: Ownership, *, clock: Clock, bounds: EngineBounds) -> None:
        self._ownership = ownership
        self._looks = LookBackoff(bounds.sweep_pause_ms)
        self._table = finishing.transactions
        self._staging = finishing.staging
        self._finisher = finishing.finisher
        self._pending = finishing.pending
        self._clock = clock
        self._bounds = bounds
        self._left_alone_ms = 0
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to sweep. The first sweep finishes all decided transactions: this gateway may have decided them before its
        restart."""
        self._running = asyncio.create_task(run_supervised(self._round, "the sweep of transactions"))

    def stop(self) -> None:
        """Stop sweeping."""
        if self._running is not None:
            self._running.cancel()

    async def sweep_once(self, *, left_alone_ms: int | None = None) -> None:
        """Finish decided transactions, abort overdue ones, delete leftover staged objects. Raises ``TidelogError``."""
        left_alone_ms = self._bounds.left_alone_ms if left_alone_ms is None else left_alone_ms
        staged = await self._staging.transaction_ids()
        transactions = (await self._table.fresh()).transactions
        now_ms = self._clock.now_ms()
        for row in list(transactions.values()):
            try:
                is_large = any(map(is_index, row.staged))
                alone_ms = left_alone_ms * LARGE_LEFT_ALONE if is_large else left_alone_ms
                if row.state == "committing" and now_ms - row.recorded_at_ms > alone_ms:
                    await self._finisher.finish(row)
                elif row.state == "open" and now_ms > row.expires_at_ms:
                    await self._table.decide(DecideAbort(transaction_id=row.transaction_id, reason="expired"))
            except TidelogError as error:
                _log.warning("transaction %s is not at its end yet: %s", row.transaction_id, error.detail)
        for transaction_id in staged:
            await self._collect(transaction_id, transactions.get(transaction_id), now_ms)
        is_pending = await self._pending.sweep(self._bounds.left_alone_ms)
        await self._table.keep_small()
        if staged or is_pending or any(not row.has_ended for row in transactions.values()):
            self._looks.reset()

    async def _round(self) -> None:
        try:
            if self._looks.is_due(self._clock.monotonic_ms(), (self._ownership.view(), self._table.state.version)):
                await self.sweep_once(left_alone_ms=self._left_alone_ms)
                self._left_alone_ms = self._bounds.left_alone_ms
        except TidelogError as error:
            self._looks.reset()
            _log.warning("transactions can't be looked after: %s", error.detail)
        await asyncio.sleep(self._bounds.sweep_pause_ms / 1000)

    async def _collect(self, transaction_id: str, row: TransactionRow | None, now_ms: int) -> None:
        """Delete the objects of a transaction that has ended, or will never be decided."""
        try:
            since_ms = row.recorded_at_ms if row is not None else issued_ms(transaction_id)
        except ValueError:
            return  # Not an object of Tidelog's.
        is_job = row is None and kind_of(transaction_id) == JOB
        if now_ms - since_ms <= (limits.ORPHAN_GRACE_MS if is_job else self._bounds.left_alone_ms):
            return
        if row is None:
            # A transaction that is one request, or a job's, stages before it has a row: from here on it gets none.
            row = await self._table.decide(ForbidTransaction(transaction_id=transaction_id))
        if row.has_ended:
            await self._staging.clean(transaction_id)
