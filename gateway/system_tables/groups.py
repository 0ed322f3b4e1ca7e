"""``system/consumer_offsets``: groups, their members and their offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from gateway.call import detached_from_call
from gateway.engine.open_table import TableAccess
from gateway.engine.shared_commits import CommitPace, SharedCommits
from gateway.engine.state_budget import StateBudget
from log_format.groups.changes import ClaimGroup, CommitOffsets, Compact, Decide, GroupDecision, SettleOffsets
from log_format.groups.memory import GROUP_BYTES, offset_bytes
from log_format.groups.state import Group, GroupsState, consumer_offsets_table

COMMIT_PACE: Final = CommitPace(
    per_second=5.0,
    kind="groups",
    payer="group",
    advice="commit offsets less often, those of more partitions at once: all groups of a gateway share five commits a second on"
    " average",
)
"""Pace of commits, whatever the number of groups."""


class GroupsTable(SharedCommits[GroupsState, GroupDecision, Group]):
    """The open table ``system/consumer_offsets``. ``budget``: memory of its rows. Used on the event loop only."""

    def __init__(self, access: TableAccess) -> None:
        self.budget = StateBudget(
            "groups",
            access.bounds.groups_bytes_max,
            used=lambda: self.log.state.memory_bytes,
            advice="delete groups that are not used, or commit fewer partitions and less metadata; the operator may raise"
            " groups_bytes_max",
            metrics=access.metrics,
        )
        super().__init__(
            access,
            consumer_offsets_table(),
            Decide,
            Compact,
            budgets=((self.budget, growth_bytes),),
            pace=COMMIT_PACE,
        )

    async def settle(self, transaction_id: str, groups: Iterable[str], *, is_committed: bool) -> None:
        """Make a transaction's pending offsets the groups' offsets, or drop them. Idempotent. Raises ``BackOff``,
        ``OutcomeUnknown``."""
        decisions = [
            SettleOffsets(group=group, transaction_id=transaction_id, is_committed=is_committed) for group in groups
        ]
        with detached_from_call():  # The caller asked for the transaction's decision.
            await asyncio.gather(*map(self.decide, decisions))


def growth_bytes(decision: GroupDecision, state: GroupsState) -> int:
    """Return the bytes of memory that a client's decision adds; 0 or less: none. Members are judged when they join.

    Other decisions are never refused for memory: leaving, ending sessions, deleting, settling a decided transaction.
    """
    if not isinstance(decision, ClaimGroup | CommitOffsets):
        return 0
    new = 0 if decision.group in state.groups else GROUP_BYTES
    if isinstance(decision, ClaimGroup):
        return new
    if decision.transaction_id is not None:
        # Counted twice: first as pending, then as the group's.
        return new + 2 * sum(offset_bytes(row) for row in decision.offsets)
    known = state.group(decision.group).offsets
    growth = new
    for row in decision.offsets:
        before = known.get(row.key)
        growth += (0 if row.offset is None else offset_bytes(row)) - (0 if before is None else offset_bytes(before))
    return growth
