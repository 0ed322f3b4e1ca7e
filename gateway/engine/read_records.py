"""Limits of a read of a partition, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.engine.bounds import LOOKED_BYTES_MAX
from gateway.engine.filtered_rows import filter_rows
from gateway.engine.read_ahead import end_of_fitting
from log_format.records.filter import RecordFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """Limits of a read. ``records_max``: at least 0; ``bytes_max``: of keys, values and headers."""

    records_max: int
    bytes_max: int
    at_least_one: bool = True
    """Whether the first record is taken whatever its size; False if the answer has a record already."""
    store_until_ms: int | None = None
    """Monotonic time after which only the first record is still read from the store; None: ``cold_read_ms_max`` from now."""
    filter: RecordFilter | None = None
    """Filter of the wanted records; None: all."""
    looked_bytes_max: int = LOOKED_BYTES_MAX
    """Bytes of records that the filter looks at; it may exceed this by one step."""


@dataclass(slots=True)
class Records:
    """Records read: tables of ``RECORD_SCHEMA`` in order of offset; ``size_bytes`` of keys, values and headers.

    ``next_offset``: where to go on. ``is_full``: whether a limit was reached, so that waiting would bring no more.
    """

    next_offset: int
    tables: list[pa.Table] = field(default_factory=list)
    record_count: int = 0
    size_bytes: int = 0
    is_full: bool = False
    looked_bytes: int = 0
    """Bytes of the records that a filter looked at."""

    def take(self, table: pa.Table, size_bytes: int) -> None:
        """Append records."""
        self.tables.append(table)
        self.record_count += table.num_rows
        self.size_bytes += size_bytes


def take(table: pa.Table, size_sums: npt.NDArray[np.int64], rows: range, found: Records, limits: ReadLimits) -> int:
    """Add the rows that fit to ``found``; return how many rows are done. When some are left over, ``found`` becomes full.

    ``size_sums``: bytes of all records of ``table`` before row i.
    """
    if limits.filter is not None:
        part = filter_rows(
            limits.filter,
            table,
            size_sums,
            rows,
            records_max=limits.records_max - found.record_count,
            bytes_max=limits.bytes_max - found.size_bytes,
            at_least_one=limits.at_least_one and not found.record_count,
        )
        found.is_full = part.is_full
        found.looked_bytes += part.looked_bytes
        if part.records.num_rows:
            found.take(part.records, part.size_bytes)
        return part.looked_count
    first = rows.start
    stop = end_of_fitting(
        size_sums,
        rows,
        records_max=limits.records_max - found.record_count,
        bytes_max=limits.bytes_max - found.size_bytes,
        at_least_one=limits.at_least_one and not found.record_count,
    )
    found.is_full = stop < rows.stop
    if stop > first:
        found.take(table.slice(first, stop - first), int(size_sums[stop] - size_sums[first]))
    return stop - first
