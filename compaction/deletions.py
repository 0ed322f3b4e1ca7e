"""Deleting for good: first every reason is said, then each object goes."""

from __future__ import annotations

from collections.abc import Sequence

from compaction.collection import Deletion
from compaction.report import Reporter, Totals
from log_format.store import ObjectStore


def delete_all(
    store: ObjectStore, deletions: Sequence[Deletion], *, report: Reporter, totals: Totals, is_dry_run: bool
) -> None:
    """Delete in the order given; with ``is_dry_run`` only say what would be. Raises ``StoreUnavailable``."""
    for deletion in deletions:
        report.event(
            "would delete" if is_dry_run else "delete",
            key=deletion.key,
            bytes=deletion.size_bytes,
            why=deletion.why.value,
        )
    if is_dry_run:
        return
    for deletion in deletions:
        store.delete(deletion.key)
        totals.deleted_objects += 1
        totals.deleted_bytes += deletion.size_bytes
