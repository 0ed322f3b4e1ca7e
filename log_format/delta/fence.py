"""A commit that only moves the log on.

A committer that sleeps between the check of its segment's age and its put could commit a segment that maintenance deletes
meanwhile. So maintenance moves the log on before it deletes orphans. The committer then finds its version taken, and checks
again; or it came just before, and maintenance, which looks at the log behind the fence, finds that the segment is no orphan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from log_format import layout
from log_format.delta.actions import Txn
from log_format.delta.change import Proposal
from log_format.delta.table import TableState
from log_format.store import ObjectStore

FENCE_APP_ID: Final = "collected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Move any table's log on past ``version``; made already when the log is past it."""

    version: int

    def propose(self, state: TableState, now_ms: int) -> Proposal[None]:
        """One ``txn`` that no reader uses. Never raises; the log must have begun."""
        assert state.version >= 0
        has_gone_on = state.version > self.version
        fence = Txn(app_id=FENCE_APP_ID, version=now_ms, last_updated=now_ms)
        return Proposal(operation="FENCE", actions=() if has_gone_on else [fence], result=None)


def store_time_ms(store: ObjectStore, root: str, version: int) -> int:
    """When the store took the commit of this version, which is not long ago behind a fence: maintenance's own clock may be wrong.

    ``root``: of the table. Raises ``ObjectMissing``, ``StoreUnavailable``.
    """
    return store.head(layout.table_commit_key(root, version)).modified_at_ms
