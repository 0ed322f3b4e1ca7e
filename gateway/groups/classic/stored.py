"""A classic group's row as the table has it, written under its coordinator's epoch, one write after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gateway.call import detached_from_call
from gateway.groups.bounds import GroupBounds
from gateway.groups.classic.consumer_protocol import PROTOCOL_TYPE
from gateway.groups.metrics import GroupMetrics
from gateway.system_tables.groups import GroupsTable
from gateway.tasks.deadlines import Deadlines
from log_format.clock import Clock
from log_format.groups.changes import PutGroup
from log_format.groups.memory import row_bytes
from log_format.groups.row import ClassicProtocol, GroupRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicParts:
    """Parts needed to coordinate a classic group."""

    table: GroupsTable
    deadlines: Deadlines
    clock: Clock
    metrics: GroupMetrics
    bounds: GroupBounds


def agreed_protocol(row: GroupRow) -> ClassicProtocol:
    """Return what the group's members agreed on; nothing yet if the gateway assigned partitions to them."""
    kind = PROTOCOL_TYPE if row.members else ""
    return row.classic or ClassicProtocol(protocol_type=kind, protocol=None, leader=None)


class StoredRow:
    """A group's row and the writes of it. Used on the event loop only."""

    def __init__(self, row: GroupRow, table: GroupsTable) -> None:
        self.row = row
        self._table = table
        self._writing = asyncio.Lock()

    @property
    def is_idle(self) -> bool:
        """Whether no write is under way."""
        return not self._writing.locked()

    async def settled(self) -> None:
        """Wait for the writes that are under way."""
        async with self._writing:
            pass

    async def write(self, next_row: Callable[[], GroupRow | None]) -> None:
        """Write the row that ``next_row`` returns once earlier writes have ended; None: write nothing.

        Raises what ``next_row`` raises, ``CoordinatorFenced``, ``BackOff``, ``OutcomeUnknown``.
        """
        async with self._writing:
            row = next_row()
            if row is None:
                return
            decided = self._table.budget.admit(row_bytes(row) - row_bytes(self.row))
            try:
                with detached_from_call():
                    written = (await self._table.decide(PutGroup(row=row))).row
            finally:
                decided(None)
            assert written is not None
            self.row = written
