"""Which objects are unused. Pure: what was listed, what the log says, and the time give the plan.

A segment that left the table stays for ``deleted.file.retention.ms``: readers of the table may lag, or travel back, so far.

An object that no commit names and no tombstone is an orphan: a flush or a rewrite that never came to its commit, or did not
find the head as it needed it. It is collected only when it is older than ``ORPHAN_GRACE_MS`` by the store's clock. The other side
of that grace is the committer's, which refuses a segment whose upload began more than ``SEGMENT_AGE_MAX_MS`` ago: so what is
collected can't be on its way into a commit, as long as clocks differ by less than the rest. A committer that slept between
that look and its put is stopped by a fence (``log_format.delta.fence``), which the collector commits before it deletes orphans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from log_format import layout, limits
from log_format.store import ObjectInfo


class Why(StrEnum):
    """The reason of a deletion, as it is logged."""

    REMOVED = "its segment left the table longer ago than deleted.file.retention.ms"
    ORPHAN = "no commit names it, and it is too old to be on its way into one"
    STAGED = "its transaction has ended, and it is too old for another one"
    PROBE = "it only proved what the store can do"
    SUPERSEDED = "a checkpoint covers its version, and no reader may lag so far"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """An object to delete."""

    key: str
    size_bytes: int
    why: Why


def plan_segments(
    stored: Iterable[ObjectInfo],
    root: str,
    *,
    live: Collection[str],
    removed_at_ms: Mapping[str, int],
    retention_ms: int,
    now_ms: int,
    grace_ms: int = limits.ORPHAN_GRACE_MS,
) -> list[Deletion]:
    """Segments of the table below ``root`` that may go. ``live`` and ``removed_at_ms`` by path in the table.

    ``stored`` must have been listed before the log was read: what came into the table in between is then in ``live``.
    """
    deletions = []
    for info in stored:
        path = info.key.removeprefix(root)
        if path in live:
            continue
        removed = removed_at_ms.get(path)
        if removed is not None and now_ms - removed > retention_ms:
            deletions.append(Deletion(key=info.key, size_bytes=info.size_bytes, why=Why.REMOVED))
        elif removed is None and now_ms - info.modified_at_ms > grace_ms:
            deletions.append(Deletion(key=info.key, size_bytes=info.size_bytes, why=Why.ORPHAN))
    return deletions


def plan_staged(stored: Iterable[ObjectInfo], *, committing: Collection[str], now_ms: int) -> list[Deletion]:
    """Staged objects of transactions that have ended. ``committing``: those whose records may still be on their way."""
    prefix = f"{layout.TRANSACTIONS_ROOT}staged/"
    return [
        Deletion(key=info.key, size_bytes=info.size_bytes, why=Why.STAGED)
        for info in stored
        if now_ms - info.modified_at_ms > limits.ORPHAN_GRACE_MS
        and info.key.removeprefix(prefix).partition("/")[0] not in committing
    ]


def plan_probes(stored: Iterable[ObjectInfo], *, now_ms: int) -> list[Deletion]:
    """A probe of the store whose process died before it deleted it."""
    return [
        Deletion(key=info.key, size_bytes=info.size_bytes, why=Why.PROBE)
        for info in stored
        if now_ms - info.modified_at_ms > limits.ORPHAN_GRACE_MS
    ]
