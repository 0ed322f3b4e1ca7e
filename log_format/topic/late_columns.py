"""Typed columns of records that were accepted before they could have any: of a decided transaction, or delayed.

They can't be refused any more. Those that don't fit are marked, and so are those that nobody can judge.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from log_format.records.typed_columns import DATA_ERROR, TypeConflict, TypedColumns, typed_columns
from log_format.topic.batch import Batch
from log_format.topic.config import Subjects

TypeRecords = Callable[[Subjects, pa.Table], pa.Table | None]
"""Function that returns the typed columns of records, those that don't fit marked; None if it does not know the schemas."""


def late_columns(batch: Batch, subjects: Subjects, columns: TypedColumns, type_records: TypeRecords | None) -> pa.Table:
    """Return the typed columns of the batch's records.

    Args:
        batch: records without typed columns.
        subjects: the topic's.
        columns: the table's typed columns.
        type_records: judges the records; None: nobody can.
    """
    found = None if type_records is None else type_records(subjects, batch.records)
    return _unjudged(batch, columns) if found is None or not _fit(columns, found) else found


def _unjudged(batch: Batch, columns: TypedColumns) -> pa.Table:
    """Return typed columns of records that can't be judged: null, with the reason."""
    why = pa.scalar("the topic's schemas were not known when the record was appended", pa.string())
    count = batch.record_count
    fields = columns.fields()
    values = [pa.repeat(why, count) if one.name == DATA_ERROR else pa.nulls(count, one.type) for one in fields]
    return pa.Table.from_arrays(values, schema=pa.schema(fields))


def _fit(columns: TypedColumns, typed: pa.Table) -> bool:
    try:
        columns.merged_with(typed_columns(typed.schema))
    except TypeConflict:
        return False
    return True
