"""The plan of which objects to delete. Pure: the listing, the log and the time give the plan.

A segment removed from the table is kept for ``deleted.file.retention.ms``, by which readers of the table may lag, or go back in
time. If there are more than ``deleted.file.retention.count`` such segments, only the newest are kept, and those of the last hour.

An object that no commit and no tombstone names is an orphan: its flush or rewrite failed before the commit. It is deleted only if
it is older than ``ORPHAN_GRACE_MS`` by the store's clock. A committer refuses a segment whose upload began more than
``SEGMENT_AGE_MAX_MS`` ago. So a deleted orphan can't be about to be committed, as long as clocks differ by less than the
difference of both.

A committer may sleep between that check and its PUT. A fence stops it (``log_format.delta.fence``), which maintenance commits
before it deletes orphans. Behind the fence maintenance plans again: if the committer woke up just before the fence, its commit
names the file by then. The fence also gives the store's time, by which an orphan must be old, too.

Copies of another topic's files may be as old as those (``log_format.checkpoints.cloning``). While a note says that such copies
are on their way, no orphan of that topic is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from log_format import layout, limits
from log_format.store import ObjectInfo


class DeletionReason(StrEnum):
    """The reason of a deletion, as it is logged."""

    REMOVED = (
        "its segment left the table longer ago than deleted.file.retention.ms, or before as many others as are kept"
    )
    ORPHAN = "no commit names it, and it is too old to be on its way into one"
    STAGED = "its transaction has ended, and it is too old for another one"
    UNNOTICED = "a request that came to nothing left it: none of its delayed records is delivered from it"
    PROBE = "it only proved what the store can do"
    SUPERSEDED = "a checkpoint covers its version, and no reader may lag so far"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """An object to delete."""

    key: str
    size_bytes: int
    why: DeletionReason


def is_stray(key: str, root: str) -> bool:
    """Return whether the key is a file right below the table's root, where other programs write."""
    return "/" not in key.removeprefix(root) and key.endswith(".parquet")


def all_deleted_before(
    stored: Iterable[ObjectInfo], root: str, *, removed_at_ms: Mapping[str, int], deletable_before_ms: int
) -> int:
    """Return a time such that every file that left the table before it is gone. Arguments as for ``plan_segments``.

    The listing counts, not the deletions of this round, so that another collector that has listed a file finds its tombstone.
    """
    removed = (removed_at_ms.get(info.key.removeprefix(root)) for info in stored)
    return min((deletable_before_ms, *(removed_ms for removed_ms in removed if removed_ms is not None)))


def plan_segments(
    stored: Iterable[ObjectInfo],
    root: str,
    *,
    live: Collection[str],
    removed_at_ms: Mapping[str, int],
    deletable_before_ms: int,
    now_ms: int,
    grace_ms: int = limits.ORPHAN_GRACE_MS,
) -> list[Deletion]:
    """Return the segments of the table at ``root`` to delete.

    Args:
        stored: listing made before the log is read, so that ``live`` has the segments committed in between.
        root: key prefix of the table.
        live: paths of the segments in the table.
        removed_at_ms: path -> when the segment left the table.
        deletable_before_ms: segments removed before this time are deleted.
        now_ms: by the store's clock, or one that is not ahead of it; only orphans are judged by it.
        grace_ms: age below which orphans are kept.
    """
    deletions = []
    for info in stored:
        path = info.key.removeprefix(root)
        if path in live:
            continue
        removed = removed_at_ms.get(path)
        if removed is not None and removed < deletable_before_ms:
            deletions.append(Deletion(key=info.key, size_bytes=info.size_bytes, why=DeletionReason.REMOVED))
        elif removed is None and now_ms - info.modified_at_ms > grace_ms:
            deletions.append(Deletion(key=info.key, size_bytes=info.size_bytes, why=DeletionReason.ORPHAN))
    return deletions


def spare_copies(deletions: Iterable[Deletion], notes: Iterable[ObjectInfo], *, now_ms: int) -> list[Deletion]:
    """Return the deletions without orphans while copies of another topic's files may be on their way into the table; else also
    the notes that said so.

    ``notes``: listed after the segments, and before the log was read.
    """
    notes = list(notes)
    if any(now_ms - note.modified_at_ms <= limits.ORPHAN_GRACE_MS for note in notes):
        return [deletion for deletion in deletions if deletion.why is not DeletionReason.ORPHAN]
    old = [Deletion(key=note.key, size_bytes=note.size_bytes, why=DeletionReason.ORPHAN) for note in notes]
    return [*deletions, *old]


def plan_staged(stored: Iterable[ObjectInfo], *, committing: Collection[str], now_ms: int) -> list[Deletion]:
    """Return staged objects of ended transactions. ``committing``: transactions whose records may not be in their topics yet."""
    return [
        Deletion(key=info.key, size_bytes=info.size_bytes, why=DeletionReason.STAGED)
        for info in stored
        if now_ms - info.modified_at_ms > limits.ORPHAN_GRACE_MS and parse_transaction_id(info) not in committing
    ]


def parse_transaction_id(staged: ObjectInfo | Deletion) -> str:
    """Return the id of the transaction for which an object is staged."""
    return staged.key.removeprefix(f"{layout.TRANSACTIONS_ROOT}staged/").partition("/")[0]


def plan_probes(stored: Iterable[ObjectInfo], *, now_ms: int) -> list[Deletion]:
    """Return probes of the store that a crash left behind."""
    return [
        Deletion(key=info.key, size_bytes=info.size_bytes, why=DeletionReason.PROBE)
        for info in stored
        if now_ms - info.modified_at_ms > limits.ORPHAN_GRACE_MS
    ]
