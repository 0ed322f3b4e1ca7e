"""Dates, timestamps and decimals in documents that Arrow parses in bulk: only the forms that a document alone may have.

Arrow's parser takes more: numbers for dates, ``2026-01-31T23`` for timestamps, ``+1``, ``.5`` and ``01`` for decimals. So dates
and timestamps are parsed as texts first, and a document with a number that Arrow alone would take is judged alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["has_decimals", "has_its_digits", "has_odd_number", "parsed_type", "with_times"]

_MOMENT: Final = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)?$"
_ZONE: Final = r"(?:Z|[+-]\d\d:\d\d)$"
_MOMENT_LENGTH_MIN: Final = len("2026-01-31T23:59:59Z")
"""Shortest text with a Z that Arrow takes for a timestamp and that has seconds."""
_ODD_NUMBER: Final = r'"(?:[+.]|-[+.]|-?0[0-9]|-?[0-9]+\.["eE]|[-+.0-9eE]*\\u00[2-6])'
"""A text that begins as a number of Arrow's and none of JSON's, or may do so by an escape."""


def parsed_type(arrow: pa.DataType) -> pa.DataType:
    """Return the type to parse documents by: texts for dates and timestamps."""
    if pa.types.is_temporal(arrow):
        return pa.string()
    if pa.types.is_list(arrow):
        return pa.list_(pa.field("element", parsed_type(arrow.value_type)))
    return pa.struct([(field.name, parsed_type(field.type)) for field in arrow]) if pa.types.is_struct(arrow) else arrow


def with_times(column: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Return a column of ``parsed_type(arrow)`` as ``arrow``.

    Raises ``pa.ArrowInvalid`` for a text that is no date or timestamp, or has a form that only Arrow takes.
    """
    if column.type == arrow:
        return column
    if pa.types.is_timestamp(arrow):
        return _moments(column, arrow)
    mask = column.is_null() if column.null_count else None
    if pa.types.is_list(arrow):
        return pa.ListArray.from_arrays(
            column.offsets, with_times(column.values, arrow.value_type), type=arrow, mask=mask
        )
    if pa.types.is_struct(arrow):
        children = [with_times(column.field(index), field.type) for index, field in enumerate(arrow)]
        return pa.StructArray.from_arrays(children, fields=list(arrow), mask=mask)
    return column.cast(arrow)


def _moments(texts: pa.StringArray, arrow: pa.DataType) -> pa.TimestampArray:
    lengths = pc.min_max(pc.binary_length(texts))
    is_usual = pc.all(pc.ends_with(texts, "Z")).as_py() is not False
    if not is_usual or (lengths["min"].is_valid and lengths["min"].as_py() < _MOMENT_LENGTH_MIN):
        if pc.all(pc.match_substring_regex(texts, _MOMENT)).as_py() is False:
            raise pa.ArrowInvalid("a form of time that only Arrow takes")
        has_zone = pc.match_substring_regex(texts, _ZONE)
        texts = pc.if_else(has_zone, texts, pc.binary_join_element_wise(texts, "Z", ""))
    return texts.cast(arrow)


def has_decimals(arrow: pa.DataType) -> bool:
    """Return whether a part of the type is a decimal."""
    if pa.types.is_list(arrow):
        return has_decimals(arrow.value_type)
    return any(has_decimals(field.type) for field in arrow) if pa.types.is_struct(arrow) else pa.types.is_decimal(arrow)


def has_odd_number(texts: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Return which documents may have a text that Arrow takes for a decimal and that is no number of JSON."""
    found: npt.NDArray[np.bool_] = pc.match_substring_regex(texts, _ODD_NUMBER).to_numpy(zero_copy_only=False)
    return found


def has_its_digits(decimals: pa.Decimal128Array) -> bool:
    """Return whether no number has more digits than its type, which Arrow's parser takes by an exponent (``1e9``)."""
    try:
        decimals.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
