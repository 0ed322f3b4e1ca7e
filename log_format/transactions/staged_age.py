"""The age limit of what is staged before its transaction has a row. Collectors abort and delete older ones, and forget that
later.

A transaction's id is issued before anything is staged for it, and by the program that decides.
"""

from __future__ import annotations

from typing import Final

from log_format import limits
from log_format.errors import BackOff, TidelogError
from log_format.topic.producer_id import issued_ms, kind_of
from log_format.transactions.row import TransactionRow
from log_format.transactions.state import TransactionsView

JOB_MS_MAX: Final = limits.ORPHAN_GRACE_MS // 2
"""Age after which a job never decides its transaction, in ms by the clocks of its own program."""

REQUEST_MS_MAX: Final = 60_000
"""Age after which a transaction of one request is never decided, in ms. Gateways abort it after a quarter of that time, and in a
busy store forget the abort minutes later."""

assert REQUEST_MS_MAX < JOB_MS_MAX < limits.TRANSACTION_REMEMBERED_MS


def is_older(transaction_id: str, age_ms: int, now_ms: int) -> bool:
    """Return whether the id was issued more than ``age_ms`` ago, before anything was staged for it. False for text
    that is no id."""
    return kind_of(transaction_id) != "" and now_ms - issued_ms(transaction_id) > age_ms


def earlier_outcome(
    state: TransactionsView, transaction_id: str, age_ms_max: int, now_ms: int
) -> TransactionRow | TidelogError | None:
    """Return the outcome of a decision whose transaction has a row already, or is older than it may be; None: decide it.

    The row counts as it is, so that a repeated decision changes nothing, unless the transaction was aborted by age.
    """
    known = state.transactions.get(transaction_id)
    if known is not None and known.state != "aborted":
        return known
    return staged_too_long_error() if known is not None or is_older(transaction_id, age_ms_max, now_ms) else None


def staged_too_long_error() -> TidelogError:
    """Return the error for a decision whose staged objects may be deleted already, since the transaction was aborted by age."""
    return BackOff(
        "The records were staged so long ago that they were discarded: nothing was written. Send them again."
    )
