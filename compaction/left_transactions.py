"""Transactions that were decided and left: a job's that died before it had brought them to their end.

Gateways finish what fits their memory; a job's may be larger, and there may be no gateway. Finishing one that somebody else is
about to finish does no harm (``log_format.transactions.finishing``).
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
"""How long a decided one is left to the process that decided it, and to gateways."""


def finish_left(
    store: ObjectStore, clock: Clock, new_id: NewId, report: Reporter, *, is_dry_run: bool
) -> TransactionsState:
    """Bring them to their end; the state of the transactions then. One that can't be is told of.

    Raises ``StoreUnavailable``, ``CorruptData``.
    """
    finishing = TransactionFinishing(
        store, clock, new_id=new_id, log_of=lambda topic: TopicLog(store, topic, clock), engine="tidelog-maintenance"
    )
    now_ms = clock.now_ms()
    for row in list(finishing.log.refresh().transactions.values()):
        if row.state != "committing" or now_ms - row.recorded_at_ms <= LEFT_ALONE_MS or is_dry_run:
            continue
        try:
            finishing.finish(row)
            report.event("transaction finished", transaction=row.transaction_id)
        except TidelogError as problem:
            report.event("failed", transaction=row.transaction_id, problem=problem.detail)
    return finishing.log.state
