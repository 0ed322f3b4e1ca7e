"""Which of a log's checkpoints covers all versions that readers may not need any more: clean-up deletes what is below it.

Pure. With the same settings the newest such checkpoint never goes back as time passes and the log grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from log_format import layout, limits
from log_format.store import ObjectInfo


@dataclass(frozen=True, slots=True)
class ListedLog:
    """A listing of a log. ``commits`` and ``checkpoints``: version -> when the object was written, in ms since the epoch."""

    commits: Mapping[int, int]
    checkpoints: Mapping[int, int]
    entries: tuple[tuple[int, ObjectInfo], ...]
    """Version of each commit and checkpoint, with its object."""

    @property
    def first(self) -> int:
        """First version from which the log has every commit; 0 without commits. Below it only single versions are left."""
        version = max(self.commits, default=0)
        while version - 1 in self.commits:
            version -= 1
        return version

    @property
    def connected(self) -> dict[int, int]:
        """Those of the checkpoints after which the log has every commit."""
        first = self.first
        return {version: written_ms for version, written_ms in self.checkpoints.items() if version >= first - 1}

    @classmethod
    def of(cls, stored: Iterable[ObjectInfo]) -> ListedLog:
        """Return the log whose objects are ``stored``."""
        entries: list[tuple[int, ObjectInfo]] = []
        checkpoints: dict[int, int] = {}
        commits: dict[int, int] = {}
        for info in stored:
            commit, checkpoint = layout.commit_version(info.key), layout.checkpoint_version(info.key)
            if commit is not None:
                commits[commit] = info.modified_at_ms
                entries.append((commit, info))
            elif checkpoint is not None:
                checkpoints[checkpoint] = info.modified_at_ms
                entries.append((checkpoint, info))
            elif (part := layout.archive_part_version(info.key)) is not None:
                entries.append((part, info))
        return cls(commits, checkpoints, tuple(entries))


def covering_checkpoints(
    log: ListedLog, *, retention_ms: int, commits_kept: int, kept_ms: int = limits.LOG_KEPT_MS_MIN, now_ms: int
) -> list[int]:
    """Return the versions of the checkpoints below which everything may be deleted, newest first.

    Such a checkpoint was written at least ``LOG_KEPT_MS_MIN`` ago, and its version was committed before every time to which
    readers may go back, or has as many commits after it as are kept for them.

    Args:
        log: the log.
        retention_ms: how far back in time readers may go.
        commits_kept: number of commits above which older ones are deleted sooner, but none of the last ``kept_ms``; -1 for no
            limit.
        kept_ms: how far back in time readers may go whatever ``commits_kept`` says, if ``retention_ms`` allows it; at least
            ``LOG_KEPT_MS_MIN``.
        now_ms: present time, in ms since the epoch.
    """
    newest_deleted_ms = now_ms - limits.LOG_KEPT_MS_MIN
    oldest_ms = min(now_ms - retention_ms, newest_deleted_ms)
    counted_below = max(log.commits, default=-1) - commits_kept if commits_kept >= 0 else -1

    def covers(version: int, written_at_ms: int) -> bool:
        committed_ms = log.commits.get(version, written_at_ms)
        is_past = committed_ms < oldest_ms or (committed_ms < now_ms - kept_ms and version <= counted_below)
        return is_past and written_at_ms < newest_deleted_ms

    found = (version for version, written_at_ms in log.connected.items() if covers(version, written_at_ms))
    return sorted(found, reverse=True)
