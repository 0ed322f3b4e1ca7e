"""Collecting the system tables: files that left the table, files that no commit names, and the beginnings of their logs.

Gateways compact these tables and write their checkpoints, but delete nothing. Their commits go through the same committer as
those of topics. So the same rules hold for orphans: the grace time, the committer's age limit and the fence
(``compaction.collection``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import pyarrow.compute as pc

from compaction.collection import Deletion, DeletionReason, plan_segments
from compaction.log_cleanup import cleaned_below, plan_log
from log_format import layout, limits
from log_format.access.state import access_table
from log_format.checkpoints import checkpoint
from log_format.checkpoints.journal_log import journal_table
from log_format.clock import Clock
from log_format.delta.actions import plain_path
from log_format.delta.checkpoint_schema import select_actions
from log_format.delta.cleaned_log import note_cleaned
from log_format.delta.committer import Committer
from log_format.delta.fence import Fence, store_time_ms
from log_format.delta.log import TableLog
from log_format.delta.table import NO_LOG, Table
from log_format.groups.state import consumer_offsets_table
from log_format.ids import NewId
from log_format.queues.state import queues_table
from log_format.schemas.state import schemas_table
from log_format.store import ObjectInfo, ObjectStore
from log_format.topic.live_segments import removed_segments
from log_format.transactions.state import transactions_table

TABLES: Final[tuple[tuple[Table[Any], tuple[str, ...]], ...]] = (
    (transactions_table(), ("decisions/", "compacted/")),
    (consumer_offsets_table(), ("offsets/", "compacted/")),
    (access_table(), ("rows/", "compacted/")),
    (queues_table(), ("settlements/", "compacted/")),
    (schemas_table(), ("rows/", "compacted/")),
)
"""System tables, each with the folders of its data files."""

JOURNAL_KEPT_MS: Final = 3_600_000
"""How long a journal's object is kept once its records are in the topics' tables, so that readers that planned by it
can finish."""


def plan_journal(
    store: ObjectStore, number: int, clock: Clock, new_id: NewId, *, is_dry_run: bool = False
) -> tuple[Deletion, ...]:
    """Return the objects of a journal to delete, like ``plan_table``."""
    table, folders = journal_table(number), (layout.SEGMENTS,)
    return plan_table(store, table, folders, clock, new_id, retention_ms=JOURNAL_KEPT_MS, is_dry_run=is_dry_run)


def plan_table(
    store: ObjectStore,
    table: Table[Any],
    folders: tuple[str, ...],
    clock: Clock,
    new_id: NewId,
    *,
    retention_ms: int = limits.DELETED_FILE_RETENTION_MS,
    is_dry_run: bool = False,
) -> tuple[Deletion, ...]:
    """Return the objects of a table to delete, in order of deletion.

    Args:
        store: where the table is.
        table: the table.
        folders: folders of its data files.
        clock: source of time.
        new_id: source of unique ids.
        retention_ms: how far back in time the table's readers may go.
        is_dry_run: commit and note nothing.

    Unless in a dry run, it commits a fence first if there are orphans among the objects, and notes how much of the log is
    cleaned. Raises ``TidelogError``, ``StoreUnavailable``.
    """
    log = TableLog(store, table, clock)
    before = log.refresh().version
    # Listed before the log is read, so that the log names the files committed meanwhile.
    stored = [info for folder in folders for info in store.list(f"{table.root}{folder}")]
    commits = list(store.list(layout.table_log_prefix(table.root)))
    if before == NO_LOG:
        return ()
    files = _find_unneeded(log, stored, retention_ms)
    if any(deletion.why is DeletionReason.ORPHAN for deletion in files) and not is_dry_run:
        fenced = Committer(log, new_id=new_id, engine="tidelog-maintenance").commit(Fence(version=before)).state.version
        files = _find_unneeded(log, stored, retention_ms, store_time_ms(store, table.root, fenced))
    superseded = plan_log(
        commits,
        retention_ms=retention_ms,
        commits_kept=limits.COMMITS_KEPT,
        now_ms=clock.now_ms(),
        is_loadable=partial(checkpoint.is_loadable, store, table.root),
    )
    if (below := cleaned_below(superseded)) and not is_dry_run:
        note_cleaned(store, table.root, below)
    return (*files, *superseded)


def _find_unneeded(
    log: TableLog[Any], stored: Sequence[ObjectInfo], retention_ms: int, store_ms: int | None = None
) -> list[Deletion]:
    """Return those of the stored files that the table does not need at its head. ``store_ms``: the store's time, if known."""
    store, root, now_ms = log.store, log.table.root, log.clock.now_ms()
    reconciled = checkpoint.reconcile_table(store, root, log.refresh().version, now_ms)
    if reconciled is None:
        return []  # another process wrote a later checkpoint: the next round tries again
    return plan_segments(
        stored,
        root,
        live={plain_path(path) for path in pc.struct_field(select_actions(reconciled, "add"), "path").to_pylist()},
        removed_at_ms={each.path: each.removed_at_ms for each in removed_segments(reconciled)},
        deletable_before_ms=now_ms - retention_ms,
        now_ms=now_ms if store_ms is None else min(now_ms, store_ms),
    )
