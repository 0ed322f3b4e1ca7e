"""Appending records: batches -> one segment, and the commit that gives the records their offsets.

A batch is the records of one produce request for this topic. Its records for one partition get consecutive offsets in their order
of arrival. The batches of an append get their offsets in the order given. All records of an append become visible with its
commit.

A batch that the topic's state at the log's head does not allow is refused without affecting the others. Reasons: the topic was
re-created or got partitions; a record is too large for the topic, or lacks a required key; the producer's sequence is out of
order. A batch that is already in the log is answered with the offsets that it got then. All other batches are committed.

A segment contains the offsets of its records, so its bytes depend on each partition's next offset. ``stage`` encodes the segment
early, for the next offsets that earlier commits are expected to lead to. ``propose`` encodes it again if another committer took
these offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from log_format.delta.actions import Action, Txn
from log_format.delta.change import Proposal
from log_format.errors import ErrorCode, RequestRefused, TidelogError, TopicReplaced
from log_format.ids import NewId
from log_format.layout import segment_path
from log_format.records.deferred import decode_deferred
from log_format.records.left_out import readable
from log_format.records.single import RecordAtOffset
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypeConflict, TypedColumns, record_schema
from log_format.segments.segment import encode_segment
from log_format.segments.single_record_encoding import ONE_RECORD_BYTES_MAX, encode_single_record
from log_format.topic.append_outcome import AppendedRange, AppendOutcome, AppendResult, Duplicate
from log_format.topic.applied_transactions import TransactionStamp, tag_with_transactions, transaction_txns
from log_format.topic.attachment import TopicMoved
from log_format.topic.batch import Batch, concatenate_records
from log_format.topic.change import StagedSegment
from log_format.topic.changes import columns_actions
from log_format.topic.config import Subjects
from log_format.topic.erasure_changes import erasures_error
from log_format.topic.late_columns import TypeRecords, late_columns
from log_format.topic.partition_offsets import Offsets
from log_format.topic.producers import (
    Counts,
    ProducerStamp,
    SequenceCheck,
    StampedBatch,
    out_of_order_error,
    request_key,
)
from log_format.topic.segment_tags import add_segment
from log_format.topic.stamped_requests import empty_request
from log_format.topic.state import TopicState

__all__ = [
    "Append",
    "AppendRequest",
    "Batch",
    "TypeRecords",
    "columns_error",
    "expected_offset_error",
    "settings_error",
]


class AppendRequest(Protocol):
    """The part of a batch that is judged at the log's head. ``Batch`` describes the properties."""

    @property
    def counts(self) -> Sequence[tuple[int, int]]:
        """(partition, count) of each partition with records."""

    @property
    def stamp(self) -> ProducerStamp | None:
        """Producer's id, epoch and sequence of an idempotent request, as in ``Batch``."""

    @property
    def expected_offset(self) -> int | None:
        """Offset that the batch must get to be appended, as in ``Batch``."""

    @property
    def transaction(self) -> TransactionStamp | None:
        """Decided transaction whose records the batch has, as in ``Batch``."""


_Verdict = Duplicate | TidelogError | int | None
"""Verdict on one batch. None: append the batch. A number: the batch repeats the request of the batch with that index in this
flush."""


class Append:
    """A flush: batches that share one segment and one commit. It keeps its staged segment, so only one thread may propose it."""

    def __init__(self, batches: Sequence[Batch], new_id: NewId, type_records: TypeRecords | None = None) -> None:
        """Set up.

        Args:
            batches: at least one.
            new_id: makes names of objects.
            type_records: gives typed columns to records that were accepted before they could have any (of a transaction, or
                delayed); None: they are marked as not judged.
        """
        assert batches
        self.batches = tuple(batches)
        self._type_records = type_records
        self._typed: dict[tuple[int, Subjects], pa.Table] = {}
        self._new_id = new_id
        self._staged: StagedSegment | None = None
        self._staged_for: tuple[object, ...] | None = None
        self._staged_columns = NO_TYPED_COLUMNS
        """Typed columns of the table with the staged segment."""
        self.staged_records: pa.Table | RecordAtOffset | None = None
        """Records of the newest staged segment, for the tail cache: a table as in ``records``, or a single record that is not a
        table yet."""

    @property
    def records(self) -> pa.Table | None:
        """Records of the newest staged segment, by partition and offset: ``RECORD_SCHEMA``, and ``data`` where it is needed."""
        return self.staged_records.table() if isinstance(self.staged_records, RecordAtOffset) else self.staged_records

    @property
    def is_uploaded(self) -> bool:
        """Whether the newest staged segment is in the store."""
        return self._staged is not None and self._staged.uploaded_at_ms is not None

    @property
    def nbytes(self) -> int:
        """Size of ``records`` as an Arrow table, in bytes."""
        return 0 if self._staged is None else self._staged.encoded.nbytes

    def stage(self, state: TopicState, next_offsets: Offsets) -> StagedSegment | None:
        """Encode the batches that ``state`` allows, with offsets that begin at ``next_offsets``; return None if it allows no
        batch with records."""
        verdicts = self._judge(state, next_offsets, now_ms=0, assume_order=True)
        standing = [index for index, verdict in enumerate(verdicts) if verdict is None and self.batches[index].counts]
        return self._stage(standing, state, next_offsets) if standing else None

    def counts(self) -> dict[int, int]:
        """Return how many records each partition gets if every batch is appended."""
        totals: dict[int, int] = {}
        for batch in self.batches:
            for partition, count in batch.counts:
                totals[partition] = totals.get(partition, 0) + count
        return totals

    def propose(self, state: TopicState, now_ms: int) -> Proposal[AppendResult]:
        """Propose one ``add``, and one ``txn`` per partition with records. Refusals are in the result; only damaged
        input raises, and ``BackOff`` for records whose schemas can't be read now."""
        verdicts = self._judge(state, state.next_offsets, now_ms, assume_order=False)
        result: list[AppendOutcome] = []
        ends: dict[int, int] = {}
        stamped: list[StampedBatch] = []
        applied: dict[TransactionStamp, tuple[AppendedRange, ...]] = {}
        txns: list[Txn] = []
        for batch, verdict in zip(self.batches, verdicts, strict=True):
            if isinstance(verdict, int):
                same = result[verdict]
                assert isinstance(same, tuple)
                result.append(Duplicate(same))
            elif verdict is not None:
                result.append(verdict)
            else:
                offset_ranges = _take_offset_ranges(batch, state, ends)
                result.append(offset_ranges)
                if batch.transaction is not None:
                    applied[batch.transaction] = offset_ranges
                if batch.stamp is not None and offset_ranges:
                    stamped.append(StampedBatch(batch.stamp, offset_ranges))
                elif batch.stamp is not None:
                    txns.append(empty_request(batch.stamp, now_ms))
        standing = [index for index, verdict in enumerate(verdicts) if verdict is None and self.batches[index].counts]
        if not standing:
            return Proposal(operation="WRITE", actions=txns, result=result)
        segment = self._stage(standing, state, state.next_offsets)
        add = add_segment(
            segment.encoded.ref(segment.path),
            segment.encoded.runs,
            modification_time_ms=max(now_ms, state.modification_time_ms + 1),
            data_change=True,
            stamped=stamped,
            columns=segment.encoded.statistics,
        )
        txns += [Txn(app_id=str(partition), version=ends[partition], last_updated=now_ms) for partition in sorted(ends)]
        floor = state.transactions.floor
        actions: list[Action] = [
            *columns_actions(state, self._staged_columns),
            tag_with_transactions(add, applied, floor),
            *txns,
            *transaction_txns(applied, floor, now_ms),
        ]
        return Proposal(operation="WRITE", actions=actions, result=result, segment=segment)

    def _judge(
        self, state: TopicState, next_offsets: Offsets, now_ms: int, *, assume_order: bool
    ) -> Sequence[_Verdict]:
        """Return a verdict on each batch at ``state``, assuming that the batches before it are appended as judged."""
        decode_deferred(batch.deferred for batch in self.batches)
        check = SequenceCheck(
            state.producers, now_ms, state.config.integer("producer.id.expiration.ms"), assume_order=assume_order
        )
        taken: dict[tuple[ProducerStamp, Counts], int] = {}
        applied: dict[str, int] = {}
        counts: dict[int, int] = {}
        columns = state.columns
        verdicts: list[_Verdict] = []
        for index, batch in enumerate(self.batches):
            verdict: _Verdict = state.incarnation_error(batch.topic_id)
            if verdict is None and state.attachment is not None:
                verdict = TopicMoved(state.topic)
            if verdict is None and batch.stamp is not None:
                same = taken.get(request_key(batch.stamp, batch.counts))
                verdict = same if same is not None else check.judge(batch.stamp, batch.counts)
                if verdict is None and not batch.counts and self._has_empty_request(batch.stamp.producer_id, taken):
                    # A commit's txn actions can name one empty request per producer; the next one waits for the next commit.
                    verdict = out_of_order_error(batch.stamp, batch.stamp.sequence - 1)
            if verdict is None and batch.transaction is not None:
                same = applied.get(batch.transaction.transaction_id)
                verdict = same if same is not None else state.transactions.judge(batch.transaction)
            if verdict is None:
                verdict = settings_error(batch, state) or expected_offset_error(batch, next_offsets, counts)
            if verdict is None and batch.columns:
                try:
                    columns = columns.merged_with(batch.columns)
                except TypeConflict as conflict:
                    verdict = _type_error(state, conflict)
            if verdict is None:
                for partition, count in batch.counts:
                    counts[partition] = counts.get(partition, 0) + count
                if batch.stamp is not None:
                    taken[request_key(batch.stamp, batch.counts)] = index
                    check.accept(batch.stamp, batch.counts)
                if batch.transaction is not None:
                    applied[batch.transaction.transaction_id] = index
            verdicts.append(verdict)
        return verdicts

    def _has_empty_request(self, producer_id: str, taken: dict[tuple[ProducerStamp, Counts], int]) -> bool:
        return any(one.producer_id == producer_id and not self.batches[i].counts for (one, _), i in taken.items())

    def _stage(self, standing: Sequence[int], state: TopicState, next_offsets: Offsets) -> StagedSegment:
        touched = sorted({partition for index in standing for partition, _ in self.batches[index].counts})
        bases = tuple((partition, int(next_offsets[partition])) for partition in touched)
        compression = state.config.choice("compression.type")
        log_append_time = state.config.choice("message.timestamp.type") == "LogAppendTime"
        batches, columns = self._typed_batches(standing, state)
        self._staged_columns = columns
        wanted = (tuple(standing), bases, compression, log_append_time, columns, state.config.subjects)
        if self._staged is None or self._staged.is_too_old or self._staged_for != wanted:
            single = batches[0].single if len(batches) == 1 else None
            if single is not None and single.size_bytes <= ONE_RECORD_BYTES_MAX and not columns:
                self.staged_records = RecordAtOffset(*bases[0], single)
                encoded = encode_single_record(self.staged_records, compression=compression)
            else:
                records = assign_offsets(batches, next_offsets, log_append_time=log_append_time, columns=columns)
                encoded = encode_segment(records, compression=compression)
                self.staged_records = readable(records)
            self._staged = StagedSegment(segment_path(self._new_id()), encoded)
            self._staged_for = wanted
        return self._staged

    def _typed_batches(self, standing: Sequence[int], state: TopicState) -> tuple[list[Batch], TypedColumns]:
        """Return the batches with the typed columns that they can have, and the typed columns of the table with them."""
        columns = state.columns
        if not state.config.subjects.are_set:
            return [self.batches[index] for index in standing], columns
        batches = [self._typed_batch(index, state) for index in standing]
        for batch in batches:
            columns = columns.merged_with(batch.columns)
        return batches, columns

    def _typed_batch(self, index: int, state: TopicState) -> Batch:
        """Return the batch with the typed columns that it can have in this topic."""
        batch, subjects = self.batches[index], state.config.subjects
        if batch.typed is not None:
            return batch
        typed = self._typed.get((index, subjects))
        if typed is None:
            typed = self._typed[index, subjects] = late_columns(
                batch.records, subjects, state.columns, self._type_records
            )
        return batch.with_typed(typed, subjects)


def settings_error(batch: Batch, state: TopicState) -> TidelogError | None:
    """Return the error if its records or the topic's settings refuse the batch, else None. Deferred records are decoded."""
    if batch.refusal is not None:
        return batch.refusal
    is_beyond = bool(batch.counts) and batch.counts[-1][0] >= state.partition_count
    if is_beyond or batch.partition_count not in {None, state.partition_count}:
        # Other gateways may already send the same keys to other partitions, so the order of the records of a key would be lost.
        return TopicReplaced(
            f"Topic {state.topic!r} was given {state.partition_count} partitions meanwhile.", topic=state.topic
        )
    limit = state.config.integer("max.message.bytes")
    if batch.record_bytes_max > limit:
        return RequestRefused(
            f"A record of {batch.record_bytes_max} bytes is above the topic's max.message.bytes, {limit}.",
            code=ErrorCode.RECORD_TOO_LARGE,
            limit_bytes=limit,
        )
    if not batch.is_promised and batch.counts and batch.subjects != state.config.subjects:
        return TopicReplaced(f"The schemas of topic {state.topic!r} were changed meanwhile.", topic=state.topic)
    if not batch.is_promised and batch.has_marks and state.config.choice("data.on.error") == "reject":
        return TopicReplaced(f"Topic {state.topic!r} refuses such records by now.", topic=state.topic)
    if state.config.needs_keys and not batch.is_promised and batch.has_null_key:
        # Records of a decided transaction and delayed records were checked when they were accepted. They can't be refused any
        # more.
        return RequestRefused(
            f"Topic {state.topic!r} is compacted by key, but a record has no key.", code=ErrorCode.INVALID_RECORD
        )
    return erasures_error(batch.erasures, state)


def columns_error(batch: Batch, state: TopicState) -> TidelogError | None:
    """Return the error if the batch's typed columns contradict those of the topic's table, else None."""
    if batch.typed is None:
        return None
    try:
        state.columns.merged_with(batch.columns)
    except TypeConflict as conflict:
        return _type_error(state, conflict)
    return None


def expected_offset_error(
    batch: AppendRequest, next_offsets: Offsets, counts: Mapping[int, int]
) -> TidelogError | None:
    """Return the error if the batch would not get its ``expected_offset``, else None.

    Args:
        batch: the batch, of at most one partition when it has an ``expected_offset``.
        next_offsets: each partition's next offset before the flush.
        counts: partition -> records that earlier batches of the flush append.
    """
    if batch.expected_offset is None or not batch.counts:
        return None
    ((partition, _),) = batch.counts
    actual = int(next_offsets[partition]) + counts.get(partition, 0)
    if actual == batch.expected_offset:
        return None
    return RequestRefused(
        f"The next offset of partition {partition} is {actual}, not {batch.expected_offset} as expected.",
        code=ErrorCode.EXPECTED_OFFSET_MISMATCH,
        expected=batch.expected_offset,
        actual=actual,
    )


def _type_error(state: TopicState, conflict: TypeConflict) -> TidelogError:
    """Return the error about records whose schema contradicts the topic's columns."""
    return RequestRefused(
        f"The records' schema does not fit the columns of topic {state.topic!r}: {conflict}. A column keeps its type: use a "
        "new member, or a new topic.",
        code=ErrorCode.INVALID_RECORD,
    )


def _take_offset_ranges(batch: Batch, state: TopicState, ends: dict[int, int]) -> tuple[AppendedRange, ...]:
    """Return the offset ranges of the batch's records, and raise the partitions' next offsets in ``ends`` accordingly."""
    offset_ranges = []
    for partition, count in batch.counts:
        base = ends.get(partition)
        if base is None:
            base = state.high_watermark(partition)
        offset_ranges.append(AppendedRange(partition, base, count))
        ends[partition] = base + count
    return tuple(offset_ranges)


def assign_offsets(
    batches: Sequence[Batch], next_offsets: Offsets, *, log_append_time: bool, columns: TypedColumns = NO_TYPED_COLUMNS
) -> pa.Table:
    """Return all records with their offsets, sorted by partition and arrival: ``RECORD_SCHEMA`` and the typed columns.

    Args:
        batches: at least one, in order of arrival.
        next_offsets: each partition's next offset.
        log_append_time: whether the topic has ``LogAppendTime``.
        columns: typed columns of the records.
    """
    if len(batches) > 1 and all(len(batch.counts) == 1 for batch in batches):
        batches = sorted(batches, key=lambda batch: batch.counts[0][0])  # cheaper than sorting their records
    timed = {batches[0].topic_id} if log_append_time else ()
    records, partitions = concatenate_records(batches, log_append_time=timed, columns=columns)
    if len({partition for batch in batches for partition, _ in batch.counts}) == 1:
        base = int(next_offsets[partitions[0]])
        offsets = np.arange(base, base + len(partitions), dtype=np.int64)
    else:
        if (partitions[1:] < partitions[:-1]).any():
            # Partition numbers fit 16 bits. For those, numpy's stable sort is a radix sort.
            order = np.argsort(partitions.astype(np.int16), kind="stable")
            records = records.take(pa.array(order))
            partitions = partitions[order]
        touched, starts = np.unique(partitions, return_index=True)
        lengths = np.diff(np.append(starts, len(partitions)))
        offsets = np.arange(len(partitions), dtype=np.int64) + np.repeat(next_offsets[touched] - starts, lengths)
    places = [pa.array(partitions, pa.int32()), pa.array(offsets, pa.int64())]
    return pa.Table.from_arrays([*places, *records.columns], schema=record_schema(columns))
