"""Transactions that were decided and not finished, such as those of a job that crashed in between.

Gateways finish transactions that fit their memory. A job's may be larger, and there may be no gateway. Finishing one at the same
time as another process does no harm (``log_format.transactions.finishing``).
"""

from __future__ import annotations

from typing import Final

from compaction.report import Reporter
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.errors import TidelogError
from log_format.ids import NewId
from log_format.store import ObjectStore
from log_format.transactions.state import TransactionsState
from log_format.transactions.without_gateway import TransactionFinishing

LEFT_ALONE_MS: Final = 60_000
"""How long a decided transaction is left to its own process, and to gateways."""


def finish_left(
    store: ObjectStore,
    clock: Clock,
    new_id: NewId,
    report: Reporter,
    *,
    is_dry_run: bool,
    left_alone_ms: int = LEFT_ALONE_MS,
) -> TransactionsState:
    """Finish them, reporting each that can't be; returns the state of the transactions then.

    Raises ``StoreUnavailable``, ``CorruptData``.
    """
    finishing = TransactionFinishing(
        store, clock, new_id=new_id, log_of=lambda topic: TopicLog(store, topic, clock), engine="tidelog-maintenance"
    )
    now_ms = clock.now_ms()
    for row in list(finishing.log.refresh().transactions.values()):
        if row.state != "committing" or now_ms - row.recorded_at_ms <= left_alone_ms or is_dry_run:
            continue
        try:
            finishing.finish(row)
            report.event("transaction finished", transaction=row.transaction_id)
        except TidelogError as problem:
            report.event("failed", transaction=row.transaction_id, problem=problem.detail)
    return finishing.log.state
