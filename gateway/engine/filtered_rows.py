"""One step of a filtered read: the rows that pass the filter and fit the reader's limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.engine.bounds import LOOK_STEP_BYTES, LOOK_STEP_RECORDS
from log_format.records.filter import RecordFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredRows:
    """Result of one step. ``records`` are copies unless all rows pass, so they keep no other rows in memory."""

    records: pa.Table
    size_bytes: int
    """Bytes of the records' keys, values and headers."""
    looked_count: int
    """Number of rows that the reader is done with."""
    looked_bytes: int
    is_full: bool
    """Whether the next row passes and does not fit."""


def filter_rows(
    wanted: RecordFilter,
    table: pa.Table,
    size_sums: npt.NDArray[np.int64],
    rows: range,
    *,
    records_max: int,
    bytes_max: int,
    at_least_one: bool,
) -> FilteredRows:
    """Apply the filter to the first of ``rows``, as many as one step takes; ``rows`` is not empty.

    Args:
        table: records of ``RECORD_SCHEMA``.
        size_sums: bytes of all records before row i.
        at_least_one: whether the first row that passes fits whatever its size.
    """
    first = rows.start
    step = int(np.searchsorted(size_sums, size_sums[first] + LOOK_STEP_BYTES, side="right")) - 1
    stop = min(rows.stop, first + LOOK_STEP_RECORDS, max(first + 1, step))
    looked = table.slice(first, stop - first)
    found = np.flatnonzero(wanted.mask(looked))
    sizes = size_sums[first + found + 1] - size_sums[first + found]
    fitting = min(int(np.searchsorted(np.cumsum(sizes), bytes_max, side="right")), records_max)
    if at_least_one and len(found):
        fitting = max(fitting, 1)
    is_full = fitting < len(found)
    if is_full:
        stop = first + int(found[fitting])
    return FilteredRows(
        records=looked if fitting == len(rows) else looked.take(pa.array(found[:fitting])),
        size_bytes=int(sizes[:fitting].sum()),
        looked_count=stop - first,
        looked_bytes=int(size_sums[stop] - size_sums[first]),
        is_full=is_full,
    )
