"""A gateway as far as logs and journals are concerned: it appends, changes, drains and looks by the rules of decision 035.

The logs, committers and readers are real. What it does between them is the shortest that the rules allow, so their faults show.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

import pyarrow as pa

from log_format.checkpoints.journal_log import journal_table
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.change import StagedFile, TableChange
from log_format.delta.committer import Committed, Committer
from log_format.delta.log import TableLog
from log_format.delta.table import StateT
from log_format.errors import BackOff, OutcomeUnknown, StoreUnavailable, TidelogError, UnknownTopic
from log_format.ids import NewId
from log_format.journal.append import JournalAppend, RoutedBatch
from log_format.journal.commit_offers import CommitOffers
from log_format.journal.drain import Drain
from log_format.journal.entries import Close, Drained, Entry, Release
from log_format.journal.notes import JournalNotes
from log_format.journal.offer import Offer
from log_format.journal.reader import JournalReader, JournalRunRef
from log_format.journal.reclaim import Reclaim, committed_bases
from log_format.journal.topics import JournalTopic
from log_format.journal.undrained import Undrained
from log_format.journal.view import AheadOfTable, is_open, journal_topic, may_have_left, overlay_journal
from log_format.limits import OVERTAKE_MS
from log_format.records.schema import RECORD_SCHEMA
from log_format.segments.reader import SegmentReader
from log_format.store import ObjectStore
from log_format.topic.append import Append, Batch
from log_format.topic.append_outcome import AppendOutcome
from log_format.topic.attachment import NO_MOVE, Attachment, TopicMove, TopicMoved
from log_format.topic.changes import MoveTopic
from log_format.topic.partition_offsets import Offsets
from log_format.topic.state import TopicState
from tests.simulation.simulated.scheduler import Lock, Machine, MachineClock, Scheduler

ResultT = TypeVar("ResultT")
Make = Callable[[TopicMove], TableChange[TopicState, ResultT]]

ROUNDS_MAX = 6
FLUSH_REQUESTS_MAX = 4
OFFERED = 0.0
"""How many flushes are offered to another gateway. The rest is as if there were one."""


class Opened(Generic[StateT]):
    """A table, with one committer that one process has at a time."""

    def __init__(self, scheduler: Scheduler, log: TableLog[StateT], new_id: NewId, jitter: Callable[[], float]) -> None:
        self.log = log
        self.lock = Lock(scheduler)
        self._committer = Committer(log, new_id=new_id, jitter=jitter)

    @property
    def state(self) -> StateT:
        return self.log.state

    def look(self) -> StateT:
        return self.log.refresh()

    def commit(self, change: TableChange[StateT, ResultT]) -> Committed[StateT, ResultT]:
        with self.lock:
            return self.commit_locked(change)

    def stage(self, file: StagedFile) -> None:
        self._committer.stage(file)

    def commit_locked(self, change: TableChange[StateT, ResultT]) -> Committed[StateT, ResultT]:
        return self._committer.commit(change)


class Waiting:
    """A batch on its way to a journal."""

    def __init__(self, routed: RoutedBatch) -> None:
        self.routed = routed
        self.outcome: AppendOutcome | None = None


class Gateway:
    """One gateway process. Its methods block; they raise ``TidelogError``s and ``StoreUnavailable``."""

    def __init__(
        self,
        scheduler: Scheduler,
        rng: random.Random,
        store: ObjectStore,
        machine: Machine,
        new_id: NewId,
        *,
        topics: Sequence[str],
        journals: Sequence[int],
        letters: list[tuple[int, Offer]],
    ) -> None:
        """``letters``: offers under way, which any gateway gets at any time."""
        self.letters = letters
        self.machine = machine
        self.store = store
        self.clock = MachineClock(scheduler, machine)
        self.topics = {
            name: Opened(scheduler, TopicLog(store, name, self.clock), new_id, rng.random) for name in topics
        }
        self.journals = {
            number: Opened(scheduler, TableLog(store, journal_table(number), self.clock), new_id, rng.random)
            for number in journals
        }
        self.segments = SegmentReader(store)
        self.objects = JournalReader(store, cache_bytes=1 << 16)
        self._rng = rng
        self._new_id = new_id
        self._queues: dict[int, list[Waiting]] = {number: [] for number in journals}
        self._notes: dict[int, list[Entry]] = {number: [] for number in journals}

    # Appending

    def append(self, topic: str, batch_for: Callable[[TopicState], Batch]) -> AppendOutcome:
        """Where the topic is, again and again while it moves."""
        opened = self.topics[topic]
        for _ in range(ROUNDS_MAX):
            own = opened.state if opened.state.exists else opened.look()
            if not own.exists:
                return UnknownTopic(topic)
            batch = batch_for(own)
            if own.attachment is None:
                (outcome,) = opened.commit(Append([batch], self._new_id)).result
            else:
                outcome = self._by_journal(own.attachment.journal, Waiting(RoutedBatch(own, batch)))
            if not isinstance(outcome, TopicMoved):
                return outcome
            self._reopened(topic)
        return BackOff("it moves too often")

    def _by_journal(self, number: int, waiting: Waiting) -> AppendOutcome:
        journal, queue = self.journals[number], self._queues[number]
        queue.append(waiting)
        while waiting.outcome is None:
            with journal.lock:
                taken, queue[:] = queue[:FLUSH_REQUESTS_MAX], queue[FLUSH_REQUESTS_MAX:]
                if not taken:
                    continue
                append = JournalAppend([one.routed for one in taken], self._new_id, notes=self._taken_notes(number))
                if self._rng.random() < max(0.3, OFFERED):
                    append.stage(journal.state, self.clock.now_ms())
                try:
                    outcomes = self._committed(number, append)
                except TidelogError as problem:
                    outcomes = [problem] * len(taken)
            for one, outcome in zip(taken, outcomes, strict=True):
                one.outcome = outcome
        return waiting.outcome

    def _committed(self, number: int, append: JournalAppend) -> Sequence[AppendOutcome]:
        """By itself; or it is offered to another gateway, which gets that now, late or never, and whose answer may be lost."""
        journal, kept = self.journals[number], []
        if self.letters and self._rng.random() < OFFERED:
            kept = [letter for letter in self.letters if letter[0] == number][:1]
            self.letters[:] = [letter for letter in self.letters if letter not in kept]
        offers = [offer for _, offer in kept]
        if append.staged is None or append.offer is None or not OFFERED or self._rng.random() >= OFFERED:
            if offers:
                with suppress(TidelogError):
                    journal.commit_locked(CommitOffers(offers))
            return journal.commit_locked(append).result
        if len(append.routed) > 1:
            return self._together(number, append)
        offer = append.offer
        journal.stage(append.staged)
        way = self._rng.choice(("answered", "answer lost", "late", "request lost"))
        if way == "answered":
            (*_, taken) = journal.commit_locked(CommitOffers([*offers, offer])).result
            if isinstance(taken, TidelogError):
                raise taken
            return journal.commit_locked(append).result if taken is None else append.outcomes_at(taken.bases)
        if way == "answer lost":
            with suppress(TidelogError):
                journal.commit_locked(CommitOffers([offer, *offers]))
        elif way == "late":
            self.letters.append((number, offer))
            self.clock.sleep_ms(self._rng.choice((0, 500, 3_000)))
        try:
            result = journal.commit_locked(Reclaim(append, offer)).result
            if isinstance(result, int):
                result = append.outcomes_at(committed_bases(self.store, journal.log.table.root, result, offer.path))
        except (TidelogError, StoreUnavailable) as problem:
            raise OutcomeUnknown(str(problem)) from problem
        return result

    def _together(self, number: int, append: JournalAppend) -> Sequence[AppendOutcome]:
        """As if two gateways had put its batches: their objects share a commit."""
        journal, outcomes = self.journals[number], list[AppendOutcome]()
        parts = [JournalAppend(routed, self._new_id) for routed in (append.routed[:1], append.routed[1:])]
        offers: dict[str, Offer] = {}
        for part in parts:
            staged = part.stage(journal.state, self.clock.now_ms())
            if staged is not None and part.offer is not None:
                journal.stage(staged)
                offers[staged.path] = part.offer
        result = journal.commit_locked(CommitOffers(list(offers.values()))).result
        answers = dict(zip(offers, result, strict=True))
        for part in parts:
            taken = None if part.staged is None else answers.get(part.staged.path)
            if isinstance(taken, TidelogError):
                outcomes += [taken] * len(part.routed)
            elif taken is not None:
                outcomes += part.outcomes_at(taken.bases)
            else:
                try:
                    outcomes += journal.commit_locked(part).result
                except TidelogError as problem:
                    outcomes += [problem] * len(part.routed)
        return outcomes

    def _taken_notes(self, number: int) -> list[Entry]:
        notes, self._notes[number] = self._notes[number], []
        return notes

    def _reopened(self, topic: str) -> None:
        """Return when the topic takes appends again; a change that does not end is overtaken."""
        since_ms, seen = 0, None
        while True:
            own = self.topics[topic].look()
            here = own.attachment
            if here is None or own.topic_id is None:
                return
            journal = self.journals[here.journal].look()
            if journal.topics.closed_number(own.topic_id) < here.number:
                return
            if here != seen:
                since_ms, seen = self.clock.monotonic_ms(), here
            elif self.clock.monotonic_ms() - since_ms >= OVERTAKE_MS:
                move = TopicMove(here, here.following(journal.topics.next_number(own.topic_id)), topic_id=own.topic_id)
                try:
                    self.topics[topic].commit(MoveTopic(topic_id=own.topic_id, move=move))
                except (TopicMoved, UnknownTopic):
                    continue
            self.clock.sleep_ms(500)

    # Changing

    def change(
        self,
        topic: str,
        make: Make[ResultT],
        *,
        joins: int | None = None,
        leaves: bool = False,
        is_drained: bool = False,
        dies: Callable[[], bool] = lambda: False,
    ) -> ResultT | None:
        """Commit what ``make`` gives for the topic's place. None: it died on the way."""
        opened = self.topics[topic]
        for _ in range(ROUNDS_MAX):
            own = opened.look()
            here = own.attachment
            if own.topic_id is None:
                raise UnknownTopic(topic)
            if here is None:
                move = NO_MOVE
                if joins is not None:
                    move = TopicMove(None, self.new_place(own.topic_id, joins), seen_version=own.version)
            else:
                stays = None if leaves else here
                trial = make(TopicMove(here, stays, topic_id=own.topic_id)).propose(opened.state, self.clock.now_ms())
                if not trial.actions:
                    return trial.result
                journal = self.journals[here.journal]
                journal.commit(JournalNotes([*self._taken_notes(here.journal), Close(own.topic_id, here.number)]))
                if dies():
                    return None
                if is_drained or leaves:
                    self.drain_whole(topic)
                number = journal.state.topics.next_number(own.topic_id)
                move = TopicMove(here, None if leaves else here.following(number), topic_id=own.topic_id)
            if dies():
                return None
            try:
                committed = opened.commit(make(move))
            except TopicMoved:
                continue
            if here is not None and committed.state.attachment is None:
                self._notes[here.journal].append(Release(own.topic_id, here.number))
            return committed.result
        raise BackOff("others change it all the time")

    def new_place(self, topic_id: str, journal: int) -> Attachment:
        """For a topic that the journal does not have."""
        number = self.journals[journal].look().topics.next_number(topic_id)
        return Attachment(journal, number, number)

    # Draining

    def drain_whole(self, topic: str) -> None:
        while self.drain(topic):
            pass

    def drain(self, topic: str) -> bool:
        """Put records into the topic's table, all or some; False when there was nothing to do."""
        opened = self.topics[topic]
        own = opened.state
        here = own.attachment
        if here is None:
            return False
        at = self.journals[here.journal].state
        known = journal_topic(own, at)
        if known is None:
            return False
        ends, places = self._drainable(known, at.runs.of(known.topic_id), here.journal)
        tables = [self.objects.read(place) for place in places]
        records = pa.concat_tables([RECORD_SCHEMA.empty_table(), *tables])
        committed = opened.commit(Drain(known, records, ends, self._new_id))
        if not committed.result:
            return False
        is_whole = bool((ends == known.next_offsets).all())
        if places:
            offsets = [(partition, int(end)) for partition, end in enumerate(ends) if end > known.drained[partition]]
            up_to_ms = at.modification_time_ms if is_whole else 0
            self._notes[here.journal].append(Drained(known.topic_id, offsets, up_to_ms))
        return committed.attempts > 0 or not is_whole

    def _drainable(
        self, known: JournalTopic, undrained: Undrained | None, journal: int
    ) -> tuple[Offsets, list[JournalRunRef]]:
        """Whole commits of the journal, perhaps only some."""
        ends = known.drained.copy()
        places: list[JournalRunRef] = []
        for ref, runs in undrained.parts() if undrained is not None else ():
            if any(run.end_offset > known.next_offsets[run.partition] for run in runs):
                break  # of a later state
            for run in runs:
                ends[run.partition] = max(ends[run.partition], run.end_offset)
                places.append(JournalRunRef(journal, ref, known.topic_id, run.partition, run.base_offset))
            if self._rng.random() < 0.2:
                break
        else:
            ends = known.next_offsets.copy()
        return ends, sorted(places, key=lambda place: (place.partition, place.base_offset))

    def tidy(self, number: int) -> None:
        """Say what waits to be said; release topics that are gone; let go of objects."""
        journal = self.journals[number]
        releases = []
        for topic in journal.look().topics.by_id.values():
            at = self.topics[topic.name].look()
            here = at.attachment if at.topic_id == topic.topic_id else None
            if (here is None or here[::2] != (number, topic.first)) and not topic.is_open:
                releases.append(Release(topic.topic_id, topic.number))
        notes = [*self._taken_notes(number), *releases]
        if notes or journal.state.runs.unneeded(1):
            journal.commit(JournalNotes(notes))

    # Looking

    def view(self, topic: str) -> TopicState:
        """The topic as readers see it."""
        opened = self.topics[topic]
        for _ in range(ROUNDS_MAX):
            here = opened.state.attachment
            if here is None:
                here = opened.look().attachment
                if here is None:
                    return opened.state
            journal = self.journals[here.journal]
            if not is_open(opened.state, journal.look()):
                opened.look()
            if opened.state.attachment != here:
                continue
            with suppress(AheadOfTable):
                if not may_have_left(opened.state, journal.state):
                    return overlay_journal(opened.state, journal.state)
            with suppress(AheadOfTable):
                at = journal.state
                if opened.look().attachment == here:
                    return overlay_journal(opened.state, at)
        raise BackOff("it moves too often")

    def read(self, state: TopicState, partition_number: int, offset: int) -> list[tuple[int, bytes]]:
        """Records from ``offset`` on of the run that has it."""
        located = state.manifest.find(partition_number, offset)
        if located is None:
            return []
        if located.journal is None:
            records = self.segments.read(
                state.topic, located.segment, partition_number, offset, bytes_max=1 << 20, records_max=100
            )
        else:
            place = JournalRunRef(
                located.journal, located.segment, str(state.topic_id), partition_number, located.base_offset
            )
            records = self.objects.read(place)
        rows = zip(records["offset"].to_pylist(), records["value"].to_pylist(), strict=True)
        return [(found, value) for found, value in rows if found >= offset]
