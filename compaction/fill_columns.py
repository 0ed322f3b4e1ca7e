"""Typed columns for records that were stored without: they are judged by their topic's schemas, as at the door.

Nothing else of a record changes. A record that is not of its schemas is marked in ``data_error``, never refused. Records that
have columns, or a reason why not, keep them.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from log_format.clock import SystemClock
from log_format.errors import BackOff
from log_format.records.left_out import with_values_stored
from log_format.records.typed_columns import (
    DATA,
    DATA_ERROR,
    KEY_DATA,
    TypeConflict,
    TypedColumns,
    are_unjudged,
    conform,
    typed_columns,
    with_typed_columns,
)
from log_format.schemas.columns.codec import RecordReaders
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.store import ObjectStore
from log_format.topic.config import Subjects


def typed_names(subjects: Subjects) -> tuple[str, ...]:
    """Return the typed columns of a topic with these subjects, without ``data_error``."""
    return tuple(name for name, subject in ((DATA, subjects.value), (KEY_DATA, subjects.key)) if subject)


def open_readers(store: ObjectStore, subjects: Subjects, columns: TypedColumns) -> tuple[RecordReaders, TypedColumns]:
    """Return the readers of the subjects by the registry's table in the store, and ``columns`` with all that they give.

    Raises ``RequestRefused`` if columns can't have the schemas, ``BackOff`` if the table's columns contradict them,
    ``StoreUnavailable``, ``CorruptData``.
    """
    readers = StoredReaders(store, SystemClock()).newest(subjects)
    try:
        return readers, columns.merged_with(readers.columns)
    except TypeConflict as conflict:
        raise BackOff(f"The schemas of {subjects} do not fit the table's columns: {conflict}.") from conflict


def fill_columns(records: pa.Table, readers: RecordReaders, judged: Collection[str]) -> pa.Table:
    """Return the records (``RECORD_SCHEMA`` and typed columns), those without typed columns judged by the readers.

    ``judged``: typed columns by whose schemas all the records were judged before; for these nothing is done.
    """
    readers = RecordReaders(
        None if DATA in judged else readers.value,
        None if KEY_DATA in judged else readers.key,
    )
    if not readers.columns or not records.num_rows:
        return records
    columns = typed_columns(records.schema).merged_with(readers.columns)
    records = with_typed_columns(records, columns)
    names = [field.name for field in readers.columns.fields() if field.name != DATA_ERROR]
    missing = [one.to_numpy() for name in names if (one := are_unjudged(records, name)) is not None]
    if not missing:
        return records
    is_missing = np.logical_or.reduce(missing)
    if is_missing.all():
        return _judge(records, readers)
    rows = np.flatnonzero(is_missing)
    parts = [records.filter(pa.array(~is_missing)), _judge(records.take(pa.array(rows)), readers)]
    order = np.argsort(np.concatenate([np.flatnonzero(~is_missing), rows]), kind="stable")
    return pa.concat_tables(parts).combine_chunks().take(pa.array(order))


def _judge(records: pa.Table, readers: RecordReaders) -> pa.Table:
    """Return the records with the typed columns that the readers give, and with values that were left out."""
    records = with_values_stored(records)
    typed, misfits = readers.typed(records)
    for name in typed.schema.names:
        at = records.schema.get_field_index(name)
        field = records.schema.field(at)
        records = records.set_column(at, field, conform(typed.column(name).combine_chunks(), field.type))
    if misfits:
        fits = pc.is_null(records.column(DATA_ERROR)).combine_chunks()
        for name in {DATA, KEY_DATA} & {*records.schema.names} - {*typed.schema.names}:
            at = records.schema.get_field_index(name)
            field = records.schema.field(at)
            values = pc.if_else(fits, records.column(name).combine_chunks(), pa.scalar(None, field.type))
            records = records.set_column(at, field, values)
    return records
