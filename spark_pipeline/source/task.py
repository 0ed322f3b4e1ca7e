"""A task: reads its ranges as Arrow batches with the query's columns."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from log_format.errors import CorruptData, ObjectMissing
from log_format.records.filter import RecordFilter
from log_format.records.typed_columns import TYPED_NAMES, TypeConflict
from spark_pipeline.source.plan import SegmentPart
from spark_pipeline.source.read_ahead import read_ahead
from spark_pipeline.source.reading import part_reader
from spark_pipeline.source.relocation import relocate_part, remaining_ranges
from spark_pipeline.store_access import topic_log
from spark_pipeline.vended import VendedStore

_log = logging.getLogger("spark_pipeline.source")

BATCH_ROWS: Final = 65_536
"""Maximum records in one Arrow batch: enough to make its overhead negligible, few enough to be in memory twice."""

JOINED_ROWS_MIN: Final = 4_096
"""Size below which batches are joined: a journal's object has a few records of each of many topics."""

LOOKS_MAX: Final = 5
"""Number of times that a task searches for the same records: more would mean that maintenance deletes what it has just
written."""


class ColumnsContradict(RuntimeError):
    """The columns of a topic have other types than the query's: it was made anew, or the query reads it beside another topic."""


class ReadTask(InputPartition):
    """Input of a task. Pickled with the plan, so it says where records are, and not how to open the store."""

    def __init__(
        self,
        parts: tuple[SegmentPart, ...],
        record_filter: RecordFilter | None = None,
    ) -> None:
        """Create the task. ``record_filter``: only records that match it."""
        super().__init__(None)
        self.parts = parts
        self.record_filter = record_filter


def read_task(
    task: InputPartition, store: str | VendedStore, schema: StructType, *, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the task's records with the columns of ``schema``. Unreadable records are skipped unless ``fail_on_data_loss``.

    The next records are fetched and decoded while Spark consumes the current ones. Raises ``CorruptData``, ``DataLoss``,
    ``StoreUnavailable`` during iteration.
    """
    if not isinstance(task, ReadTask):
        return  # Spark invents a task for an empty plan
    columns = to_arrow_schema(schema, timezone="UTC")
    tables = read_ahead(_tables(task, store, columns, fail_on_data_loss=fail_on_data_loss))
    for by_journal, some in groupby(tables, lambda each: each[1].journal is not None):
        batches = (batch for records, part in some for batch in _batches(records, part, columns))
        yield from _join_small_batches(batches) if by_journal else batches


def _tables(
    task: ReadTask, store: str | VendedStore, schema: pa.Schema, *, fail_on_data_loss: bool
) -> Iterator[tuple[pa.Table, SegmentPart]]:
    """Yield the task's records in tables, each with its part.

    If a part's segment is gone, the task searches for the records elsewhere.
    """
    reader = part_reader(store)
    columns = [*schema.names, *(name for name in _filter_columns(task) if name not in schema.names)]
    typed = [field for field in schema if field.name in TYPED_NAMES]
    parts = deque((part, 0) for part in task.parts)
    while parts:
        part, looks = parts.popleft()
        left = part.ranges
        try:
            for records in reader.scan(part, left, columns=columns, typed=typed):
                wanted = task.record_filter
                passing = records if wanted is None else records.filter(pa.array(wanted.mask(records)))
                if passing.num_rows:
                    yield passing, part
                left = remaining_ranges(left, *(records.column(name)[-1].as_py() for name in ("partition", "offset")))
        except TypeConflict as problem:
            raise ColumnsContradict(f"Topic {part.topic!r} has other columns than the query: {problem}.") from problem
        except CorruptData as problem:
            if not isinstance(problem.__cause__, ObjectMissing):
                raise
            elsewhere = None
            if looks < LOOKS_MAX:
                log = topic_log(store, part.topic)
                elsewhere = relocate_part(log, part, left, fail_on_data_loss=fail_on_data_loss)
            if elsewhere is not None:
                parts.extendleft((each, looks + 1) for each in reversed(elsewhere))
            elif fail_on_data_loss:
                raise
            else:
                _log.warning("%s Going on without it (failOnDataLoss is false).", problem.detail)


def _filter_columns(task: ReadTask) -> Iterator[str]:
    """Yield the columns that the task's filter reads."""
    if task.record_filter is not None and task.record_filter.key is not None:
        yield "key"
    if task.record_filter is not None and task.record_filter.headers:
        yield "headers"


def _join_small_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same records in the same order, with small batches joined: each batch costs Spark as much as some hundred
    records."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= JOINED_ROWS_MIN:
            yield from _concatenate(waiting)
            waiting, rows = [], 0
    yield from _concatenate(waiting)


def _concatenate(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    # Only the last batch can be large: it is not copied.
    small = batches[:-1] if batches[-1].num_rows >= JOINED_ROWS_MIN else batches
    return [pa.concat_batches(small), *batches[len(small) :]]


def _batches(records: pa.Table, part: SegmentPart, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    constants = {"topic": part.topic, "timestampType": part.timestamp_type}
    stored = records.select([name for name in columns.names if name not in constants])
    # A table without columns has no batches; the offset column gives the number of records.
    for batch in (stored if stored.num_columns else records.select(["offset"])).to_batches(max_chunksize=BATCH_ROWS):
        arrays = [
            pa.repeat(pa.scalar(constants[field.name], field.type), batch.num_rows)
            if field.name in constants
            else batch.column(field.name)
            for field in columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=columns)
