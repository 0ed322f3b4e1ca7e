"""A journal as this gateway has it: its table, its writer, and the topics here that follow it. And all journals, by number.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from gateway.engine.journal_peers import JournalPeers
from gateway.engine.journal_writer import JournalWriter
from gateway.engine.open_table import OpenTable, ResultT, TableAccess
from gateway.engine.tail_cache import TailCache
from gateway.problem import overloaded
from log_format.checkpoints.journal_log import journal_table
from log_format.delta.change import TableChange
from log_format.delta.committer import Committed, Committer
from log_format.errors import BackOff, ErrorCode, RequestRefused
from log_format.journal.entries import Entry
from log_format.journal.notes import JournalNotes
from log_format.journal.state import JournalState
from log_format.journal.topics import JournalTopic
from log_format.limits import JOURNAL_TOPICS_MAX, JOURNALS

_ROOM_MS = 60_000
"""How old the known number of a journal's topics may be: the bound is soft."""

_NAMED_MAX = 5
"""Gateways that one sentence names."""


class Follower(Protocol):
    """A topic at a journal, as far as the journal's news are concerned."""

    @property
    def is_awaited(self) -> bool:
        """Whether a reader waits for its records."""
        ...

    def journal_moved(self, before: JournalTopic | None) -> None:
        """What the journal knows of the topic has changed."""
        ...


class OpenJournal(OpenTable[JournalState]):
    """One journal."""

    def __init__(self, number: int, access: TableAccess, *, tail: TailCache, peers: JournalPeers) -> None:
        super().__init__(access, journal_table(number), files=lambda state: state.runs.file_count())
        self.number = number
        self.writer = JournalWriter(self, access, tail=tail, peers=peers)
        self._peers = peers
        self._followers: WeakValueDictionary[str, Follower] = WeakValueDictionary()

    def follow(self, topic_id: str, follower: Follower) -> None:
        """Tell ``follower`` of the topic's news, as long as it lives."""
        self._followers[topic_id] = follower

    def moved(self, before: JournalState) -> None:
        """Tell the topics that changed."""
        for topic_id, follower in list(self._followers.items()):
            known = before.topic(topic_id)
            if self.state.topic(topic_id) is not known:
                follower.journal_moved(known)

    def check_room(self) -> None:
        """Raise ``BackOff`` (``OVERLOADED``) while too much is not drained: the gateways hold it all in memory."""
        run_count = self.state.runs.run_count
        if run_count > self._access.bounds.undrained_runs_max:
            self._access.metrics.state_refusals.labels("journals").inc()
            raise overloaded(
                f"Journal {self.number} has {run_count} runs that no topic's table has, and takes no more: drains are behind."
            )

    async def say(self, *entries: Entry) -> JournalState:
        """Commit entries now, with what waits to be said. Raises as ``OpenTable.commit``."""
        return (await self.commit(JournalNotes([*self.writer.take_notes(), *entries]))).state

    async def commit_in_turn(
        self,
        change: TableChange[JournalState, ResultT],
        begun: asyncio.Event | None = None,
        *,
        prepare: Callable[[Committer[JournalState]], object] | None = None,
    ) -> Committed[JournalState, ResultT]:
        """See ``OpenTable``. The other gateways hear of it."""
        committed = await super().commit_in_turn(change, begun, prepare=prepare)
        if committed.attempts:
            self._peers.tell(self.number, committed.state.version)
        return committed

    async def hear(self, version: int) -> None:
        """Another gateway has committed a version: look where a reader waits. Raises as ``OpenTable.fresh``."""
        if self.state.version < version and any(one.is_awaited for one in list(self._followers.values())):
            await self.fresh()

    async def drain(self) -> None:
        """Flush, acknowledge, close."""
        await self.writer.drain()
        await super().drain()


class Journals:
    """The journals in use here. ``laggards`` gives the live gateways for which no topic may go to a journal."""

    def __init__(
        self,
        access: TableAccess,
        *,
        tail: TailCache,
        peers: JournalPeers,
        laggards: Callable[[], Sequence[str]],
    ) -> None:
        self._access = access
        self._peers = peers
        self.tail = tail
        self._laggards = laggards
        self._open: dict[int, OpenJournal] = {}

    def get(self, number: int) -> OpenJournal:
        """The journal's object, made if need be. Nothing is read yet."""
        journal = self._open.get(number)
        if journal is None:
            journal = self._open[number] = OpenJournal(number, self._access, tail=self.tail, peers=self._peers)
        return journal

    async def hear(self, number: int, version: int) -> None:
        """See ``OpenJournal.hear``; of a journal that is not in use here it is no news."""
        journal = self._open.get(number)
        if journal is not None:
            await journal.hear(version)

    def __iter__(self) -> Iterator[OpenJournal]:
        return iter(list(self._open.values()))

    def in_use(self) -> tuple[int, int]:
        """Journals that this gateway has read and that have topics, and these topics."""
        counts = [len(journal.state.topics.by_id) for journal in self._open.values()]
        return sum(1 for count in counts if count), sum(counts)

    @property
    def held_back(self) -> str | None:
        """Why no topic may go to a journal; None: it may. What is at one stays there."""
        if not self._access.bounds.journals:
            return "this gateway has the setting journals=off"
        laggards = self._laggards()
        if not laggards:
            return None
        named = ", ".join(laggards[:_NAMED_MAX])
        return f"gateways of a release before journals, or with journals=off, are alive: {named}"

    async def with_room(self) -> int:
        """The journal that new topics go to: the first that has not too many.

        Raises ``RequestRefused`` (``INVALID_CONFIG``) and ``BackOff`` where they are held back, ``BackOff`` where all are full.
        """
        if (why := self.held_back) is not None:
            detail = f"No topic may go to a journal: {why}."
            if self._access.bounds.journals:
                raise BackOff(detail)
            what = "must not be shared: this gateway has the setting journals=off"
            where = {"where": "/config/commit.mode", "what": what}
            raise RequestRefused(detail, code=ErrorCode.INVALID_CONFIG, errors=[where])
        for number in range(JOURNALS):
            state = await self.get(number).recent(_ROOM_MS)
            if len(state.topics.by_id) < JOURNAL_TOPICS_MAX:
                return number
        raise overloaded(
            f"All {JOURNALS} journals have {JOURNAL_TOPICS_MAX} topics: give some of them commit.mode own."
        )

    async def drain(self) -> None:
        """Flush all."""
        await asyncio.gather(*(journal.drain() for journal in self._open.values()))
