"""One journal as open in this gateway (its table, its writer, the open topics that follow it), and all such journals by number.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from gateway.engine.journal_peers import JournalPeers
from gateway.engine.journal_writer import JournalWriter
from gateway.engine.manifest_budget import ManifestBudget
from gateway.engine.open_table import OpenTable, ResultT, TableAccess
from gateway.engine.tail_cache import TailCache
from gateway.problem import overloaded
from log_format.checkpoints.journal_log import journal_table
from log_format.delta.change import TableChange
from log_format.delta.committer import Committed, Committer
from log_format.delta.log import TableLog
from log_format.errors import BackOff, ErrorCode, RequestRefused
from log_format.journal.entries import Entry, attach_entry, attach_entry_bytes
from log_format.journal.notes import JournalNotes
from log_format.journal.offer import Offer, OfferAnswer
from log_format.journal.state import JournalState
from log_format.journal.topics import JournalTopic
from log_format.limits import JOURNAL_TOPICS_MAX, JOURNALS
from log_format.topic.state import TopicState

_ROOM_MS = 60_000
"""Maximum age of the known number of a journal's topics: the bound on it is soft."""

_ATTACH_BYTES_MAX = 4_096
"""Maximum bytes of a topic that is attached without records: a journal's 10,000 topics fit one commit."""
_NAMED_MAX = 5
"""Number of gateways that one sentence names."""


class Follower(Protocol):
    """The part of an open topic that reacts to its journal's commits."""

    @property
    def log(self) -> TableLog[TopicState]:
        """Log of the topic's own table."""
        ...

    @property
    def is_awaited(self) -> bool:
        """Whether a reader waits for the topic's records."""
        ...

    def on_journal_changed(self, before: JournalTopic | None, state: JournalState) -> None:
        """React to a change in what the journal, now at ``state``, knows of the topic; ``before``: what it knew earlier."""
        ...


class OpenJournal(OpenTable[JournalState]):
    """One journal as open in this gateway."""

    def __init__(
        self,
        number: int,
        access: TableAccess,
        *,
        tail: TailCache,
        peers: JournalPeers,
        followers: Mapping[str, Follower],
        budget: ManifestBudget,
    ) -> None:
        super().__init__(access, journal_table(number), files=lambda state: state.runs.file_count())
        self.number = number
        self.writer = JournalWriter(self, access, tail=tail, peers=peers)
        self._peers = peers
        self._followers = followers
        self._budget = budget
        self._open_names: set[str] = set()
        """Names of the topics open at the journal; their memory is counted with the topics."""
        budget.open(self.label)

    def on_state_changed(self, before: JournalState) -> None:
        """Notify the open topics that changed, and update the memory budget."""
        state = self.state
        known, runs = before.topics.by_id, state.runs
        by_id = state.topics.by_id
        come_count = 0
        for topic_id, topic in by_id.items():
            was = known.get(topic_id)
            if was is not topic:
                come_count += was is None
                if was is None or was.is_open != topic.is_open:
                    (self._open_names.add if topic.is_open else self._open_names.discard)(topic.name)
                if (follower := self._followers.get(topic.name)) is not None:
                    follower.on_journal_changed(was, state)
        if len(by_id) - come_count < len(known):
            self._open_names = {topic.name for topic in by_id.values() if topic.is_open}
        total_bytes = state.topics.memory_bytes + runs.memory_bytes
        self._budget.set_bytes(self.label, total_bytes=total_bytes, manifest_bytes=runs.memory_bytes)

    def has(self, name: str) -> bool:
        """Return whether the journal takes appends of a topic of this name, as far as is known."""
        return name in self._open_names

    def check_room(self) -> None:
        """Raise ``BackOff`` (``OVERLOADED``) while too many runs are not drained: all gateways hold them in memory.

        Their memory also counts in the budget of manifests, past which records of all topics are refused.
        """
        run_count = self.state.runs.run_count
        if run_count > self._access.bounds.undrained_runs_max:
            self._access.metrics.state_refusals.labels("journals").inc()
            raise overloaded(
                f"Journal {self.number} accepts no more records: {run_count} runs are not drained into topics' tables yet."
            )

    def attach(self, own: TopicState) -> None:
        """Let the next commit open a topic that its own table says is at this journal, before its first records come.

        A topic with many producers is opened with its first records instead: what several topics bring must fit one commit.
        """
        if attach_entry_bytes(own) <= _ATTACH_BYTES_MAX:
            self.writer.note(attach_entry(own))

    async def commit_entries(self, *entries: Entry) -> JournalState:
        """Commit entries now, together with the notes that wait for the next flush. Raises what ``OpenTable.commit`` raises."""
        return (await self.commit(JournalNotes([*self.writer.take_notes(), *entries]))).state

    async def commit_serialized(
        self,
        change: TableChange[JournalState, ResultT],
        begun: asyncio.Event | None = None,
        *,
        prepare: Callable[[Committer[JournalState]], object] | None = None,
    ) -> Committed[JournalState, ResultT]:
        """Commit as ``OpenTable.commit_serialized`` does, and tell the other gateways of the new version."""
        committed = await super().commit_serialized(change, begun, prepare=prepare)
        if committed.attempts:
            self._peers.announce(self.number, committed.state.version)
        return committed

    async def notice_commit(self, version: int) -> None:
        """Look at the journal if another gateway has committed a version and a reader waits here. Raises what ``OpenTable.fresh``
        raises."""
        if self.state.version < version and self._is_awaited():
            await self.fresh()

    def _is_awaited(self) -> bool:
        """Return whether a reader waits for records of a topic at this journal."""
        topics = self.state.topics.by_id
        return any(one.is_awaited and one.log.state.topic_id in topics for one in self._followers.values())

    async def drain(self) -> None:
        """Flush and acknowledge all batches, and wait until changes have ended."""
        await self.writer.drain()
        await super().drain()


class Journals:
    """The journals in use by this gateway.

    ``gateways_without_journals``: returns the live gateways because of which no topic may go to a journal.
    ``followers``: topics open here, by name.
    """

    def __init__(
        self,
        access: TableAccess,
        *,
        tail: TailCache,
        peers: JournalPeers,
        gateways_without_journals: Callable[[], Sequence[str]],
        followers: Mapping[str, Follower],
        budget: ManifestBudget,
    ) -> None:
        self._access = access
        self._followers = followers
        self.budget = budget
        self._peers = peers
        self.tail = tail
        self._gateways_without_journals = gateways_without_journals
        self._open: dict[int, OpenJournal] = {}

    def get(self, number: int) -> OpenJournal:
        """Return the journal's object, created on first use. Nothing is read yet."""
        journal = self._open.get(number)
        if journal is None:
            journal = self._open[number] = OpenJournal(
                number,
                self._access,
                tail=self.tail,
                peers=self._peers,
                followers=self._followers,
                budget=self.budget,
            )
        return journal

    def has(self, name: str) -> bool:
        """Return whether a journal in use takes appends of a topic of this name, as far as is known."""
        return any(journal.has(name) for journal in self._open.values())

    async def notice_commit(self, number: int, version: int) -> None:
        """Look at a journal in use after another gateway's commit (``OpenJournal.notice_commit``); ignore other
        journals."""
        journal = self._open.get(number)
        if journal is not None:
            await journal.notice_commit(version)

    async def accept_offer(self, number: int, offer: Offer, sender: str) -> OfferAnswer | None:
        """Take up the object that another gateway, named by its instance, has put (``JournalTakes.take``)."""
        with self._peers.answering_offer(sender):
            return await self.get(number).writer.offered.take(offer)

    def __iter__(self) -> Iterator[OpenJournal]:
        return iter(list(self._open.values()))

    def count_in_use(self) -> tuple[int, int]:
        """Return the number of journals that this gateway has read and that have topics, and the number of these topics."""
        counts = [len(journal.state.topics.by_id) for journal in self._open.values()]
        return sum(1 for count in counts if count), sum(counts)

    @property
    def refusal_reason(self) -> str | None:
        """Reason why no topic may go to a journal; None if topics may. A topic that is at a journal stays there."""
        if not self._access.bounds.journals:
            return "this gateway has the setting journals=off"
        gateways_without_journals = self._gateways_without_journals()
        if not gateways_without_journals:
            return None
        named = ", ".join(gateways_without_journals[:_NAMED_MAX])
        return f"gateways of a release before journals, or with journals=off, are alive: {named}"

    async def find_with_room(self) -> int:
        """Return the number of the journal that new topics go to: the first with fewer topics than the maximum.

        Raises ``RequestRefused`` (``INVALID_CONFIG``) or ``BackOff`` if no topic may go to a journal, ``BackOff`` if all are
        full.
        """
        if (why := self.refusal_reason) is not None:
            detail = f"No topic can be moved to a journal: {why}."
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
            f"All {JOURNALS} journals have {JOURNAL_TOPICS_MAX} topics, the most: set commit.mode=own for some of them."
        )

    async def drain(self) -> None:
        """Drain all journals."""
        await asyncio.gather(*(journal.drain() for journal in self._open.values()))
