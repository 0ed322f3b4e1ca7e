"""``system/schemas``: the schemas of the registry, its subjects, configurations and modes.

1. Nothing is read before the registry is asked for something, and nothing is looked at while it is not asked: a gateway in a
   store without schemas pays nothing for them.
2. A read of what may change (lists, the latest version, settings) looks at the table, as a read of records does, so it sees what
   was acknowledged before it began; reads that come together share a look. A read of what does not change (a schema by its id, a
   numbered version) takes a state of the last second.
3. Looks for what is not known, before somebody is refused for it, begin at least ``LOOK_PAUSE_S`` apart: a flood of unknown ids,
   or of records that don't fit, costs four looks a second, and each refusal waits for the next one.
4. While the store does not answer, reads are answered by what is known: what was registered stays what it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

from gateway.engine.log_look import LogLook
from gateway.engine.open_table import TableAccess
from gateway.engine.shared_commits import SharedCommits
from gateway.engine.state_budget import StateBudget
from log_format.delta.table import NO_LOG
from log_format.errors import BackOff, TidelogError
from log_format.schemas.changes import Compact, Decide, PutConfig, PutMode, Register
from log_format.schemas.decision import Decided, SchemasDecision
from log_format.schemas.state import SchemasState, schemas_table

LOOK_PAUSE_S: Final = 0.25
"""Seconds between two looks before refusals, and so the longest that a refusal waits for its look to begin."""
SEEN_MS_MAX: Final = 1_000
"""Age of a state that answers a read of what does not change: a permanent deletion is seen by then."""

_log = logging.getLogger("gateway.system_tables")


class SchemasTable(SharedCommits[SchemasState, SchemasDecision, Decided]):
    """The open table ``system/schemas``. Used on the event loop only."""

    def __init__(self, access: TableAccess) -> None:
        budget = StateBudget(
            "schemas",
            access.bounds.schemas_bytes_max,
            used=lambda: self.log.state.memory_bytes,
            advice="delete subjects permanently that are not used; the operator may raise schemas_bytes_max",
            metrics=access.metrics,
        )
        super().__init__(
            access,
            schemas_table(),
            Decide,
            Compact,
            budgets=((budget, _growth_bytes),),
        )
        self._compacting: asyncio.Task[None] | None = None
        self._paced_look = LogLook(self._look_whole, LOOK_PAUSE_S)

    async def seen(self) -> SchemasState:
        """Return a state at most ``SEEN_MS_MAX`` old; an older one if the store does not answer.

        Raises ``BackOff`` if none is known, ``CorruptData``.
        """
        return await self._or_known(self.recent(SEEN_MS_MAX))

    async def current(self) -> SchemasState:
        """Return the state at a moment during this call; an older one if the store does not answer. Raise as ``seen`` does."""
        return await self._or_known(self.fresh())

    async def newer(self) -> SchemasState:
        """Return the state after a look that began during this call and that others share: before something is refused that an
        older state does not have. Raises ``BackOff`` if the table can't be read, ``CorruptData``."""
        await self._paced_look.after_now()
        return self.state

    async def _look_whole(self) -> None:
        await self.fresh()

    async def _or_known(self, look: Awaitable[SchemasState]) -> SchemasState:
        try:
            return await look
        except BackOff:
            if self.state.version == NO_LOG:
                raise
            return self.state

    async def decide(self, decision: SchemasDecision) -> Decided:
        """Return the outcome as ``SharedCommits`` does, and keep the table small afterwards."""
        decided = await super().decide(decision)
        is_due = len(self.state.files) >= self._access.bounds.table_files_min
        if is_due and (self._compacting is None or self._compacting.done()):
            self._compacting = asyncio.create_task(self._keep_small_quietly())
        return decided

    async def drain(self) -> None:
        """Wait until all decisions are made and changes have ended."""
        await super().drain()
        if self._compacting is not None:
            with suppress(TidelogError):
                await self._compacting

    async def _keep_small_quietly(self) -> None:
        try:
            await self.keep_small()
        except TidelogError as error:
            _log.warning("the schema table can't be kept small: %s", error.detail)


def _growth_bytes(decision: SchemasDecision, state: SchemasState) -> int:
    """Return the bytes of memory that a decision adds. Deletions are never refused for memory."""
    if not isinstance(decision, Register | PutConfig | PutMode):
        return 0
    decided = decision.decide(state, 0)
    if not isinstance(decided, Decided) or not decided.changes:
        return 0
    return state.after((decided.changes,)).memory_bytes - state.memory_bytes
