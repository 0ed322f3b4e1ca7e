"""Commits to a journal what all gateways have put there since its last commit, in one.

Belongs to the event loop; blocking calls run in the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from gateway.engine.group_commit import AtOnce, Group, GroupCommit, Waiting
from gateway.engine.metrics import EngineMetrics
from gateway.engine.open_table import OpenTable
from log_format.journal.entries import Entry
from log_format.journal.offer import Offer, Taken
from log_format.journal.state import JournalState
from log_format.journal.take import JournalTake
from log_format.limits import JOURNAL_ATTACH_BYTES_MAX, JOURNAL_RUNS_MAX

_WAITING_MAX: Final = 256
"""Objects that wait for a commit: a gateway has one under way."""


class _Runs(AtOnce):
    """What waits, as soon as the last commit has ended; fewer objects with many runs, or that attach much."""

    def take(self, waiting: Waiting[Any], now: float) -> int:
        """See ``Schedule``."""
        del now
        if len(waiting.entries) == 1:
            return 1
        runs = attached_bytes = count = 0
        for pending in waiting.entries:
            runs += pending.item.run_count
            attached_bytes += pending.item.attach_bytes
            if count and (runs > JOURNAL_RUNS_MAX or attached_bytes > JOURNAL_ATTACH_BYTES_MAX):
                break
            count += 1
        return count


class JournalTakes:
    """``take_notes``: what the next commit says beside."""

    def __init__(
        self, table: OpenTable[JournalState], metrics: EngineMetrics, *, take_notes: Callable[[], list[Entry]]
    ) -> None:
        self._table = table
        self._metrics = metrics
        self._take_notes = take_notes
        self._commits: GroupCommit[Offer, Taken | None] = GroupCommit(
            self._commit, schedule=_Runs(), label=table.label, waiting_max=_WAITING_MAX
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and no commit is under way."""
        return self._commits.is_idle

    async def take(self, offer: Offer) -> Taken | None:
        """Commit the object. None: a batch of it is refused; then no commit has it. It goes on when the caller is cancelled.

        Raises as ``Committer.commit``.
        """
        return await self._commits.submit(offer).settled

    async def drain(self) -> None:
        """Return when all is settled."""
        await self._commits.drain()

    async def _commit(self, group: Group[Offer, Taken | None]) -> None:
        started = asyncio.get_running_loop().time()
        committed = await self._table.commit_in_turn(JournalTake(group.items, notes=self._take_notes()))
        self._metrics.commit_seconds.observe(asyncio.get_running_loop().time() - started)
        if committed.attempts:
            self._metrics.commit_attempts.observe(committed.attempts)
        group.settle(committed.result)
