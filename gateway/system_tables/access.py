"""``system/access``: credentials, roles, ACLs and quotas."""

from __future__ import annotations

import asyncio

from gateway.engine.open_table import TableAccess
from gateway.engine.shared_commits import SharedCommits
from gateway.engine.state_budget import StateBudget
from log_format.access.changes import (
    AccessDecision,
    AddAcls,
    AppliedDecision,
    Compact,
    CreateToken,
    Decide,
    PutQuota,
    PutRole,
)
from log_format.access.state import AccessState, access_table, growth_bytes


class AccessTable(SharedCommits[AccessState, AccessDecision, AppliedDecision]):
    """The open table ``system/access``. Used on the event loop only."""

    def __init__(self, access: TableAccess) -> None:
        budget = StateBudget(
            "access",
            access.bounds.access_bytes_max,
            used=lambda: self.log.state.memory_bytes,
            advice="delete tokens, roles and ACLs that are not used, or name resources by prefixes; the operator may raise"
            " access_bytes_max",
            metrics=access.metrics,
        )
        super().__init__(
            access,
            access_table(),
            Decide,
            Compact,
            budgets=((budget, _growth),),
        )
        self._moved = asyncio.Event()

    def is_known_since(self, age_ms_max: int) -> bool:
        """Return whether the look that found the state began at most ``age_ms_max`` ago."""
        observed_ms = self.log.observed_ms
        return observed_ms is not None and self._access.clock.monotonic_ms() - observed_ms <= age_ms_max

    async def wait_past(self, version: int) -> None:
        """Wait until the state has another version."""
        while self.state.version == version:
            await self._moved.wait()

    def on_state_changed(self, _before: AccessState) -> None:
        """Wake the callers that wait in ``after``."""
        self._moved.set()
        self._moved = asyncio.Event()


def _growth(decision: AccessDecision, state: AccessState) -> int:
    """Return the bytes of memory that a decision adds. Decisions that revoke or rotate are never refused for memory."""
    if not isinstance(decision, CreateToken | PutRole | AddAcls | PutQuota):
        return 0
    decided = decision.decide(state, 0)
    return growth_bytes(decided.changes, state) if isinstance(decided, AppliedDecision) else 0
