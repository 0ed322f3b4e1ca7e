"""A commit that only advances the log, so that a committer that slept finds its version taken.

A committer that sleeps between checking its segment's age and its PUT could commit a segment that maintenance deletes meanwhile.
So maintenance commits a fence before it deletes orphans. Either the committer then finds its version taken, and checks again. Or
its commit came just before the fence; maintenance, which reads the log after its fence, finds that the segment is no orphan.
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
    """A change that advances any table's log past ``version``; it is made already if the log is past that."""

    version: int

    def propose(self, state: TableState, now_ms: int) -> Proposal[None]:
        """Propose one ``txn`` that no reader uses. Never raises; the log must not be empty."""
        assert state.version >= 0
        has_gone_on = state.version > self.version
        fence = Txn(app_id=FENCE_APP_ID, version=now_ms, last_updated=now_ms)
        return Proposal(operation="FENCE", actions=() if has_gone_on else [fence], result=None)


def store_time_ms(store: ObjectStore, root: str, version: int) -> int:
    """Return when the store took the commit of this version, by the store's clock, since maintenance's own clock may be wrong.

    Behind a fresh fence that is the present time. ``root``: the table's root. Raises ``ObjectMissing``, ``StoreUnavailable``.
    """
    return store.head(layout.table_commit_key(root, version)).modified_at_ms
