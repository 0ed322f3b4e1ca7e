"""Transactions that were decided and not finished, such as those of a job that crashed in between; and those that never will be.

Gateways finish transactions that fit their memory. A job's may be larger, and there may be no gateway. Finishing one at the same
time as another process does no harm (``log_format.transactions.finishing``).

What was staged for so long that it is about to be deleted, by a program that never decided it, is given up first: a program that
slept could decide it behind the deletion.
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
from log_format.store import ObjectStore
from log_format.transactions.changes import Decide, Forbid
from log_format.transactions.state import TransactionsState
from log_format.transactions.without_gateway import TransactionFinishing

LEFT_ALONE_MS: Final = 60_000
"""How long a decided transaction is left to its own process, and to gateways."""

GIVEN_UP_AT_ONCE: Final = 1_000
"""Transactions that one commit gives up."""


def finish_left(
    store: ObjectStore,
    clock: Clock,
    new_id: NewId,
    report: Reporter,
    *,
    given_up: Collection[str] = (),
    is_dry_run: bool,
    left_alone_ms: int = LEFT_ALONE_MS,
) -> TransactionsState:
    """Finish them, reporting each that can't be; returns the state of the transactions then.

    ``given_up``: transactions that are never decided from then on, unless they were before. Raises ``TidelogError``,
    ``StoreUnavailable``.
    """
    finishing = TransactionFinishing(
        store, clock, new_id=new_id, log_of=lambda topic: TopicLog(store, topic, clock), engine="tidelog-maintenance"
    )
    now_ms = clock.now_ms()
    state = finishing.log.refresh()
    unknown = [] if is_dry_run else [one for one in given_up if one not in state.transactions]
    committer = Committer(finishing.log, new_id=new_id, engine="tidelog-maintenance")
    for first in range(0, len(unknown), GIVEN_UP_AT_ONCE):
        some = unknown[first : first + GIVEN_UP_AT_ONCE]
        committer.commit(Decide([Forbid(transaction_id=one) for one in some], new_id))
    for row in list(finishing.log.state.transactions.values()):
        if row.state != "committing" or now_ms - row.recorded_at_ms <= left_alone_ms or is_dry_run:
            continue
        try:
            finishing.finish(row)
            report.event("transaction finished", transaction=row.transaction_id)
        except TidelogError as problem:
            report.event("failed", transaction=row.transaction_id, problem=problem.detail)
    return finishing.log.state
