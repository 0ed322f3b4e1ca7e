"""Deleting objects for good. Every reason is reported before the objects are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from compaction.collection import Deletion
from compaction.report import Reporter, Totals
from log_format.store import ObjectStore


def delete_all(
    store: ObjectStore,
    deletions: Sequence[Deletion],
    *,
    report: Reporter,
    totals: Totals,
    at_once: int,
    is_dry_run: bool,
) -> None:
    """Delete objects in the order given, or only report them.

    Args:
        store: where the objects are.
        deletions: objects to delete.
        report: gets the reason of each deletion first.
        totals: counts deleted objects and bytes.
        at_once: number of concurrent deletions (a wave), at least 1; with 1 no thread is started.
        is_dry_run: only report.

    Raises ``StoreUnavailable``, and then starts no further wave.
    """
    for deletion in deletions:
        report.event(
            "would delete" if is_dry_run else "delete",
            key=deletion.key,
            bytes=deletion.size_bytes,
            why=deletion.why.value,
        )
    if is_dry_run or not deletions:
        return
    if at_once == 1:
        for deletion in deletions:
            store.delete(deletion.key)
            totals.deleted(deletion.size_bytes)
        return
    with ThreadPoolExecutor(at_once, thread_name_prefix="delete") as threads:
        for first in range(0, len(deletions), at_once):
            wave = deletions[first : first + at_once]
            for deletion, _ in zip(wave, threads.map(lambda each: store.delete(each.key), wave), strict=True):
                totals.deleted(deletion.size_bytes)
