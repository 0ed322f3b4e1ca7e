"""Conversion of the accepted types of Arrow columns to the one type that is stored.

1. Sizes are summed before anything is copied (``plain_bytes``), because a column may refer to one value of a view any number of
   times. Dictionaries are in ``arrow_dictionary``.
2. The columns passed in are validated in full: nothing here reads memory beyond them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.records.schema import TIMESTAMP_MS_MAX

Mask = npt.NDArray[np.bool_]

_VIEW_WORDS: Final = 4
_UNITS_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def is_bytes(type_: pa.DataType) -> bool:
    """Return whether a column of this type holds bytes or text: plain, large, view, fixed size, or a dictionary of these."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_binary_view(type_)
        or pa.types.is_fixed_size_binary(type_)
        or pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
    )


def is_timestamp(type_: pa.DataType) -> bool:
    """Return whether a column of this type can hold timestamps."""
    return bool(pa.types.is_timestamp(type_) or pa.types.is_int64(type_))


def is_headers(type_: pa.DataType) -> bool:
    """Return whether a column of this type can hold headers: lists of structs of exactly ``key`` and ``value``."""
    if not (pa.types.is_list(type_) or pa.types.is_large_list(type_)):
        return False
    header = type_.value_type
    if not pa.types.is_struct(header) or sorted(field.name for field in header) != ["key", "value"]:
        return False
    return all(is_bytes(field.type) for field in header)


def plain_bytes(column: pa.Array) -> int:
    """Return the bytes of a column once every value is written out; not for dictionaries."""
    return int(lengths(column).sum())


def plain(column: pa.Array) -> pa.Array:
    """Return a column of bytes as plain ``binary``; not for dictionaries."""
    if pa.types.is_binary(column.type):
        return column
    if _is_view(column.type):
        column = _without_null_views(column)
    return column.cast(pa.binary())


def _is_view(type_: pa.DataType) -> bool:
    return bool(pa.types.is_binary_view(type_) or pa.types.is_string_view(type_))


def _views(column: pa.Array) -> npt.NDArray[np.int32]:
    """Return the views, four words each: the length of a value and its location, or a short value itself."""
    buffer = column.buffers()[1]
    end = column.offset + len(column)
    words = np.frombuffer(buffer if buffer is not None else b"", dtype="<i4", count=_VIEW_WORDS * end)
    return words.reshape(end, _VIEW_WORDS)


def _without_null_views(column: pa.Array) -> pa.Array:
    """Return the column with empty views at its nulls: validation accepts anything there, and a cast would follow it."""
    if not column.null_count:
        return column
    validity, _, *data = column.buffers()
    views = _views(column).copy()
    views[column.offset :][column.is_null().to_numpy(zero_copy_only=False)] = 0
    return pa.Array.from_buffers(
        column.type, len(column), [validity, pa.py_buffer(views), *data], column.null_count, column.offset
    )


def lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the length of each value; 0 for null."""
    if _is_view(column.type):
        words = _views(column)[column.offset :, 0].astype(np.int64)
        if column.null_count:
            words[column.is_null().to_numpy(zero_copy_only=False)] = 0
        return words
    return np.asarray(pc.fill_null(pc.binary_length(column), 0)).astype(np.int64)


def as_timestamps(column: pa.Array) -> tuple[pa.Array, Mask]:
    """Return whole milliseconds as int64, and a mask of those out of range, whose numbers are meaningless.

    A timestamp without a zone is UTC; fractions of a millisecond are cut off.
    """
    units_per_second = 1_000 if pa.types.is_int64(column.type) else _UNITS_PER_SECOND[column.type.unit]
    if not pa.types.is_int64(column.type):
        column = column.view(pa.int64())
    largest = ((TIMESTAMP_MS_MAX + 1) * units_per_second - 1) // 1_000
    smallest_and_largest = pc.min_max(column).as_py()
    outside = np.zeros(len(column), dtype=np.bool_)
    if column.null_count < len(column):
        if smallest_and_largest["min"] < 0 or smallest_and_largest["max"] > largest:
            wrong = pc.or_(pc.less(column, 0), pc.greater(column, min(largest, 2**63 - 1)))
            outside = wrong.fill_null(False).to_numpy(zero_copy_only=False)
            column = pc.if_else(wrong, 0, column)
        if units_per_second > 1_000:
            column = pc.divide(column, units_per_second // 1_000)
        elif units_per_second < 1_000:
            column = pc.multiply(column, 1_000)
    return column, outside


def as_partitions(column: pa.Array, partition_max: int) -> tuple[pa.Array, Mask]:
    """Return partitions as int64, and a mask of those outside ``[0, partition_max]``, whose numbers are meaningless."""
    if pa.types.is_uint64(column.type):
        wrong = pc.greater(column, pa.scalar(partition_max, pa.uint64()))
        column = pc.if_else(wrong, pa.scalar(0, pa.uint64()), column).cast(pa.int64())
    else:
        column = column.cast(pa.int64())
        wrong = pc.or_(pc.less(column, 0), pc.greater(column, partition_max))
        column = pc.if_else(wrong, 0, column)
    return column, wrong.fill_null(False).to_numpy(zero_copy_only=False)
