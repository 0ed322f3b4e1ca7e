"""Appending records of many topics to a journal: batches -> one object, and the commit that gives the records their offsets.

Each batch comes with the state of its topic's own log, in which the topic is attached to this journal. The journal accepts the
batch if it has the topic open under the same number. A topic that the journal does not have yet is attached by the same commit. A
batch with a closed number is refused with ``TopicMoved``: the caller looks the topic up again.

The object contains no offsets. So the appender uploads it once, whatever others commit meanwhile. Only if the commit refuses
another batch than expected, the appender encodes the object again without that batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from log_format.delta.change import Proposal
from log_format.errors import BackOff
from log_format.ids import NewId
from log_format.journal.batch_judge import BatchJudge, Verdict
from log_format.journal.entries import Attach, EmptyRequest, Entry, attach_entry
from log_format.journal.journal_object import EncodedObject, JournalRun, TopicRecords, encode_object
from log_format.journal.notes import JournalNotes
from log_format.journal.object_tags import CommittedObject, TopicRuns
from log_format.journal.offer import Offer, OfferedBatch, OfferedTopic
from log_format.journal.state import JournalState
from log_format.layout import segment_path
from log_format.records.deferred import decode_deferred
from log_format.records.document_schemas import SchemaRows
from log_format.segments.run import Run
from log_format.topic.append import Batch, columns_error, settings_error
from log_format.topic.append_outcome import AppendedRange, AppendOutcome, AppendResult, Duplicate
from log_format.topic.applied_transactions import TransactionStamp
from log_format.topic.attachment import TopicMoved
from log_format.topic.batch import concatenate_records
from log_format.topic.producers import StampedBatch
from log_format.topic.state import TopicState


class RoutedBatch(NamedTuple):
    """A batch, and its topic's state by the topic's own log, attached to the journal."""

    state: TopicState
    batch: Batch


@dataclass(slots=True)
class StagedObject:
    """An encoded object with a unique path, as in ``StagedFile``."""

    path: str
    encoded: EncodedObject
    uploaded_at_ms: int | None = None
    is_too_old: bool = False

    @property
    def data(self) -> bytes:
        """Bytes of the object."""
        return self.encoded.data


class _Judgement(NamedTuple):
    """A flush judged at one state: the outcome of each batch, and the entries that must precede the batches."""

    outcomes: Sequence[AppendOutcome]
    entries: Sequence[Entry]


class JournalAppend:
    """A flush: batches that share one object and one commit. It keeps its staged object, so only one thread may propose it."""

    def __init__(self, routed: Sequence[RoutedBatch], new_id: NewId, *, notes: Sequence[Entry] = ()) -> None:
        """Prepare a flush. ``notes``: entries to commit before the batches, as far as they still say something new."""
        assert routed
        self._notes = tuple(notes)
        self.topic_runs: Sequence[TopicRuns] = ()
        """Runs of the newest proposal, in the staged object's order."""
        self.routed = tuple(routed)
        self._new_id = new_id
        self._staged: StagedObject | None = None
        self._staged_for: tuple[int, ...] = ()
        self._offered: StagedObject | None = None
        self.offer: Offer | None = None
        """Description of the staged object with which another committer can commit it; None if a batch was refused."""

    @property
    def staged(self) -> StagedObject | None:
        """Newest staged object, with the records of the flush."""
        return self._staged

    def stage(self, state: JournalState, now_ms: int) -> StagedObject | None:
        """Encode the batches that ``state`` allows, assuming that missing earlier ones get committed; return None if it allows
        none."""
        judged = self._judge(state, now_ms, assume_order=True)
        standing = self._appended_indices(judged.outcomes)
        self.offer = None
        if not standing:
            return None
        staged = self._stage(standing)
        if all(isinstance(outcome, tuple) for outcome in judged.outcomes):
            attached = {entry.topic_id: entry for entry in judged.entries if isinstance(entry, Attach)}
            self.offer = self._offer_of(staged, attached, state.version, now_ms)
            self._offered = staged
        return staged

    def outcomes_at(self, bases: Sequence[int]) -> AppendResult:
        """Return the outcomes of the flush after another committer committed the offered object, with these base offsets of its
        runs."""
        assert self._offered is not None
        self._staged = self._offered
        runs = self._staged.encoded.runs
        self.topic_runs = [
            TopicRuns(topic_id, runs_of_topic, (), {})
            for topic_id, runs_of_topic in _runs_at_offsets(runs, bases).items()
        ]
        ends = {(run.topic_id, run.partition): base for run, base in zip(runs, bases, strict=True)}
        result: list[AppendOutcome] = []
        for _, batch in self.routed:
            offset_ranges = []
            for partition, count in batch.counts:
                base = ends[batch.topic_id, partition]
                offset_ranges.append(AppendedRange(partition, base, count))
                ends[batch.topic_id, partition] = base + count
            result.append(tuple(offset_ranges))
        return result

    def propose(self, state: JournalState, now_ms: int) -> Proposal[AppendResult]:
        """Propose one ``add`` with the topics' runs. Refusals are in the result."""
        judged = self._judge(state, now_ms, assume_order=False)
        stamped: dict[str, list[StampedBatch]] = {}
        applied: dict[str, dict[TransactionStamp, tuple[AppendedRange, ...]]] = {}
        for (_, batch), outcome in zip(self.routed, judged.outcomes, strict=True):
            if isinstance(outcome, tuple) and batch.stamp is not None:
                stamped.setdefault(batch.topic_id, []).append(StampedBatch(batch.stamp, outcome))
            if isinstance(outcome, tuple) and batch.transaction is not None:
                applied.setdefault(batch.topic_id, {})[batch.transaction] = outcome
        standing = self._appended_indices(judged.outcomes)
        self.topic_runs = ()
        if not standing and not stamped:
            return Proposal(operation="WRITE", actions=(), result=judged.outcomes)
        entries = [*judged.entries]
        if not standing:
            entries += [_topic_without_records(topic_id, one) for topic_id, many in stamped.items() for one in many]
            return JournalNotes(entries).proposal(state, now_ms, judged.outcomes)
        staged = self._stage(standing)
        runs = _runs_at_offsets(staged.encoded.runs, self._bases(staged.encoded.runs, judged.outcomes))
        topics = [
            TopicRuns(topic_id, runs.get(topic_id, ()), stamped.get(topic_id, ()), applied.get(topic_id, {}))
            for topic_id in sorted({*runs, *stamped})
        ]
        self.topic_runs = topics
        encoded = staged.encoded
        modification_ms = max(now_ms, state.modification_time_ms + 1)
        placed = CommittedObject(encoded.ref(staged.path), topics)
        add = placed.add(encoded.records.num_rows, modification_ms)
        return replace(JournalNotes(entries).proposal(state, now_ms, judged.outcomes, [add], [placed]), segment=staged)

    def _judge(self, state: JournalState, now_ms: int, *, assume_order: bool) -> _Judgement:
        """Return the outcome of each batch at ``state``, given the batches before it."""
        decode_deferred(batch.deferred for _, batch in self.routed)
        judging = BatchJudge(state, now_ms, notes=self._notes, assume_order=assume_order)
        outcomes: list[AppendOutcome] = []
        for index, (own, batch) in enumerate(self.routed):
            verdict: Verdict = own.incarnation_error(batch.topic_id)
            of_topic = None
            here = own.attachment
            if verdict is None and here is not None and here.journal == state.journal:
                of_topic = judging.topic(batch.topic_id, here.number, partial(attach_entry, own))
            if verdict is None and of_topic is not None:
                refusal = settings_error(batch, own) or columns_error(batch, own)
                verdict = judging.verdict(batch, of_topic, refusal)
            if verdict is None:
                offset_ranges = None if of_topic is None else judging.accept(index, batch, of_topic)
                outcomes.append(TopicMoved(own.topic) if offset_ranges is None else offset_ranges)
            elif isinstance(verdict, int):
                same = outcomes[verdict]
                assert isinstance(same, tuple)
                outcomes.append(Duplicate(same))
            else:
                outcomes.append(verdict)
        return _Judgement(outcomes, judging.entries)

    def _offer_of(
        self, staged: StagedObject, attached: Mapping[str, Attach], offered_at: int, staged_at_ms: int
    ) -> Offer:
        encoded = staged.encoded
        runs: dict[str, list[JournalRun]] = {}
        for run in encoded.runs:
            runs.setdefault(run.topic_id, []).append(run)
        routed: dict[str, list[RoutedBatch]] = {}
        for one in self.routed:
            routed.setdefault(one.batch.topic_id, []).append(one)
        topics = []
        for topic_id in sorted(routed):
            here = routed[topic_id][0].state.attachment
            assert here is not None
            batches = tuple(
                OfferedBatch(batch.counts, batch.stamp, batch.expected_offset, batch.transaction)
                for _, batch in routed[topic_id]
            )
            rows = tuple((run.partition, *run[3:]) for run in runs.get(topic_id, ()))
            topics.append(OfferedTopic(topic_id, here.number, attached.get(topic_id), rows, batches))
        return Offer(
            path=staged.path,
            size_bytes=len(encoded.data),
            footer_start=encoded.footer_start,
            footer_crc32=encoded.footer_crc32,
            record_count=encoded.records.num_rows,
            offered_at=offered_at,
            staged_at_ms=staged_at_ms,
            topics=tuple(topics),
        )

    def _appended_indices(self, outcomes: Sequence[AppendOutcome]) -> list[int]:
        """Return the indices of the batches with records that are appended."""
        return [i for i, outcome in enumerate(outcomes) if isinstance(outcome, tuple) and outcome]

    def _bases(self, runs: Sequence[JournalRun], outcomes: Sequence[AppendOutcome]) -> list[int]:
        """Return the base offset of each run, which is that of the run's first batch."""
        first: dict[tuple[str, int], int] = {}
        for (_, batch), outcome in zip(self.routed, outcomes, strict=True):
            if isinstance(outcome, tuple):
                for place in outcome:
                    first.setdefault((batch.topic_id, place.partition), place.base_offset)
        return [first[run.topic_id, run.partition] for run in runs]

    def _stage(self, standing: Sequence[int]) -> StagedObject:
        wanted = tuple(standing)
        if self._staged is None or self._staged.is_too_old or self._staged_for != wanted:
            parts = _records_by_topic([self.routed[index] for index in standing])
            self._staged = StagedObject(segment_path(self._new_id()), encode_object(parts))
            self._staged_for = wanted
        return self._staged


class PartlyRefused(BackOff):
    """Error: a batch is refused, so no batch was appended."""

    def __init__(self) -> None:
        super().__init__("One of the topics refused its records: nothing was appended.")


class AllOrNothingAppend:
    """A flush that appends all its batches or none."""

    def __init__(self, append: JournalAppend) -> None:
        self._append = append

    def propose(self, state: JournalState, now_ms: int) -> Proposal[AppendResult]:
        """Propose like ``JournalAppend``. Raises ``PartlyRefused`` if any batch is refused."""
        proposal = self._append.propose(state, now_ms)
        if not all(isinstance(outcome, tuple) for outcome in proposal.result):
            raise PartlyRefused
        return proposal


def _records_by_topic(routed: Sequence[RoutedBatch]) -> list[TopicRecords]:
    """Return the records of each topic, in order of arrival, as slices of one table, since a table for each would
    cost far more."""
    of_topics: dict[str, list[Batch]] = {}
    states: dict[str, TopicState] = {}
    for own, batch in routed:
        of_topics.setdefault(batch.topic_id, []).append(batch)
        states[batch.topic_id] = own
    timed = {
        topic_id for topic_id, own in states.items() if own.config.choice("message.timestamp.type") == "LogAppendTime"
    }
    in_order = [batch for batches in of_topics.values() for batch in batches]
    records, partitions = concatenate_records(in_order, log_append_time=timed)
    parts = []
    first = 0
    for topic_id, batches in of_topics.items():
        count = sum(batch.record_count for batch in batches)
        own, stop = states[topic_id], first + count
        schemas = _schemas_of(batches) if own.config.subjects.are_set else None
        parts.append(TopicRecords(own.topic, topic_id, records.slice(first, count), partitions[first:stop], schemas))
        first = stop
    return parts


def _schemas_of(batches: Sequence[Batch]) -> SchemaRows:
    return np.concatenate([batch.document_schemas.rows(batch.record_count) for batch in batches])


def _runs_at_offsets(runs: Sequence[JournalRun], bases: Sequence[int]) -> dict[str, list[Run]]:
    """Return the runs of an object with their offsets, by topic."""
    placed: dict[str, list[Run]] = {}
    for one, base in zip(runs, bases, strict=True):
        run = Run(one.partition, base, base + one.record_count, one.record_count, one.size_bytes, *one[5:])
        placed.setdefault(one.topic_id, []).append(run)
    return placed


def _topic_without_records(topic_id: str, stamped: StampedBatch) -> EmptyRequest:
    return EmptyRequest(topic_id, *stamped.stamp)
