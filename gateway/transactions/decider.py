"""Commits decisions to ``system/transactions``."""

from __future__ import annotations

from gateway.engine.metrics import EngineMetrics
from gateway.engine.pool import Pool
from gateway.engine.shared_commits import SharedCommits
from log_format.change import NewId
from log_format.clock import Clock
from log_format.store import ObjectStore
from log_format.transaction_changes import Decide, Decision
from log_format.transaction_row import TransactionRow
from log_format.transactions_state import TransactionsState, transactions_table

Decider = SharedCommits[TransactionsState, Decision, TransactionRow]
"""One gateway's hand on the table."""


def make_decider(
    store: ObjectStore, *, clock: Clock, new_id: NewId, look_pool: Pool, write_pool: Pool, metrics: EngineMetrics
) -> Decider:
    """A gateway's decider."""
    return SharedCommits(
        store,
        transactions_table(),
        lambda decisions: Decide(decisions, new_id),
        clock=clock,
        new_id=new_id,
        look_pool=look_pool,
        write_pool=write_pool,
        metrics=metrics,
        files=lambda _state: 0,
    )
