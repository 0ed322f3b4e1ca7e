"""Values that a table leaves out: where ``value`` is null and ``data`` is not, the value is the document of the columns.

1. It is the document with null members left out, so it can be made without a schema, and stays the same when the table gets
   further columns.
2. A tombstone has neither a value nor columns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.records.canonical_json import bytes_at_most_within, render
from log_format.records.typed_columns import DATA, without_typed_columns


def are_left_out(records: pa.Table) -> pa.Array | None:
    """Return which records' values are left out; None if none is. ``records`` may have the column ``data``."""
    if DATA not in records.column_names:
        return None
    values, data = records.column("value"), records.column(DATA)
    if not values.null_count or data.null_count == len(data):
        return None
    if values.null_count == len(values) and not data.null_count:
        return pa.repeat(True, len(values))
    found = pc.and_(pc.is_null(values), pc.is_valid(data))
    return found.combine_chunks() if pc.any(found).as_py() else None


def are_tombstones(records: pa.Table) -> pa.Array:
    """Return which records have no value, not even one that is left out."""
    nulls = pc.is_null(records.column("value")).combine_chunks()
    left_out = are_left_out(records)
    return nulls if left_out is None else pc.and_not(nulls, left_out)


def with_values(records: pa.Table) -> pa.Table:
    """Return the records with every value, and without ``data``."""
    return with_values_stored(records).drop_columns([DATA]) if DATA in records.column_names else records


def with_values_stored(records: pa.Table) -> pa.Table:
    """Return the records with the values that were left out, rendered from ``data``: it may be changed or dropped afterwards."""
    left_out = are_left_out(records)
    if left_out is None:
        return records
    data = records.column(DATA).combine_chunks()
    documents = render(data if left_out.true_count == len(left_out) else data.filter(left_out))
    if len(documents) < len(left_out):
        documents = pc.replace_with_mask(records.column("value").combine_chunks(), left_out, documents)
    at = records.schema.get_field_index("value")
    return records.set_column(at, records.schema.field(at), documents)


def without_values(records: pa.Table, left_out: npt.NDArray[np.bool_]) -> pa.Table:
    """Return the records without the values that are to be left out."""
    at = records.schema.get_field_index("value")
    field = records.schema.field(at)
    if left_out.all():
        return records.set_column(at, field, pa.nulls(records.num_rows, field.type))
    values = records.column(at).combine_chunks().filter(pa.array(~left_out))
    places = pa.array(np.cumsum(~left_out) - 1, mask=left_out)
    return records.set_column(at, field, values.take(places))


def readable(records: pa.Table) -> pa.Table:
    """Return the records with the columns of every topic, and ``data`` if values are left out, as ``with_values`` needs it."""
    plain = without_typed_columns(records)
    if are_left_out(records) is None:
        return plain
    return plain.append_column(records.schema.field(DATA), records.column(DATA))


def left_out_bytes(records: pa.Table) -> int:
    """Return an upper bound of the bytes of all values that are left out."""
    return int(left_out_bytes_within(records, np.zeros(1, np.int64))[0])


def left_out_bytes_within(records: pa.Table, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return an upper bound of the bytes of the values that are left out of the records from each start to the next one."""
    left_out = are_left_out(records)
    if left_out is None:
        return np.zeros(len(starts), np.int64)
    data, bounds = records.column(DATA).combine_chunks(), np.append(starts, records.num_rows)
    if left_out.true_count < len(left_out):
        data = data.filter(left_out)
        bounds = np.append(0, np.cumsum(left_out.to_numpy(zero_copy_only=False)))[bounds]
    return bytes_at_most_within(data, bounds)
