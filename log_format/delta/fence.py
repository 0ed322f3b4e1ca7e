"""A commit that says nothing but that the log went on.

A committer that slept between the look at its segment's age and its put would commit a segment that a collector of orphans
took meanwhile. So the collector sees to it that the log has gone on before it deletes: the sleeper finds its version taken,
and looks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from log_format.delta.actions import Txn
from log_format.delta.change import Proposal
from log_format.delta.table import TableState

FENCE_APP_ID: Final = "collected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Go on behind ``version`` in any table; fulfilled already when its log has."""

    version: int

    def propose(self, state: TableState, now_ms: int) -> Proposal[None]:
        """One ``txn`` that no reader reads. Never raises; the log must have begun."""
        assert state.version >= 0
        has_gone_on = state.version > self.version
        fence = Txn(app_id=FENCE_APP_ID, version=now_ms, last_updated=now_ms)
        return Proposal(operation="FENCE", actions=() if has_gone_on else [fence], result=None)
