"""Check-back: silent open transactions are offered to clients that ask, each to one at a time (``log_format``'s rules)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.applied_transactions.finishing_parts import FinishingParts
from gateway.engine.waiters import DrainFlag
from log_format.clock import Clock
from log_format.errors import TidelogError
from log_format.transactions.check_back import NotDue, OfferForCheck, due_rows
from log_format.transactions.row import RowState, TransactionRow

POLL_INTERVAL_MS = 500
"""Interval of looks at the table while an asker waits."""


class CheckBack:
    """Offers of silent transactions. Used on the event loop only."""

    def __init__(self, finishing: FinishingParts, *, clock: Clock, draining: DrainFlag) -> None:
        self._table = finishing.transactions
        self._clock = clock
        self._draining = draining

    async def offer(
        self, prefix: str, count_max: int, wait_ms: int, shown: Callable[[str], bool]
    ) -> list[TransactionRow]:
        """Return transactions that are offered to this asker for a while; wait for the first of them.

        Args:
            prefix: beginning of their transactional ids.
            wait_ms: time to wait for a transaction.
            shown: returns whether the asker may have transactions of a transactional id.

        Raises ``BackOff``, ``OutcomeUnknown``.
        """
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        state = await self._table.fresh()
        while True:
            found_due = due_rows(state.transactions.values(), prefix, self._clock.now_ms())
            candidates = [row for row in found_due if shown(row.transactional_id)][:count_max]
            offers = [self._table.decide(OfferForCheck(transaction_id=row.transaction_id)) for row in candidates]
            found = _collect_offers(await asyncio.gather(*offers, return_exceptions=True))
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if found or left_ms <= 0 or self._draining.begun:
                return found
            await asyncio.sleep(min(left_ms, POLL_INTERVAL_MS) / 1000)
            state = await self._table.recent(POLL_INTERVAL_MS // 2)

    async def list_rows(
        self, state: RowState | None, prefix: str, after: tuple[str, str], count_max: int, shown: Callable[[str], bool]
    ) -> list[TransactionRow]:
        """Return transactions in order of transactional id and transaction id.

        Args:
            state: state that they must have; None: any.
            prefix: beginning of their transactional ids.
            after: transactional id and transaction id after which the list begins.
            shown: returns whether the caller may see transactions of a transactional id.

        Raises ``BackOff``.
        """
        rows, now_ms = (await self._table.fresh()).transactions.values(), self._clock.now_ms()
        found = [
            row
            for row in rows
            if row.transactional_id
            and row.transactional_id.startswith(prefix)
            and (row.transactional_id, row.transaction_id) > after
            and shown(row.transactional_id)
            and state in (None, state_of(row, now_ms))
        ]
        return sorted(found, key=lambda row: (row.transactional_id, row.transaction_id))[:count_max]


def state_of(row: TransactionRow, now_ms: int) -> RowState:
    """Return the row's state; an overdue open transaction counts as aborted."""
    return "aborted" if row.state == "open" and now_ms > row.expires_at_ms else row.state


def _collect_offers(outcomes: list[TransactionRow | BaseException]) -> list[TransactionRow]:
    """Return the transactions that were offered here. Raises an error only if none was; a defect always."""
    found = [outcome for outcome in outcomes if isinstance(outcome, TransactionRow)]
    for outcome in outcomes:
        if not found and isinstance(outcome, BaseException) and not isinstance(outcome, NotDue):
            raise outcome
        if isinstance(outcome, BaseException) and not isinstance(outcome, TidelogError):
            raise outcome
    return found
