"""Offsets that wait for the decision of a transaction, as a group's readers find them.

1. Before a transaction is decided its offsets are pending rows of ``system/consumer_offsets``. After the decision they become
   the group's, or are dropped, by any gateway that finds them pending.
2. A transaction with pending offsets that stays undecided is aborted, so that the group's readers need not wait for it.
3. A Kafka client's transaction is aborted only by its own timeout, as a broker does it: its offsets are pending from
   ``TxnOffsetCommit`` on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gateway.applied_transactions.finisher import Finisher
from gateway.call import detached_from_call
from gateway.system_tables.groups import GroupsTable
from gateway.system_tables.transactions import TransactionsTable
from log_format.clock import Clock
from log_format.errors import BackOff, TidelogError
from log_format.topic.producer_id import is_numbered
from log_format.transactions.changes import ForbidTransaction

_AGAIN_MS: Final = 50

_log = logging.getLogger("gateway.transactions")


class PendingOffsets:
    """Settlement of pending offsets. ``wait_ms_max``: time that a reader waits for a decision before it aborts the transaction.
    Used on the event loop only."""

    def __init__(
        self,
        groups: GroupsTable,
        transactions: TransactionsTable,
        finisher: Finisher,
        *,
        clock: Clock,
        wait_ms_max: int,
    ) -> None:
        self._groups = groups
        self._transactions = transactions
        self._finisher = finisher
        self._clock = clock
        self._wait_ms_max = wait_ms_max

    async def sweep(self, age_ms_min: int) -> bool:
        """Settle offsets that have been pending for ``age_ms_min``; return whether any are pending.

        A failure in one group is logged, and does not keep others waiting. Raises ``BackOff``.
        """
        before_ms = self._clock.now_ms() - age_ms_min
        is_pending = False
        for name, group in list((await self._groups.fresh()).groups.items()):
            if not group.pending:
                continue
            is_pending = True
            if any(pending.prepared_at_ms < before_ms for pending in group.pending.values()):
                try:
                    await self.settle(name, waits_for_clients=False)
                except TidelogError as error:
                    _log.warning("offsets of group %s stay pending: %s", name, error.detail)
        return is_pending

    async def settle(self, name: str, *, waits_for_clients: bool) -> None:
        """Settle all offsets that are pending in the group; unless ``waits_for_clients``, leave open transactions of Kafka's
        clients. Raises ``BackOff``, ``OutcomeUnknown``."""
        with detached_from_call():
            for transaction_id, pending in list(self._groups.state.group(name).pending.items()):
                deadline_ms = min(pending.prepared_at_ms, self._clock.now_ms()) + self._wait_ms_max
                await self._settle(name, transaction_id, deadline_ms, waits_for_clients=waits_for_clients)

    async def _settle(self, name: str, transaction_id: str, deadline_ms: int, *, waits_for_clients: bool) -> None:
        # A one-request transaction that failed drops its own pending offsets, and no row tells of it.
        while transaction_id in self._groups.state.group(name).pending:
            is_late = self._clock.now_ms() >= deadline_ms
            is_committed = await self._is_committed(transaction_id, aborts=is_late)
            if is_committed is not None:
                # Finishing a committed transaction has settled this already; then there is nothing to do.
                await self._groups.settle(transaction_id, [name], is_committed=is_committed)
                return
            if not waits_for_clients and self._is_clients(transaction_id):
                return
            if is_late:
                raise BackOff(f"Transaction {transaction_id} with offsets of group {name!r} is not decided yet.")
            await asyncio.sleep(_AGAIN_MS / 1000)
            await self._groups.fresh()

    async def _is_committed(self, transaction_id: str, *, aborts: bool) -> bool | None:
        """Return whether the transaction is committed, and then finished; None if it is open. ``aborts``: abort an open one."""
        row = await self._transactions.fetch_row(transaction_id)
        if row is None:
            if not aborts:
                return None  # A transaction that is one request has no row before it is decided.
            row = await self._transactions.decide(ForbidTransaction(transaction_id=transaction_id))
        aborts = aborts and not is_numbered(row.producer_id)
        if row.state == "open" and (aborts or self._clock.now_ms() > row.expires_at_ms):
            row = await self._transactions.abort(transaction_id, "offsets")
        row = await self._finisher.finish(row)
        return None if row.state == "open" else row.state == "committed"

    def _is_clients(self, transaction_id: str) -> bool:
        """Return whether the transaction is known as a Kafka client's."""
        row = self._transactions.state.transactions.get(transaction_id)
        return row is not None and is_numbered(row.producer_id)
