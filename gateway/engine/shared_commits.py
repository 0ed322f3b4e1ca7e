"""A system table as open in this gateway: decisions made while a commit is under way share the next one.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gateway.call import check_may_ask_store, mark_committed
from gateway.engine.early_flush import PACED_SAVINGS_SECONDS_MAX, EarlyFlush, PacedSchedule
from gateway.engine.group_commit import Group, GroupCommit, ImmediateSchedule
from gateway.engine.open_table import OpenTable, TableAccess
from gateway.engine.savings_watch import QueueKind
from gateway.engine.state_budget import StateBudget
from log_format.delta.change import TableChange
from log_format.delta.system_table import CompactTable, SystemTableState
from log_format.delta.table import Table
from log_format.errors import TidelogError
from log_format.ids import NewId

DECISIONS_WAITING_MAX = 4_096
"""Number of decisions that wait for the next commit; each is a request."""

_log = logging.getLogger("gateway.system_tables")

StateT = TypeVar("StateT", bound=SystemTableState)
DecisionT = TypeVar("DecisionT")
OutcomeT = TypeVar("OutcomeT")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPace:
    """Pace of a table's commits.

    ``per_second``: commits a second on average over any day, early ones included. ``kind`` and ``advice``: how metrics and log
    report its savings. ``payer``: name of the decisions' attribute that says who shares the savings.
    """

    per_second: float
    kind: QueueKind
    advice: str
    payer: str


class SharedCommits(OpenTable[StateT], Generic[StateT, DecisionT, OutcomeT]):
    """A system table whose decisions share commits.

    Args:
        change: turns decisions that share a commit, and a source of ids, into one change; its result has the outcome or refusal
            of each.
        compact: makes the change that rewrites the table as one file.
        budgets: memory budgets of the table, each with a function that returns by how much a decision grows the table.
        pace: pace of commits; None: each commit follows the last one.
        files: returns a state's number of data files, which decides when a checkpoint is due.
    """

    def __init__(
        self,
        access: TableAccess,
        table: Table[StateT],
        change: Callable[[Sequence[DecisionT], NewId], TableChange[StateT, Sequence[OutcomeT | TidelogError]]],
        compact: Callable[..., CompactTable[StateT]],
        *,
        budgets: Sequence[tuple[StateBudget, Callable[[DecisionT, StateT], int]]] = (),
        pace: CommitPace | None = None,
        files: Callable[[StateT], int] = lambda state: len(state.files),
    ) -> None:
        super().__init__(access, table, files=files)
        self._budgets = budgets
        self._change, self._compact = change, compact
        self._pace = pace
        self._savings: EarlyFlush | None = None
        if pace is not None:
            self._savings = EarlyFlush.for_queue(
                *(pace.kind, self.label, access),
                lambda: self.seconds_since_write(self.state.modification_time_ms),
                seconds_max=PACED_SAVINGS_SECONDS_MAX,
                advice=pace.advice,
            )
        self._decisions: GroupCommit[DecisionT, OutcomeT] = GroupCommit(
            self._commit_group,
            schedule=ImmediateSchedule()
            if self._savings is None or pace is None
            else PacedSchedule(self._savings, pace.per_second),
            label=self.label,
            waiting_max=DECISIONS_WAITING_MAX,
        )

    async def decide(self, decision: DecisionT) -> OutcomeT:
        """Return the outcome once the decision is committed; mark the present call's change as committed. The decision goes on
        when the caller is cancelled.

        Raises the decision's refusal; ``BackOff`` (nothing happened), ``OutcomeUnknown``.
        """
        check_may_ask_store()
        payer = None if self._pace is None else getattr(decision, self._pace.payer, None)
        pending = self._decisions.submit(decision, sender=self, payer=payer)
        try:
            for budget, growth_bytes in self._budgets:
                pending.settled.add_done_callback(budget.admit(growth_bytes(decision, self.state)))
        except TidelogError as refusal:
            self._decisions.withdraw(pending)
            pending.settle(refusal)
        within_ms, limits = self._access.bounds.commit_wait_ms_max, self._access.time_limits
        outcome = await self._decisions.outcome(pending, limits, taken_within_ms=within_ms, ends_within_ms=0)
        mark_committed()
        return outcome

    async def keep_small(self) -> None:
        """Rewrite the table as one file if it has many files. Raises ``TidelogError``."""
        files_min = self._access.bounds.table_files_min
        if len(self.state.files) >= files_min:
            replaced = (await self.commit(self._compact(self._access.new_id, files_min=files_min))).result
            _log.info("%s: %d files became one", self.label, replaced)

    async def drain(self) -> None:
        """Wait until all decisions are made and changes have ended."""
        await self._decisions.drain()
        await super().drain()

    async def _commit_group(self, group: Group[DecisionT, OutcomeT]) -> None:
        try:
            committed = await self.commit_serialized(self._change(group.items, self._access.new_id))
        finally:
            if self._savings is not None:
                self._savings.on_ended(self._decisions.waiting, group.pending, asyncio.get_running_loop().time())
        group.settle(committed.result)
