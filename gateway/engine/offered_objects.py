"""Commits to a journal of the objects that all gateways have put since its last commit, many objects in one commit.

Used on the event loop only; blocking calls run in the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from gateway.engine.group_commit import EntryQueue, Group, GroupCommit, ImmediateSchedule
from gateway.engine.metrics import EngineMetrics
from gateway.engine.open_table import OpenTable
from log_format.journal.commit_offers import CommitOffers
from log_format.journal.entries import Entry
from log_format.journal.offer import Offer, OfferAnswer
from log_format.journal.state import JournalState
from log_format.limits import JOURNAL_ATTACH_BYTES_MAX, JOURNAL_RUNS_MAX

_WAITING_MAX: Final = 256
"""Number of objects that wait for a commit: each gateway has one under way."""


class _OffersSchedule(ImmediateSchedule):
    """Schedule of groups of all waiting objects, each as soon as the last commit has ended; fewer objects if they have many runs
    or attach much."""

    def take(self, waiting: EntryQueue[Any], now: float) -> int:
        """Return how many objects fit one commit, at least one."""
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


class OfferedObjects:
    """Commits of objects to one journal. ``take_notes``: returns the entries that the next commit says in addition."""

    def __init__(
        self, table: OpenTable[JournalState], metrics: EngineMetrics, *, take_notes: Callable[[], list[Entry]]
    ) -> None:
        self._table = table
        self._metrics = metrics
        self._take_notes = take_notes
        self._commits: GroupCommit[Offer, OfferAnswer | None] = GroupCommit(
            self._commit, schedule=_OffersSchedule(), label=table.label, waiting_max=_WAITING_MAX
        )

    @property
    def is_idle(self) -> bool:
        """Whether no object waits and no commit is under way."""
        return self._commits.is_idle

    async def take(self, offer: Offer) -> OfferAnswer | None:
        """Commit the object; return None if one of its batches is refused, so that no commit has the object. Cancelling the
        caller does not stop the commit.

        Raises what ``Committer.commit`` raises.
        """
        return await self._commits.submit(offer).settled

    async def drain(self) -> None:
        """Wait until all objects are settled."""
        await self._commits.drain()

    async def _commit(self, group: Group[Offer, OfferAnswer | None]) -> None:
        started = asyncio.get_running_loop().time()
        committed = await self._table.commit_serialized(CommitOffers(group.items, notes=self._take_notes()))
        self._metrics.commit_seconds.observe(asyncio.get_running_loop().time() - started)
        if committed.attempts:
            self._metrics.commit_attempts.observe(committed.attempts)
        group.settle(committed.result)
