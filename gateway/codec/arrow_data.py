"""The column ``data`` of an Arrow stream: the members of typed values as columns, made plain.

Plain columns have no views, no large or fixed-size types, and nothing under a null list. Dictionaries are not taken: each batch
may bring its own, and validating them all would cost much more than their bytes say.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gateway.codec.arrow_columns import is_bytes

DEPTH_MAX: Final = 32
_ITEM_BYTES: Final = 8
"""Bytes of the budget that an item of a list takes besides its own: its number is only a claim of the sender."""


class Budget(Protocol):
    """Budget of bytes for columns in plain form. Both calls raise ``RequestRefused`` (413) if it is exceeded."""

    def binary(self, column: pa.ChunkedArray) -> pa.Array:
        """Return a column of bytes or text as plain ``binary``."""

    def check(self, size: int) -> None:
        """Check that so many bytes are left."""


def is_data(arrow: pa.DataType) -> bool:
    """Return whether a column of this type can hold the members of typed values."""
    return bool(pa.types.is_struct(arrow)) and _is_member(arrow, 1)


def _is_member(arrow: pa.DataType, depth: int) -> bool:
    if depth > DEPTH_MAX or pa.types.is_dictionary(arrow):
        return False
    if pa.types.is_struct(arrow):
        names = {field.name for field in arrow}
        return 0 < len(names) == arrow.num_fields and all(_is_member(field.type, depth + 1) for field in arrow)
    if pa.types.is_map(arrow):
        return _is_text(arrow.key_type) and _is_member(arrow.item_type, depth + 1)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return _is_member(arrow.value_type, depth + 1)
    return bool(
        is_bytes(arrow)
        or pa.types.is_null(arrow)
        or pa.types.is_boolean(arrow)
        or pa.types.is_integer(arrow)
        or pa.types.is_floating(arrow)
        or pa.types.is_timestamp(arrow)
        or pa.types.is_date(arrow)
        or (pa.types.is_decimal(arrow) and not pa.types.is_decimal256(arrow) and arrow.scale >= 0)
    )


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow))


def plain_data(column: pa.Array, budget: Budget) -> pa.Array:
    """Return a validated column for which ``is_data`` holds, made plain."""
    arrow = column.type
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(arrow):
        children = [plain_data(column.field(index), budget) for index in range(arrow.num_fields)]
        fields = [pa.field(one.name, child.type) for one, child in zip(arrow, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pa.types.is_nested(arrow):
        return _plain_lists(column, mask, budget)
    if is_bytes(arrow):
        found = budget.binary(pa.chunked_array([column]))
        return found.cast(pa.string()) if _is_text(arrow) else found
    if pa.types.is_decimal(arrow) and not pa.types.is_decimal128(arrow):
        return column.cast(pa.decimal128(arrow.precision, arrow.scale))
    return column.cast(pa.float32()) if pa.types.is_float16(arrow) else column


def _plain_lists(column: pa.Array, mask: pa.Array | None, budget: Budget) -> pa.Array:
    """Return lists or maps with offsets of 32 bits, of which null ones have no items."""
    is_map = pa.types.is_map(column.type)
    if is_map:
        column = _as_lists(column)
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
    budget.check(_ITEM_BYTES * int(lengths.sum()))
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    items = column.flatten()
    if not is_map:
        return pa.ListArray.from_arrays(pa.array(offsets), plain_data(items, budget), mask=mask)
    names, values = (plain_data(part, budget) for part in items.flatten())
    nullable = pa.array(offsets) if mask is None else pa.array(offsets, mask=np.append(np.asarray(mask), False))
    return pa.MapArray.from_arrays(nullable, names, values)


def _as_lists(column: pa.MapArray) -> pa.ListArray:
    entries = pa.StructArray.from_arrays([column.keys, column.items], names=["key", "value"])
    lists = pa.list_(entries.type)
    return pa.Array.from_buffers(
        lists, len(column), column.buffers()[:2], column.null_count, column.offset, children=[entries]
    )
