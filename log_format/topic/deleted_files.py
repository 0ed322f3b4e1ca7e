"""A note in a topic's log that old deleted files are gone from the store, so that a checkpoint need not name them any more.

Without its tombstone a deleted file looks like one of an upload that failed. So a checkpoint drops a tombstone only by this note,
which maintenance commits when a listing of the store does not have the file any more; or by its age
(``log_format.checkpoints.reconciliation``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from log_format.delta.actions import Txn
from log_format.delta.change import Proposal
from log_format.topic.state import TopicState

DELETED_FILES_APP_ID: Final = "deleted-files"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteDeletedFiles:
    """A change that notes in the log: no file that left the table before ``before_ms`` is in the store any more."""

    before_ms: int

    def propose(self, state: TopicState, now_ms: int) -> Proposal[None]:
        """Propose one ``txn``. Never raises; the log must not be empty. A note older than the last one does no harm."""
        assert state.version >= 0
        note = Txn(app_id=DELETED_FILES_APP_ID, version=self.before_ms, last_updated=now_ms)
        return Proposal(operation="NOTE DELETED FILES", actions=[note], result=None)
