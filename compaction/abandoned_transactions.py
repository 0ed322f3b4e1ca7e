"""Finishing transactions that were decided and not finished, such as those of a job that crashed; and forbidding abandoned ones.

Gateways finish transactions that fit their memory. A job's may be larger, and there may be no gateway. Finishing a transaction
concurrently with another process does no harm (``log_format.transactions.finishing``).

If objects were staged so long ago that they are about to be deleted, by a program that never decided the transaction, the
transaction is forbidden first. Otherwise a program that slept could decide it after the deletion.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from compaction.report import Reporter
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.delta.committer import Committer
from log_format.errors import TidelogError
from log_format.ids import NewId
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.store import ObjectStore
from log_format.transactions.changes import Decide, ForbidTransaction
from log_format.transactions.state import TransactionsState
from log_format.transactions.transaction_finisher import TransactionFinisher

LEFT_ALONE_MS: Final = 60_000
"""How long a decided transaction is left to its own process, and to gateways."""

FORBIDDEN_PER_COMMIT_MAX: Final = 1_000
"""Most transactions that one commit forbids."""


def finish_abandoned(
    store: ObjectStore,
    clock: Clock,
    new_id: NewId,
    report: Reporter,
    *,
    to_forbid: Collection[str] = (),
    is_dry_run: bool,
    left_alone_ms: int = LEFT_ALONE_MS,
) -> TransactionsState:
    """Finish decided transactions, reporting each that can't be finished; return the transactions' state afterwards.

    Args:
        store: where the transactions are.
        clock: source of time.
        new_id: source of unique ids.
        report: gets each outcome.
        to_forbid: transactions to forbid, so that they are never decided from now on, unless they were before.
        is_dry_run: change nothing.
        left_alone_ms: age below which a decision is left to others.

    Raises ``TidelogError``, ``StoreUnavailable``.
    """
    finishing = TransactionFinisher(
        store,
        clock,
        new_id=new_id,
        log_of=lambda topic: TopicLog(store, topic, clock),
        engine="tidelog-maintenance",
        type_records=StoredReaders(store, clock).type_records,
    )
    now_ms = clock.now_ms()
    state = finishing.log.refresh()
    unknown = [] if is_dry_run else [one for one in to_forbid if one not in state.transactions]
    committer = Committer(finishing.log, new_id=new_id, engine="tidelog-maintenance")
    for first in range(0, len(unknown), FORBIDDEN_PER_COMMIT_MAX):
        some = unknown[first : first + FORBIDDEN_PER_COMMIT_MAX]
        committer.commit(Decide([ForbidTransaction(transaction_id=one) for one in some], new_id))
    for row in list(finishing.log.state.transactions.values()):
        if row.state != "committing" or now_ms - row.recorded_at_ms <= left_alone_ms or is_dry_run:
            continue
        try:
            finishing.finish(row)
            report.event("transaction finished", transaction=row.transaction_id)
        except TidelogError as problem:
            report.event("failed", transaction=row.transaction_id, problem=problem.detail)
    return finishing.log.state
