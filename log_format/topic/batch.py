"""Batches, and their conversion to one table. A batch is the routed records of one request for one topic."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from log_format.errors import TidelogError
from log_format.records.deferred import Decoded, DeferredRecords
from log_format.records.document_schemas import DocumentSchemas, read_note
from log_format.records.left_out import with_values
from log_format.records.schema import BATCH_SCHEMA
from log_format.records.single import SingleRecord, records_to_table
from log_format.records.typed_columns import (
    DATA,
    DATA_ERROR,
    NO_TYPED_COLUMNS,
    TypedColumns,
    batch_schema,
    typed_columns,
    with_typed_columns,
)
from log_format.topic.applied_transactions import TransactionStamp
from log_format.topic.config import UNTYPED, Subjects
from log_format.topic.producer_id import PUBLISHER
from log_format.topic.producers import ProducerStamp

Partitions = npt.NDArray[np.int32]


class Batch:
    """The records of one request, each with its partition.

    Args:
        topic_id: incarnation that the records were routed for.
        records: ``BATCH_SCHEMA`` without null timestamps; or a single record with its timestamp; or records that the flush
            decodes, and may refuse (``decode_deferred``).
        partitions: each row's partition (int32, same length), or one partition for all rows. A single record needs the latter,
            and so do deferred ones.
        record_bytes_max: size of the largest record (key, value and headers); of deferred records 0, since they tell it.
        partition_count: the topic's partition count when partitions were chosen; None if the request named them.
        stamp: makes the batch idempotent. Only a stamped batch may be without records; it uses up its sequence all the same. A
            Kafka client's stamp belongs to records of a single partition.
        expected_offset: append the batch only if this is the next offset of its one partition.
        transaction: decided transaction; the batch has all its records for this topic, and is appended once.
        append_time_ms: timestamp for the records of a topic with ``LogAppendTime``; None if they already have it.
        typed: the records' typed columns, where the records were checked by schemas.
        subjects: the subjects of these schemas.
        erasures: ids of the topic's requests to erase that the records were chosen by; None: none has to be known.
        has_left_out: whether ``records`` have no value where the topic's table leaves it out (``left_out``).
        original: the records of the batch's one partition as their producer encoded them, kept for readers of that encoding.
    """

    __slots__ = (
        "_nbytes",
        "_partitions",
        "_record_bytes_max",
        "_records",
        "append_time_ms",
        "counts",
        "deferred",
        "erasures",
        "expected_offset",
        "has_left_out",
        "original",
        "partition_count",
        "single",
        "stamp",
        "subjects",
        "topic_id",
        "transaction",
        "typed",
    )

    def __init__(
        self,
        *,
        topic_id: str,
        records: pa.Table | SingleRecord | DeferredRecords,
        partitions: Partitions | int,
        record_bytes_max: int,
        partition_count: int | None = None,
        stamp: ProducerStamp | None = None,
        expected_offset: int | None = None,
        transaction: TransactionStamp | None = None,
        append_time_ms: int | None = None,
        original: bytes | memoryview | None = None,
        typed: pa.Table | None = None,
        subjects: Subjects = UNTYPED,
        has_left_out: bool = False,
        erasures: frozenset[str] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.single: SingleRecord | None = None
        self.deferred: DeferredRecords | None = None
        self._records: pa.Table | None = None
        self._partitions: Partitions | None = None
        self._nbytes: int | None = None
        self.counts: tuple[tuple[int, int], ...]
        """(partition, count) of each partition with records, sorted by partition."""
        if isinstance(records, SingleRecord):
            assert isinstance(partitions, int)
            assert records.timestamp_ms is not None
            assert append_time_ms is None
            self.single = records
            self.counts = ((partitions, 1),)
        elif isinstance(records, DeferredRecords):
            assert isinstance(partitions, int)
            assert append_time_ms is None
            assert typed is None
            self.deferred = records
            self.counts = ((partitions, records.count),)
        elif isinstance(partitions, int):
            assert records.num_rows
            self._records = records
            self.counts = ((partitions, records.num_rows),)
        else:
            assert records.num_rows == len(partitions)
            assert records.num_rows or stamp is not None
            self._records, self._partitions = records, partitions
            self.counts = _counts(partitions)
        self.partition_count = partition_count
        self._record_bytes_max = record_bytes_max
        self.stamp = stamp
        self.expected_offset = expected_offset
        self.transaction = transaction
        self.append_time_ms = append_time_ms
        self.original = original
        assert (typed is not None) == subjects.are_set
        self.typed = typed
        self.subjects = subjects
        self.has_left_out = has_left_out
        self.erasures = erasures

    @property
    def stored(self) -> pa.Table:
        """Records as the topic's table has them besides the typed columns. The table of a single record is made at the first
        use."""
        if self._records is None and self.deferred is not None:
            assert isinstance(self.deferred.outcome, Decoded)
            return self.deferred.outcome.table
        if self._records is None:
            assert self.single is not None
            self._records = records_to_table([self.single])
        return self._records

    @property
    def refusal(self) -> TidelogError | None:
        """Why the records, which were deferred and are decoded now, can't be appended; None: they can."""
        outcome = None if self.deferred is None else self.deferred.outcome
        return outcome if isinstance(outcome, TidelogError) else None

    @property
    def record_bytes_max(self) -> int:
        """Size of the largest record."""
        outcome = None if self.deferred is None else self.deferred.outcome
        return outcome.largest_bytes if isinstance(outcome, Decoded) else self._record_bytes_max

    @property
    def newest_ms(self) -> int | None:
        """The later of the first and the last record's timestamps, in ms; None for no records. Of deferred records the largest
        one that their sender tells."""
        if self.single is not None:
            return self.single.timestamp_ms
        if self.deferred is not None:
            return self.deferred.newest_ms
        times = self.stored.column("timestamp")
        return max(times[0].value, times[-1].value) // 1000 if len(times) else None

    @property
    def records(self) -> pa.Table:
        """Records as a table, with all values: those that are left out are made, which takes a moment."""
        if not self.has_left_out or self.typed is None:
            return self.stored
        return with_values(self.stored.append_column(DATA, self.typed.column(DATA)))

    def with_typed(self, typed: pa.Table, subjects: Subjects) -> Batch:
        """Return the same batch with these typed columns of its records."""
        found = copy.copy(self)
        found.typed, found.subjects, found._nbytes = typed, subjects, None
        return found

    @property
    def columns(self) -> TypedColumns:
        """Typed columns of the records."""
        return NO_TYPED_COLUMNS if self.typed is None else typed_columns(self.typed.schema)

    @property
    def document_schemas(self) -> DocumentSchemas:
        """Schemas by which the records that are JSON documents were judged."""
        return read_note(self.typed)

    @property
    def partitions(self) -> Partitions:
        """Partition of each row."""
        if self._partitions is None:
            ((partition, count),) = self.counts
            self._partitions = np.full(count, partition, np.int32)
        return self._partitions

    @property
    def nbytes(self) -> int:
        """Size of the records as an Arrow table, in bytes; an estimate for a single record, and for deferred ones."""
        if self.deferred is not None:
            return self.deferred.nbytes
        if self._nbytes is None:
            plain = self.stored.nbytes if self.single is None else self.single.nbytes
            self._nbytes = plain + (0 if self.typed is None else self.typed.nbytes)
        return self._nbytes

    @property
    def record_count(self) -> int:
        """Number of records."""
        return 1 if self.single is not None else sum(count for _, count in self.counts)

    @property
    def has_null_key(self) -> bool:
        """Whether at least one record has no key."""
        if self.single is not None:
            return self.single.key is None
        return bool(self.stored.column("key").null_count)

    @property
    def is_publication(self) -> bool:
        """Whether the batch publishes delayed records that are due. They were accepted earlier, and wait for no others."""
        return self.stamp is not None and self.stamp.producer_id == PUBLISHER

    @property
    def has_marks(self) -> bool:
        """Whether a record has no columns, and the reason, since no schema of the topic allows it."""
        return self.typed is not None and self.typed.column(DATA_ERROR).null_count < self.typed.num_rows

    @property
    def is_promised(self) -> bool:
        """Whether the records were accepted earlier, so that they can't be refused any more."""
        return self.transaction is not None or self.is_publication


def concatenate_records(
    batches: Sequence[Batch], *, log_append_time: Collection[str], columns: TypedColumns = NO_TYPED_COLUMNS
) -> tuple[pa.Table, Partitions]:
    """Concatenate the records of all batches in the order given.

    Args:
        batches: at least one. Adjacent single records become one table, also those of different topics.
        log_append_time: ids of the topics with ``LogAppendTime``.
        columns: typed columns of the records; they have all that the batches have, or none.

    Returns:
        The records, and the partition of each.
    """
    tables: list[pa.Table] = []
    typed: list[pa.Table] = []
    partitions: list[Partitions] = []
    for are_single, some in groupby(batches, lambda batch: batch.single is not None and batch.typed is None):
        if are_single:
            singles = list(some)
            tables.append(records_to_table([batch.single for batch in singles if batch.single is not None]))
            if columns:
                typed.append(_typed_part(None, len(singles), columns))
            partitions.append(np.array([batch.counts[0][0] for batch in singles], np.int32))
        else:
            for batch in some:
                table = batch.stored if columns else batch.records
                if batch.topic_id in log_append_time:
                    table = _at_append_time(table, batch.append_time_ms)
                tables.append(table)
                if columns:
                    typed.append(_typed_part(batch.typed, table.num_rows, columns))
                partitions.append(batch.partitions)
    records = pa.concat_tables(tables).combine_chunks()
    if columns:
        together = pa.concat_tables(typed).combine_chunks()
        records = pa.Table.from_arrays([*records.columns, *together.columns], schema=batch_schema(columns))
    return records, partitions[0] if len(partitions) == 1 else np.concatenate(partitions)


def _typed_part(typed: pa.Table | None, count: int, columns: TypedColumns) -> pa.Table:
    """Return exactly these typed columns, of which ``typed`` has the values; what it lacks is null."""
    schema = pa.schema(columns.fields())
    if typed is None:
        return pa.Table.from_arrays([pa.nulls(count, field.type) for field in schema], schema=schema)
    return typed if typed.schema.equals(schema) else with_typed_columns(typed, columns)


def with_typed(records: pa.Table, typed: pa.Table | None, columns: TypedColumns) -> pa.Table:
    """Return the records with these typed columns, of which ``typed`` has the values; what it lacks is null."""
    if typed is not None:
        for name in typed.schema.names:
            records = records.append_column(typed.schema.field(name), typed.column(name))
    return with_typed_columns(records, columns)


def records_at_append_time(batch: Batch) -> pa.Table:
    """Return the batch's records; if the batch has an append time, that is the timestamp of each."""
    return _at_append_time(batch.records, batch.append_time_ms)


def _at_append_time(records: pa.Table, time_ms: int | None) -> pa.Table:
    if time_ms is None:
        return records
    field = BATCH_SCHEMA.field("timestamp")
    time = pa.scalar(time_ms * 1000, pa.int64()).cast(field.type)
    return records.set_column(0, field, pa.repeat(time, records.num_rows))


def _counts(partitions: Partitions) -> tuple[tuple[int, int], ...]:
    if len(partitions) < 2:
        return tuple((int(partition), 1) for partition in partitions)
    counts = np.bincount(partitions)
    touched = np.flatnonzero(counts)
    return tuple(zip(touched.tolist(), counts[touched].tolist(), strict=True))
