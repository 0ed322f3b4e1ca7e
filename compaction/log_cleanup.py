"""The plan of which commits and checkpoints of a log to delete. Pure.

A *keeper* is chosen: the newest of the ``covering_checkpoints``. Everything below the keeper is deleted, oldest first, except
pinned versions. So a crash leaves no hole above the keeper, and below it only around pinned versions and among the few objects
that were being deleted concurrently. This follows the rules of docs/format.md, section 9.

Nothing is deleted for the sake of a checkpoint that Tidelog does not load: another program's, or a damaged one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Final

from compaction.collection import Deletion, DeletionReason
from log_format import layout, limits
from log_format.delta.log_retention import ListedLog, covering_checkpoints
from log_format.store import ObjectInfo

CHECKPOINTS_APART_MIN: Final = 5_000
"""Least number of versions between two kept old checkpoints: twenty minutes of flushes, seconds to replay."""


def plan_log(
    stored: Iterable[ObjectInfo],
    *,
    retention_ms: int,
    commits_kept: int,
    kept_ms: int = limits.LOG_KEPT_MS_MIN,
    now_ms: int,
    is_loadable: Callable[[int], bool],
    pinned: Collection[int] = (),
) -> list[Deletion]:
    """Return the objects of a listed ``_delta_log`` to delete, in order of deletion.

    Args:
        stored: listing of the log.
        retention_ms: how far back in time readers may go.
        commits_kept: number of commits above which older ones are deleted sooner, but none of the last ``kept_ms``; -1 for no
            limit.
        kept_ms: how far back in time readers may go whatever ``commits_kept`` says, if ``retention_ms`` allows it.
        now_ms: present time, in ms since the epoch.
        is_loadable: whether a version's checkpoint is whole and Tidelog's; asked only about those for which something would be
            deleted.
        pinned: versions whose commit and checkpoint stay.
    """
    log = ListedLog.of(stored)
    # A pin whose checkpoint is not there yet gets it from the commits below.
    unfinished = min((version for version in pinned if version not in log.checkpoints), default=None)
    keepers = [
        version
        for version in covering_checkpoints(
            log, retention_ms=retention_ms, commits_kept=commits_kept, kept_ms=kept_ms, now_ms=now_ms
        )
        if unfinished is None or version <= unfinished
    ]
    is_loadable = cache(is_loadable)
    entries = [(version, info) for version, info in log.entries if version not in pinned]
    oldest = min((version for version, _ in entries), default=-1)
    keeper = next((one for one in keepers if one == oldest or is_loadable(one)), -1)
    thinned = set(_thin_checkpoints(log.connected, keeper, now_ms, is_loadable))
    return [
        Deletion(key=info.key, size_bytes=info.size_bytes, why=DeletionReason.SUPERSEDED)
        for version, info in sorted(entries, key=lambda entry: (entry[0], entry[1].key))
        if version < keeper or (version in thinned and layout.commit_version(info.key) is None)
    ]


def cleaned_below(deletions: Iterable[Deletion]) -> int:
    """Return the version below which ``deletions`` have every commit; 0 if they have none."""
    versions = (layout.commit_version(deletion.key) for deletion in deletions)
    return max((version + 1 for version in versions if version is not None), default=0)


def _thin_checkpoints(
    checkpoints: Mapping[int, int], keeper: int, now_ms: int, is_loadable: Callable[[int], bool]
) -> Iterator[int]:
    """Yield versions of old checkpoints, from ``keeper`` (-1: the first) on, that are too close to a kept one."""
    old = sorted(
        version
        for version, written_at_ms in checkpoints.items()
        if version >= keeper and now_ms - written_at_ms > limits.LOG_KEPT_MS_MIN
    )
    kept: int | None = None
    for version in old[:-1]:
        if kept is not None and version - kept < CHECKPOINTS_APART_MIN and is_loadable(kept):
            yield version
        else:
            kept = version
