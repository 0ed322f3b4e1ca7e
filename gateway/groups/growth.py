"""By how much a decision about groups makes their state larger, as far as its client asked for that.

What is not judged here is never refused for it: leaving, ending sessions, deleting, settling a decided transaction.
"""

from __future__ import annotations

from log_format.groups.changes import Claim, CommitOffsets, GroupDecision
from log_format.groups.memory import GROUP_BYTES, offset_bytes
from log_format.groups.state import GroupsState


def growth_bytes(decision: GroupDecision, state: GroupsState) -> int:
    """Bytes of memory; 0 or less: none. Members are judged when they join."""
    if not isinstance(decision, Claim | CommitOffsets):
        return 0
    new = 0 if decision.group in state.groups else GROUP_BYTES
    if isinstance(decision, Claim):
        return new
    if decision.transaction_id is not None:
        # Pending, and then the group's.
        return new + 2 * sum(offset_bytes(row) for row in decision.offsets)
    known = state.group(decision.group).offsets
    before = [known[row.key] for row in decision.offsets if row.key in known]
    after = [row for row in decision.offsets if row.offset is not None]
    return new + sum(map(offset_bytes, after)) - sum(map(offset_bytes, before))
