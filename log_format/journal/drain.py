"""A drain: records of a journal are added to their topic's own table, with the offsets that they already have.

A drain is an ordinary commit like a flush's. It also brings the producers and transactions of these records to the topic. Records
that the table already has are left out, so draining is idempotent.

A typed topic's records get their columns now, by the schemas that the door judged them by; the same commit widens the table. They
can't be refused any more: those that don't fit are marked. While the registry can't be read, they stay in the journal for a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

import numpy as np
import pyarrow as pa

from log_format.delta.actions import Action, Txn
from log_format.delta.change import Proposal
from log_format.errors import BackOff, CorruptData
from log_format.ids import NewId
from log_format.journal.entries import Drained
from log_format.journal.topics import JournalTopic
from log_format.journal.undrained import Undrained, UndrainedRun
from log_format.layout import segment_path
from log_format.records.schema import RECORD_SCHEMA
from log_format.records.typed_columns import CELLS_MAX, NO_TYPED_COLUMNS, typed_columns
from log_format.segments.run import SegmentRef
from log_format.segments.segment import encode_segment
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.applied_transactions import TransactionStamp, tag_with_transactions, transaction_txns
from log_format.topic.batch import with_typed
from log_format.topic.change import StagedSegment
from log_format.topic.changes import columns_actions
from log_format.topic.late_columns import TypeRecords, late_columns
from log_format.topic.numbered_producers import encode_spent
from log_format.topic.partition_offsets import Offsets
from log_format.topic.producers import StampedBatch, encode_stamps
from log_format.topic.segment_tags import TAG_FORGOTTEN, TAG_PRODUCERS, TAG_SPENT, add_segment
from log_format.topic.state import TopicState

REGISTRY_WAIT_MS_MAX: Final = 900_000
"""Longest time in ms from the first time that a gateway could not read the registry for a typed topic's records. Then they get
no columns, and the reason: a journal that isn't drained refuses the records of all its topics in the end."""
DRAIN_BYTES_MAX: Final = 32 * 1024 * 1024
"""Stored bytes of journal objects after which a drain takes no further commit."""
_DRAIN_CELLS_MAX: Final = 4 * CELLS_MAX
"""Values of the typed columns of its records, present or not, after which a drain takes no further commit."""


def plan_drain(
    known: JournalTopic,
    undrained: Undrained | None,
    there: Offsets,
    *,
    bytes_max: int = DRAIN_BYTES_MAX,
    width: int = 0,
) -> tuple[Offsets, list[tuple[SegmentRef, Sequence[UndrainedRun]]]]:
    """Return the end of what a drain can take, and the runs to read for it: whole commits of the journal, oldest first.

    Args:
        known: the topic's state in the journal.
        undrained: the topic's undrained runs.
        there: next offsets of the topic's own table, whose runs are left out.
        bytes_max: stored bytes above which no further commit is taken.
        width: number of typed columns that the topic's table has.

    Returns:
        The offset of each partition up to which the commits lead, and for each object the runs that the table lacks.
    """
    ends = known.drained.copy()
    parts: list[tuple[SegmentRef, Sequence[UndrainedRun]]] = []
    size_bytes = cells = 0
    for ref, runs in undrained.parts() if undrained is not None else ():
        if any(run.end_offset > known.next_offsets[run.partition] for run in runs):
            break  # of a later state than ``known``
        for run in runs:
            ends[run.partition] = max(ends[run.partition], run.end_offset)
        missing = [run for run in runs if run.partition >= len(there) or run.end_offset > there[run.partition]]
        if missing:
            parts.append((ref, missing))
            size_bytes += sum(run.size_bytes for run in missing)
            cells += width * sum(run.record_count for run in missing)
        if size_bytes > bytes_max or cells > _DRAIN_CELLS_MAX:
            break
    else:
        ends = known.next_offsets.copy()
    return ends, parts


def make_drained_entry(known: JournalTopic, ends: Offsets, whole_at_ms: int) -> Drained | None:
    """Return the entry that tells the journal of a drain up to ``ends``; None if the journal knows. ``whole_at_ms``: newest
    object's time."""
    offsets = [(partition, int(end)) for partition, end in enumerate(ends) if end > known.drained[partition]]
    is_whole = bool((ends == known.next_offsets).all())
    return Drained(known.topic_id, offsets, whole_at_ms if is_whole else 0) if offsets else None


class Drain:
    """A change that adds a topic's records to its own table.

    Args:
        topic: the topic's state in the journal at one version.
        records: by partition and offset the records below ``ends`` that the table may lack: ``RECORD_SCHEMA``, and for a typed
            topic the schemas by which they were judged (``document_schemas``).
        ends: offsets at which a commit of the journal ends, by partition.
        new_id: source of unique ids.
        type_records: gives records of a typed topic their columns; None: they are marked as not judged.
        wait_ms_max: longest wait for a registry that can't be read, from ``unread_since_ms`` on; None: records always wait.
        unread_since_ms: ``unread_since_ms`` of the topic's drain before; None: there was none, or it could read the registry.

    ``unread_since_ms`` is the time at which the registry could not be read first, for records that are undrained since; None: it
    was read, or not needed.

    The result is whether the table has the records now; False means that the topic has left the journal.
    """

    def __init__(
        self,
        topic: JournalTopic,
        records: pa.Table,
        ends: Offsets,
        new_id: NewId,
        type_records: TypeRecords | None = None,
        *,
        wait_ms_max: int | None = REGISTRY_WAIT_MS_MAX,
        unread_since_ms: int | None = None,
    ) -> None:
        self._topic = topic
        self._records = records
        self._ends = ends
        self._new_id = new_id
        self._staged: StagedSegment | None = None
        self._staged_for: tuple[object, ...] | None = None
        self._type_records = type_records
        self._wait_ms_max = wait_ms_max
        self.unread_since_ms = unread_since_ms
        if unread_since_ms is not None and topic.undrained_since_ms is not None:
            # Records that came since have not waited: another program has drained those that did.
            self.unread_since_ms = None if topic.undrained_since_ms > unread_since_ms else unread_since_ms
        self._columns = NO_TYPED_COLUMNS
        """Typed columns of the table with the staged segment."""

    def propose(self, state: TopicState, now_ms: int) -> Proposal[bool]:
        """Propose a commit like a flush's. Raises ``CorruptData`` if records between the table and these are missing, ``BackOff``
        if their schemas can't be read now."""
        here = state.attachment
        if state.topic_id != self._topic.topic_id or here is None or here.first != self._topic.first:
            return Proposal(operation="WRITE", actions=(), result=False)
        stamped = list(self._stamped(state))
        records = self._missing(state)
        forgotten = self._topic.producers.forgotten_issued_ms
        tags = {TAG_FORGOTTEN: str(forgotten)} if forgotten > state.producers.forgotten_issued_ms else {}
        spent = self._topic.producers.numbered.spent_unseen_by(state.producers.numbered)
        tags |= {TAG_SPENT: encode_spent(spent)} if spent else {}
        if not records.num_rows:
            tags |= {TAG_PRODUCERS: encode_stamps(stamped)} if stamped else {}
            return Proposal(operation="WRITE", actions=(), result=True, tags=tags)
        segment = self._stage(records, state, now_ms)
        add = add_segment(
            segment.encoded.ref(segment.path),
            segment.encoded.runs,
            modification_time_ms=max(now_ms, state.modification_time_ms + 1),
            data_change=True,
            stamped=stamped,
            columns=segment.encoded.statistics,
        )
        ends = {run.partition: run.end_offset for run in segment.encoded.runs}
        txns = [Txn(app_id=str(partition), version=end, last_updated=now_ms) for partition, end in ends.items()]
        applied, floor = self._applied(state), state.transactions.floor
        actions: list[Action] = [
            *columns_actions(state, self._columns),
            tag_with_transactions(add, applied, floor),
            *txns,
            *transaction_txns(applied, floor, now_ms),
        ]
        return Proposal(operation="WRITE", actions=actions, result=True, segment=segment, tags=tags)

    def _missing(self, state: TopicState) -> pa.Table:
        """Return the records that the table lacks. If ``state`` is stale, earlier ones may be missing; the committer then
        refreshes it."""
        partitions = self._records.column("partition").to_numpy()
        offsets = self._records.column("offset").to_numpy()
        is_known = not len(partitions) or partitions.max() < state.partition_count
        next_offsets = state.next_offsets[partitions] if is_known else offsets + 1
        missing = offsets >= next_offsets
        records = self._records if missing.all() else self._records.filter(pa.array(missing))
        starts = np.flatnonzero(np.diff(partitions[missing], prepend=-1))
        if not is_known or (offsets[missing][starts] != next_offsets[missing][starts]).any():
            raise CorruptData(
                f"The table of topic {state.topic!r} lacks records or partitions before those that its journal still has.",
                topic=state.topic,
            )
        return records

    def _stage(self, records: pa.Table, state: TopicState, now_ms: int) -> StagedSegment:
        compression = state.config.choice("compression.type")
        wanted = (state.next_offsets.tolist(), compression, state.config.subjects, state.columns)
        if self._staged is None or self._staged.is_too_old or self._staged_for != wanted:
            records = self._typed(records, state, now_ms)
            self._staged = StagedSegment(segment_path(self._new_id()), encode_segment(records, compression=compression))
            self._staged_for = wanted
        return self._staged

    def _typed(self, records: pa.Table, state: TopicState, now_ms: int) -> pa.Table:
        """Return the records with the typed columns of the topic, if it has any."""
        self._columns, subjects = state.columns, state.config.subjects
        if not subjects.are_set:
            return records.select(RECORD_SCHEMA.names)
        try:
            typed = late_columns(records, subjects, state.columns, self._type_records)
            self.unread_since_ms = None
        except BackOff:
            if self.unread_since_ms is None:
                self.unread_since_ms = now_ms
            if self._wait_ms_max is None or abs(now_ms - self.unread_since_ms) <= self._wait_ms_max:
                raise
            typed = late_columns(records, subjects, state.columns, None)
        self._columns = state.columns.merged_with(typed_columns(typed.schema))
        return with_typed(records.select(RECORD_SCHEMA.names), typed, self._columns)

    def _stamped(self, state: TopicState) -> Iterator[StampedBatch]:
        """Yield the producers' newest requests that the table has not seen, up to the first one with records that are not
        drained."""
        for requests in self._topic.producers.unseen_by(state.producers):
            yield from takewhile(lambda one: self._has(one.offset_ranges), requests)

    def _applied(self, state: TopicState) -> dict[TransactionStamp, tuple[AppendedRange, ...]]:
        known, floor = state.transactions.by_id, self._topic.transactions.floor
        return {
            TransactionStamp(transaction_id, one.decided_version, floor): one.offset_ranges
            for transaction_id, one in self._topic.transactions.by_id.items()
            if transaction_id not in known and self._has(one.offset_ranges)
        }

    def _has(self, offset_ranges: tuple[AppendedRange, ...]) -> bool:
        return all(place.base_offset + place.count <= self._ends[place.partition] for place in offset_ranges)
