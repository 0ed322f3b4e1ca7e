"""``system/transactions``: transactions that were begun, their decisions, their records' places."""

from __future__ import annotations

from gateway.call import detached_from_call
from gateway.engine.open_table import TableAccess
from gateway.engine.shared_commits import SharedCommits
from gateway.engine.state_budget import StateBudget
from log_format import limits
from log_format.errors import RequestRefused
from log_format.transactions.changes import (
    BeginAndCommit,
    BeginTransaction,
    Decide,
    DecideAbort,
    DecideCommit,
    Decision,
    ForbidTransaction,
    unknown_transaction_error,
)
from log_format.transactions.compaction import Compact
from log_format.transactions.kafka_producers import BeginNext, InitProducer
from log_format.transactions.row import Reason, TransactionRow
from log_format.transactions.state import ID_BYTES, ROW_BYTES, STAGED_BYTES, TransactionsState, transactions_table


class TransactionsTable(SharedCommits[TransactionsState, Decision, TransactionRow]):
    """The open table ``system/transactions``. Used on the event loop only."""

    def __init__(self, access: TableAccess) -> None:
        lasting = StateBudget(
            "transactions",
            limits.TRANSACTIONS_BYTES_MAX,
            used=lambda: self.log.state.memory.lasting_bytes,
            advice="commit or abort those that are open",
            metrics=access.metrics,
        )
        ids = StateBudget(
            "transactional_ids",
            limits.TRANSACTIONAL_IDS_BYTES_MAX,
            used=lambda: self.log.state.memory.ids_bytes,
            advice="use those that there are; one that is not used is forgotten after seven days",
            metrics=access.metrics,
        )
        super().__init__(
            access,
            transactions_table(),
            Decide,
            Compact,
            files=lambda _state: 0,
            budgets=((lasting, _lasting_growth), (ids, _ids_growth)),
        )

    async def fetch_row(self, transaction_id: str) -> TransactionRow | None:
        """Return the row as it is now, None if there is none. Raises ``BackOff``."""
        return (await self.fresh()).transactions.get(transaction_id)

    async def require_row(self, transaction_id: str) -> TransactionRow:
        """Return the row as it is now. Raises ``RequestRefused`` if there is none; ``BackOff``."""
        row = await self.fetch_row(transaction_id)
        if row is None:
            raise unknown_transaction_error(transaction_id)
        return row

    async def abort(self, transaction_id: str, reason: Reason) -> TransactionRow:
        """Abort; return the aborted row, or the row of an earlier decision to commit. Raises ``RequestRefused``, ``BackOff``,
        ``OutcomeUnknown``."""
        try:
            with detached_from_call():
                return await self.decide(DecideAbort(transaction_id=transaction_id, reason=reason))
        except RequestRefused:
            row = await self.require_row(transaction_id)
            if row.state not in ("committing", "committed"):
                raise
            return row


def _lasting_growth(decision: Decision, _state: TransactionsState) -> int:
    """Return the bytes that a decision adds to transactions that have not ended. A decision that ends one is never refused for
    memory."""
    if isinstance(decision, BeginTransaction):
        return ROW_BYTES if decision.transaction_id is not None else 0
    if isinstance(decision, BeginNext):
        return ROW_BYTES
    if isinstance(decision, BeginAndCommit):
        return ROW_BYTES + STAGED_BYTES * len(decision.staged)
    if isinstance(decision, DecideCommit):
        return STAGED_BYTES * len(decision.staged)
    return ROW_BYTES if isinstance(decision, ForbidTransaction) else 0


def _ids_growth(decision: Decision, state: TransactionsState) -> int:
    is_new = isinstance(decision, BeginTransaction | InitProducer) and decision.transactional_id not in state.producers
    return ID_BYTES if is_new else 0
