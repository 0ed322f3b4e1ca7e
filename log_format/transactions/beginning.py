"""The first version of ``system/transactions`` in a store whose topics were copied from another one.

A topic remembers by versions of that table which transactions have ended (``log_format.topic.applied_transactions``). If the
table began at version 0, its first decisions would have lower versions, and no topic would accept their records. So the table
begins at a later version, with a checkpoint in place of the earlier commits.
"""

from __future__ import annotations

import uuid

from log_format.checkpoints.checkpoint import (
    advance_checkpoint,
    open_checkpoint,
    put_checkpoint,
    write_table_checkpoint,
)
from log_format.clock import Clock
from log_format.delta.actions import PROTOCOL, CommitInfo, as_decoded_commit
from log_format.delta.checkpoint_hint import read_hinted_version
from log_format.delta.log import TableLog
from log_format.delta.system_table import table_metadata
from log_format.delta.table import NO_LOG
from log_format.store import ObjectStore
from log_format.transactions.row import SCHEMA
from log_format.transactions.state import NAME, transactions_table


def skip_versions(store: ObjectStore, version: int, clock: Clock) -> None:
    """Make the next decision's version larger than ``version``, whatever the table has now. Nobody may write to it meanwhile.

    Raises ``StoreUnavailable``, ``CorruptData``.
    """
    table, now_ms = transactions_table(), clock.now_ms()
    head = TableLog(store, table, clock).refresh().version
    if head >= version:
        return
    commits = []
    if head == NO_LOG:
        metadata = table_metadata(NAME, SCHEMA, uuid.uuid4().hex, now_ms)
        commits.append(as_decoded_commit(CommitInfo(timestamp=now_ms), [PROTOCOL, metadata]))
    else:
        write_table_checkpoint(store, table.root, head, now_ms)
    base = None if head == NO_LOG else open_checkpoint(store, table.root, head)
    found = advance_checkpoint(base, commits, table.root, now_ms)
    put_checkpoint(store, table.root, version, read_hinted_version(store, table.root), found)
