"""Typed columns of records that were accepted before they could have any: of a decided transaction, delayed, or at a journal.

They can't be refused any more. Those that don't fit are marked, and so are those that no schema can judge. They wait while the
registry can't be read.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from log_format.records.typed_columns import DATA_ERROR, NOT_JUDGED, TypeConflict, TypedColumns, typed_columns
from log_format.topic.config import Subjects

TypeRecords = Callable[[Subjects, pa.Table], pa.Table | None]
"""Function that returns the typed columns of records, those that don't fit marked; None if the subjects can't judge any.

Called in any thread. Raises ``BackOff`` if the registry can't be read.
"""


def late_columns(
    records: pa.Table, subjects: Subjects, columns: TypedColumns, type_records: TypeRecords | None
) -> pa.Table:
    """Return the typed columns of the records. Raises ``BackOff`` as ``type_records``.

    Args:
        records: records without typed columns.
        subjects: the topic's.
        columns: the table's typed columns.
        type_records: judges the records; None: nobody can.
    """
    found = None if type_records is None else type_records(subjects, records)
    return _unjudged(records.num_rows, columns) if found is None or not _fit(columns, found) else found


def _unjudged(count: int, columns: TypedColumns) -> pa.Table:
    """Return typed columns of records that can't be judged: null, with the reason."""
    why = pa.scalar(NOT_JUDGED, pa.string())
    fields = columns.fields()
    values = [pa.repeat(why, count) if one.name == DATA_ERROR else pa.nulls(count, one.type) for one in fields]
    return pa.Table.from_arrays(values, schema=pa.schema(fields))


def _fit(columns: TypedColumns, typed: pa.Table) -> bool:
    try:
        columns.merged_with(typed_columns(typed.schema))
    except TypeConflict:
        return False
    return True
