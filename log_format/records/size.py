"""The size of a record, as every limit counts it: the bytes of key, value and headers (docs/format.md, section 3).

``head_within`` cuts records at such a limit.

A null value and an empty one count nothing. A header counts the UTF-8 bytes of its key and the bytes of its value. Empty headers
take memory, too: beyond the first ``HEADERS_FREE`` headers of a record, they count at least ``HEADER_BYTES_MIN`` each.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.limits import HEADER_BYTES_MIN, HEADERS_FREE

SMALL_TABLE_RECORDS: Final = 4
"""Number of records up to which measuring them one by one is cheaper than the array form."""


def record_bytes(records: pa.Table) -> npt.NDArray[np.int64]:
    """Return the size of each record: an int64 array as long as ``records``, which has ``key``, ``value`` and ``headers``."""
    sizes = np.zeros(records.num_rows, dtype=np.int64)
    for name in ("key", "value"):
        column = records.column(name)
        if column.null_count != len(column):
            sizes += _lengths(pc.binary_length(column))
    headers = records.column("headers")
    if headers.null_count != len(headers):
        sizes += np.concatenate([_header_bytes(chunk) for chunk in headers.chunks])
    return sizes


def largest_record_bytes(records: pa.Table) -> int:
    """Return the size of the largest of ``records``, of which there is at least one."""
    headers = records.column("headers")
    if records.num_rows <= SMALL_TABLE_RECORDS and headers.null_count == len(headers):
        return max(
            sum(map(_length, record))
            for record in zip(*(records.column(name) for name in ("key", "value")), strict=True)
        )
    return int(record_bytes(records).max())


def all_record_bytes(records: pa.Table) -> int:
    """Return the total size of ``records``."""
    headers = records.column("headers")
    if records.num_rows <= SMALL_TABLE_RECORDS and headers.null_count == len(headers):
        return sum(_length(scalar) for name in ("key", "value") for scalar in records.column(name))
    return int(record_bytes(records).sum())


def record_bytes_at_most(records: pa.Table) -> int:
    """Return an upper bound of the total size of ``records``, without reading each one."""
    # An empty header takes at least 8 bytes of its column.
    return int(records.nbytes + records.column("headers").nbytes)


def head_within(table: pa.Table, *, bytes_max: int, records_max: int) -> pa.Table:
    """Return the longest head of ``table`` within both limits, but at least one record if there is one.

    Args:
        table: has ``key``, ``value`` and ``headers``. The result is a slice of it, without a copy.
        bytes_max: limit, counted as by ``record_bytes``.
        records_max: limit, at least 1. Raises ``ValueError`` for less.
    """
    if records_max < 1:
        raise ValueError(f"records_max is {records_max}, not at least 1")
    head = table.slice(0, records_max)
    if head.num_rows <= 1 or record_bytes_at_most(head) <= bytes_max:
        return head
    fitting = int(np.searchsorted(np.cumsum(record_bytes(head)), bytes_max, side="right"))
    return head.slice(0, max(1, fitting))


def _length(scalar: pa.BinaryScalar) -> int:
    buffer = scalar.as_buffer()
    return 0 if buffer is None else int(buffer.size)


def _lengths(lengths: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
    if lengths.null_count:
        lengths = pc.fill_null(lengths, 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False)).astype(np.int64)


def _header_bytes(headers: pa.ListArray) -> npt.NDArray[np.int64]:
    """Return the size of each record's headers, for one chunk."""
    # ``flatten`` skips elements of null lists and outside a slice; the lists' lengths assign the others to records.
    elements = headers.flatten()
    if len(elements) == 0:
        return np.zeros(len(headers), dtype=np.int64)
    counts = _lengths(pc.list_value_length(headers))
    ends = np.cumsum(counts)
    key, value = elements.flatten()
    totals = np.zeros(len(elements) + 1, dtype=np.int64)
    np.cumsum(_lengths(pc.binary_length(key)) + _lengths(pc.binary_length(value)), out=totals[1:])
    return np.maximum(np.diff(totals[ends], prepend=0), (counts - HEADERS_FREE) * HEADER_BYTES_MIN)
