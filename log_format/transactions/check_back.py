"""Check-back: an open transaction with a silent client is offered to askers, which decide it (RocketMQ's half messages).

An offer is a row: it says how often the transaction was offered, and when it may be offered next. So two gateways never offer it
within one pause. With the last offer the transaction is set to expire at the end of that pause.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from log_format import limits
from log_format.errors import BackOff, TidelogError
from log_format.transactions.changes import Outcome, require_open
from log_format.transactions.row import NEVER_CHECKED, TransactionRow
from log_format.transactions.state import TransactionsView


class NotDue(BackOff):
    """Error: the transaction was offered to another asker, or has ended. Nothing happened."""


def due_rows(rows: Iterable[TransactionRow], prefix: str, now_ms: int) -> list[TransactionRow]:
    """Return the rows to be offered now, the longest waiting first."""
    found = [row for row in rows if _is_due(row, now_ms) and row.transactional_id.startswith(prefix)]
    return sorted(found, key=lambda row: row.check_at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferForCheck:
    """A decision that offers an open transaction to one asker."""

    transaction_id: str

    def decide(self, state: TransactionsView, now_ms: int) -> tuple[Sequence[TransactionRow], Outcome]:
        """Return the offered row, or ``NotDue``."""
        row = require_open(state, self.transaction_id, now_ms)
        if isinstance(row, TidelogError) or not _is_due(row, now_ms):
            return (), NotDue(f"Transaction {self.transaction_id} is not to be checked now.")
        checks, next_ms = row.checks + 1, now_ms + limits.CHECK_PAUSE_MS
        is_last = checks == limits.CHECKS_MAX
        offered = msgspec.structs.replace(
            row,
            recorded_at_ms=now_ms,
            checks=checks,
            check_at_ms=next_ms,
            expires_at_ms=min(row.expires_at_ms, next_ms) if is_last else row.expires_at_ms,
        )
        return [offered], offered


def _is_due(row: TransactionRow, now_ms: int) -> bool:
    return (
        row.state == "open"
        and row.check_at_ms != NEVER_CHECKED
        and row.check_at_ms <= now_ms <= row.expires_at_ms
        and row.checks < limits.CHECKS_MAX
    )
