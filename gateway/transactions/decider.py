"""Commits decisions to ``system/transactions``."""

from __future__ import annotations

from gateway.engine.shared_commits import SharedCommits, TableAccess
from log_format.transaction_changes import Decide, Decision
from log_format.transaction_row import TransactionRow
from log_format.transactions_state import TransactionsState, transactions_table

Decider = SharedCommits[TransactionsState, Decision, TransactionRow]
"""One gateway's hand on the table."""


def make_decider(access: TableAccess) -> Decider:
    """A gateway's decider."""
    return SharedCommits(
        access, transactions_table(), lambda decisions: Decide(decisions, access.new_id), files=lambda _state: 0
    )
