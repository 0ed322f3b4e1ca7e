"""Committing objects that several gateways have put and offered: one commit with an ``add`` for each.

An object is committed as a whole or not at all. If one of its batches is refused or is a duplicate, the object is not committed,
and its sender puts another one without the batch. No object is committed twice, nor one that is older than
``SEGMENT_AGE_MAX_MS``, since maintenance may be about to delete it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from log_format.delta.actions import Add
from log_format.delta.change import Proposal
from log_format.errors import OutcomeUnknown, TidelogError
from log_format.journal.batch_judge import BatchJudge
from log_format.journal.committed_versions import OutcomeForgotten
from log_format.journal.entries import Entry
from log_format.journal.notes import JournalNotes
from log_format.journal.object_tags import CommittedObject, TopicRuns
from log_format.journal.offer import Offer, OfferAnswer, OfferedTopic
from log_format.journal.state import JournalState
from log_format.limits import SEGMENT_AGE_MAX_MS
from log_format.segments.run import Run, SegmentRef
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.applied_transactions import TransactionStamp
from log_format.topic.producers import StampedBatch

CommitOffersResult = Sequence[OfferAnswer | TidelogError | None]
"""Result for each object. None: this change does not commit the object, and never will."""


class _AcceptedObjects(NamedTuple):
    """The content of one proposal: the objects that it commits, by number, and the entries before them."""

    topics: dict[int, list[TopicRuns]]
    entries: Sequence[Entry]


class CommitOffers:
    """A change that commits offered objects, leaving out any that it can't commit. ``notes``: as for ``JournalAppend``."""

    def __init__(self, offers: Sequence[Offer], *, notes: Sequence[Entry] = ()) -> None:
        self._offers = tuple(offers)
        self._notes = tuple(notes)

    def propose(self, state: JournalState, now_ms: int) -> Proposal[CommitOffersResult]:
        """Propose one ``add`` for each object, in the order given."""
        result: list[OfferAnswer | TidelogError | None] = [None] * len(self._offers)
        candidates: dict[str, int] = {}
        for number, offer in enumerate(self._offers):
            why_not = _refusal(offer, state, now_ms)
            if isinstance(why_not, TidelogError):
                result[number] = why_not
            elif not why_not:
                candidates.setdefault(offer.path, number)
        standing = self._standing(list(candidates.values()), state, now_ms)
        if not standing.topics:
            return Proposal(operation="WRITE", actions=(), result=result)
        adds: list[Add] = []
        placed: list[CommittedObject] = []
        modification_ms = max(now_ms, state.modification_time_ms + 1)
        for number, topics in standing.topics.items():
            offer = self._offers[number]
            ref = SegmentRef(offer.path, offer.size_bytes, offer.footer_start, offer.footer_crc32)
            placed.append(CommittedObject(ref, topics))
            # Each object has a later time than the one before, since a checkpoint keeps no other order.
            adds.append(placed[-1].add(offer.record_count, modification_ms + len(adds)))
            bases = tuple(run.base_offset for of_topic in topics for run in of_topic.runs)
            result[number] = OfferAnswer(state.version + 1, bases)
        return JournalNotes(standing.entries).proposal(state, now_ms, result, adds, placed)

    def _standing(self, left: list[int], state: JournalState, now_ms: int) -> _AcceptedObjects:
        """Judge the objects together. If one is refused, start again without it, which is rare."""
        while True:
            judging = BatchJudge(state, now_ms, notes=self._notes)
            found: dict[int, list[TopicRuns]] = {}
            for number in left:
                topics = _judge_offer(number, self._offers[number], judging)
                if topics is None:
                    left.remove(number)
                    break
                found[number] = topics
            else:
                return _AcceptedObjects(found, judging.entries)


def _refusal(offer: Offer, state: JournalState, now_ms: int) -> TidelogError | bool:
    """Return whether the object must not be committed; an error if a commit has it already, to which its sender must look."""
    try:
        version = state.committed.version_of(offer.path, offer.offered_at)
    except OutcomeForgotten:
        return True
    if version is not None:
        return OutcomeUnknown(f"Version {version} has the object, or says that none will.")
    return abs(now_ms - offer.staged_at_ms) > SEGMENT_AGE_MAX_MS


def _judge_offer(number: int, offer: Offer, judging: BatchJudge) -> list[TopicRuns] | None:
    """Return whose records the object has, with their offsets; None if one of its batches is refused."""
    topics = []
    for one in offer.topics:
        content = _judge_offered_topic(number, one, judging)
        if content is None:
            return None
        topics.append(content)
    return topics


def _judge_offered_topic(number: int, one: OfferedTopic, judging: BatchJudge) -> TopicRuns | None:
    try:
        of_topic = judging.topic(one.topic_id, one.number, None if one.attach is None else one.attaching)
    except ValueError:  # an entry that contradicts itself
        return None
    if of_topic is None:
        return None
    runs = []
    partition_count = len(of_topic.topic.next_offsets)
    for partition, count, *rest in one.runs:
        if partition >= partition_count:
            return None
        base = of_topic.base(partition)
        runs.append(Run(partition, base, base + count, count, *rest))
    if one.is_plain:
        return TopicRuns(one.topic_id, runs, [], {}) if judging.accept_plain(runs, of_topic) else None
    stamped: list[StampedBatch] = []
    applied: dict[TransactionStamp, tuple[AppendedRange, ...]] = {}
    for batch in one.batches:
        if judging.verdict(batch, of_topic) is not None:
            return None
        offset_ranges = judging.accept(number, batch, of_topic)
        if batch.stamp is not None:
            stamped.append(StampedBatch(batch.stamp, offset_ranges))
        if batch.transaction is not None:
            applied[batch.transaction] = offset_ranges
    return TopicRuns(one.topic_id, runs, stamped, applied)
