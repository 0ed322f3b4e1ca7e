"""When files that left a topic's table are deleted, and a note in its log that old deleted files are gone from the store.

With the note a checkpoint need not name them any more. Without its tombstone a deleted file looks like one of an upload that
failed. So a checkpoint drops a tombstone only by this note, which maintenance commits when a listing of the store does not have
the file any more; or by its age (``log_format.checkpoints.reconciliation``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from log_format import limits
from log_format.delta.actions import Txn
from log_format.delta.change import Proposal
from log_format.topic.state import TopicState

DELETED_FILES_APP_ID: Final = "deleted-files"


def deletable_before(
    removed_at_ms: Iterable[int],
    *,
    retention_ms: int,
    files_kept: int,
    kept_ms: int = limits.LOG_KEPT_MS_MIN,
    now_ms: int,
) -> int:
    """Return the time before which a file must have left the table to be deleted now.

    With the same settings it never goes back: later it is the same or greater, and so it is with more removed files.

    Args:
        removed_at_ms: when the removed files left the table.
        retention_ms: longest time for which a removed file is kept.
        files_kept: number of newest removed files to keep, besides those of the last ``kept_ms``; -1 for no limit.
        kept_ms: time for which a removed file is kept whatever ``files_kept`` says, if ``retention_ms`` allows it.
        now_ms: present time, in ms since the epoch.
    """
    by_age_ms = now_ms - retention_ms
    if files_kept < 0:
        return by_age_ms
    newest_first = sorted((removed_ms for removed_ms in removed_at_ms if removed_ms <= now_ms), reverse=True)
    if len(newest_first) <= files_kept:
        return by_age_ms
    by_count_ms = newest_first[files_kept - 1] if files_kept else now_ms
    return max(by_age_ms, min(by_count_ms, now_ms - kept_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteDeletedFiles:
    """A change that notes in the log: no file that left the table before ``before_ms`` is in the store any more."""

    before_ms: int

    def propose(self, state: TopicState, now_ms: int) -> Proposal[None]:
        """Propose one ``txn``. Never raises; the log must not be empty. A note older than the last one does no harm."""
        assert state.version >= 0
        note = Txn(app_id=DELETED_FILES_APP_ID, version=self.before_ms, last_updated=now_ms)
        return Proposal(operation="NOTE DELETED FILES", actions=[note], result=None)
