"""Commits decisions to ``system/transactions``."""

from __future__ import annotations

from gateway.engine.open_table import TableAccess
from gateway.engine.shared_commits import SharedCommits
from gateway.engine.state_budget import StateBudget
from log_format import limits
from log_format.transactions.changes import Begin, CommitAtOnce, Decide, DecideCommit, Decision, Forbid
from log_format.transactions.row import TransactionRow
from log_format.transactions.state import ID_BYTES, ROW_BYTES, STAGED_BYTES, TransactionsState, transactions_table

Decider = SharedCommits[TransactionsState, Decision, TransactionRow]
"""One gateway's hand on the table."""


def make_decider(access: TableAccess) -> Decider:
    """A gateway's decider."""
    decider: Decider = SharedCommits(
        access, transactions_table(), lambda decisions: Decide(decisions, access.new_id), files=lambda _state: 0
    )
    lasting = StateBudget(
        "transactions",
        limits.TRANSACTIONS_BYTES_MAX,
        used=lambda: decider.log.state.memory.lasting_bytes,
        advice="commit or abort those that are open",
        metrics=access.metrics,
    )
    ids = StateBudget(
        "transactional_ids",
        limits.TRANSACTIONAL_IDS_BYTES_MAX,
        used=lambda: decider.log.state.memory.ids_bytes,
        advice="use those that there are; one that is not used is forgotten after seven days",
        metrics=access.metrics,
    )
    decider.budgets += [(lasting, _lasting_growth), (ids, _ids_growth)]
    return decider


def _lasting_growth(decision: Decision, _state: TransactionsState) -> int:
    """Of transactions that have not ended. What ends one is never refused for it."""
    if isinstance(decision, Begin):
        return ROW_BYTES if decision.transaction_id is not None else 0
    if isinstance(decision, CommitAtOnce):
        return ROW_BYTES + STAGED_BYTES * len(decision.staged)
    if isinstance(decision, DecideCommit):
        return STAGED_BYTES * len(decision.staged)
    return ROW_BYTES if isinstance(decision, Forbid) else 0


def _ids_growth(decision: Decision, state: TransactionsState) -> int:
    is_new = isinstance(decision, Begin) and decision.transactional_id not in state.producers
    return ID_BYTES if is_new else 0
