"""Which commits and checkpoints of a log to delete. Pure.

A *keeper* is chosen: the newest checkpoint that was written at least ``LOG_KEPT_MS_MIN`` ago, of a version committed before every
moment that readers may go back to. What lies below it is deleted, oldest first. So a crash leaves no hole above the keeper, and
below it only among the few objects that were being deleted together. This follows the rules of docs/format.md, section 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from compaction.collection import Deletion, Why
from log_format import layout, limits
from log_format.store import ObjectInfo

CHECKPOINTS_APART_MIN: Final = 5_000
"""Versions between two kept old checkpoints: twenty minutes of flushes, seconds to replay."""


def plan_log(stored: Iterable[ObjectInfo], *, retention_ms: int, now_ms: int) -> list[Deletion]:
    """The objects of a listed ``_delta_log`` to delete, in that order. ``retention_ms``: how far readers may go back."""
    entries: list[tuple[int, ObjectInfo]] = []
    checkpoints: dict[int, int] = {}
    committed_at_ms: dict[int, int] = {}
    for info in stored:
        commit, checkpoint = layout.commit_version(info.key), layout.checkpoint_version(info.key)
        if commit is not None:
            committed_at_ms[commit] = info.modified_at_ms
            entries.append((commit, info))
        elif checkpoint is not None:
            checkpoints[checkpoint] = info.modified_at_ms
            entries.append((checkpoint, info))
    oldest_ms = now_ms - max(retention_ms, limits.LOG_KEPT_MS_MIN)
    keepers = [
        version
        for version, written_at_ms in checkpoints.items()
        if now_ms - written_at_ms > limits.LOG_KEPT_MS_MIN and committed_at_ms.get(version, written_at_ms) < oldest_ms
    ]
    keeper = max(keepers, default=-1)
    thinned = set(_thinned(checkpoints, keeper, now_ms))
    return [
        Deletion(key=info.key, size_bytes=info.size_bytes, why=Why.SUPERSEDED)
        for version, info in sorted(entries, key=lambda entry: (entry[0], entry[1].key))
        if version < keeper or (version in thinned and layout.checkpoint_version(info.key) is not None)
    ]


def cleaned_below(deletions: Iterable[Deletion]) -> int:
    """The version below which ``deletions`` have every commit; 0 when they have none."""
    versions = (layout.commit_version(deletion.key) for deletion in deletions)
    return max((version + 1 for version in versions if version is not None), default=0)


def _thinned(checkpoints: Mapping[int, int], keeper: int, now_ms: int) -> Iterator[int]:
    """Versions of old checkpoints from ``keeper`` on (-1: of all) that are too close to a kept one."""
    old = sorted(
        version
        for version, written_at_ms in checkpoints.items()
        if version >= keeper and now_ms - written_at_ms > limits.LOG_KEPT_MS_MIN
    )
    kept: int | None = None
    for version in old[:-1]:
        if kept is not None and version - kept < CHECKPOINTS_APART_MIN:
            yield version
        else:
            kept = version
