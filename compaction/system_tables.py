"""What nobody needs any more of the tables beside the topics: files that left the table, and the beginnings of their logs.

The gateways compact these tables and write their checkpoints; nothing is deleted there. A file that no commit names stays: there
is one only where a gateway died between two requests, and no fence (``log_format.fence``) protects these tables' committers.
"""

from __future__ import annotations

from typing import Any, Final

from compaction.collection import Deletion, Why, plan_segments
from compaction.log_cleanup import plan_log
from log_format import checkpoint, layout, limits
from log_format.clock import Clock
from log_format.groups_state import consumer_offsets_table
from log_format.live_segments import removed_segments
from log_format.store import ObjectStore
from log_format.table import NO_LOG, Table
from log_format.table_log import TableLog
from log_format.transactions_state import transactions_table

TABLES: Final[tuple[tuple[Table[Any], tuple[str, ...]], ...]] = (
    (transactions_table(), ("decisions/", "compacted/")),
    (consumer_offsets_table(), ("offsets/", "compacted/")),
)
"""Each with the folders of its data files."""


def plan_table(store: ObjectStore, table: Table[Any], folders: tuple[str, ...], clock: Clock) -> list[Deletion]:
    """What of the table may go, in the order in which it must. Raises ``StoreUnavailable``, ``CorruptData``."""
    stored = [info for folder in folders for info in store.list(f"{table.root}{folder}")]
    log = list(store.list(layout.table_log_prefix(table.root)))
    state = TableLog(store, table, clock).refresh()
    now_ms, retention_ms = clock.now_ms(), limits.DELETED_FILE_RETENTION_MS
    if state.version == NO_LOG:
        return []
    reconciled = checkpoint.reconciled_table(store, table.root, state.version, now_ms)
    if reconciled is None:
        return []  # somebody wrote a checkpoint of a later version meanwhile: the next round looks again
    deletions = plan_segments(
        stored,
        table.root,
        live=set(state.files),
        removed_at_ms={each.path: each.removed_at_ms for each in removed_segments(reconciled)},
        retention_ms=retention_ms,
        now_ms=now_ms,
    )
    gone = [deletion for deletion in deletions if deletion.why is Why.REMOVED]
    return [*gone, *plan_log(log, retention_ms=retention_ms, now_ms=now_ms)]
