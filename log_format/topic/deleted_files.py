"""Which files that left a topic's table are gone from the store, as its log says: a checkpoint need not name them any more.

Without its tombstone a file looks like one of a lost upload. So a tombstone goes by this note only, which maintenance commits
when it has listed the store and the file was not there; or by its age (``log_format.checkpoints.reconciliation``).
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
    """Say in the log that no file that left the table before ``before_ms`` is stored any more."""

    before_ms: int

    def propose(self, state: TopicState, now_ms: int) -> Proposal[None]:
        """One ``txn``. Never raises; the log must have begun. An older note than the last one does no harm."""
        assert state.version >= 0
        note = Txn(app_id=DELETED_FILES_APP_ID, version=self.before_ms, last_updated=now_ms)
        return Proposal(operation="NOTE DELETED FILES", actions=[note], result=None)
