"""Which values their columns say completely, so that a document that is made of the columns alone stands for them.

It is the document with null members left out (``canonical_json``): the one that can be made without the schema.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.records.canonical_json import render
from log_format.schemas.columns.given_columns import is_null_written
from log_format.schemas.columns.shape import ABSENT, ListOf, MapOf, Record, Scalar, Shape

__all__ = ["columns_told", "documents_told", "has_unions"]

Mask = npt.NDArray[np.bool_]

_NAME_END: Final = r"\"[ \t\r\n]*:"
_ESCAPED: Final = r"\\u00[23]"
"""Escapes of quotes, colons and spaces, among others, which rendering does not make."""


def columns_told(shape: Shape, column: pa.Array) -> Mask:
    """Return which rows of a shape's column have no null that their document must have."""
    told = np.zeros(len(column), np.bool_)
    if isinstance(shape, Record) and not has_unions(shape):
        told |= _present(column)
        _mark(shape, column, np.arange(len(column)), told)
    return told


def documents_told(shape: Shape, texts: pa.BinaryArray, column: pa.Array) -> Mask:
    """Return which documents are those that their columns give, up to layout and the texts of numbers and times.

    Args:
        shape: their shape.
        texts: the documents, without nulls.
        column: the column that was made of them; null where a document was refused.
    """
    told = _present(column)
    has_nulls = pc.match_substring(texts, "null").to_numpy(zero_copy_only=False)
    if not isinstance(shape, Record) or has_unions(shape):
        return np.zeros(len(texts), np.bool_)
    is_closed, has_defaults = _is_closed(shape), _has_defaults(shape)
    if is_closed and not has_defaults and not has_nulls.any():
        return told
    if has_defaults:
        # What a default adds could stand for what is left out.
        told &= ~has_nulls if is_closed else np.zeros(len(texts), np.bool_)
    if not told.any():
        return told
    # The members that are rendered are among those that were sent, or defaults: as many members are the same ones. A name ends
    # with a quote and a colon, as does a part of a string where a quote is escaped in the one way that rendering has, too.
    told &= ~pc.match_substring_regex(texts, _ESCAPED).to_numpy(zero_copy_only=False)
    sent = pc.count_substring_regex(texts, _NAME_END)
    rendered = pc.count_substring_regex(pc.fill_null(render(column), b""), _NAME_END)
    told &= pc.equal(sent, rendered).to_numpy(zero_copy_only=False)
    return told


def _mark(shape: Shape, values: pa.Array, rows: npt.NDArray[np.intp], told: Mask) -> None:
    """Clear the rows that a null is in which has to be written. ``rows``: the record of each value."""
    if isinstance(shape, Record):
        present = _present(values)
        for member, child in zip(shape.members, values.flatten(), strict=True):
            if child.null_count and is_null_written(member):
                told[rows[present & ~_present(child)]] = False
            _mark(member.shape, child, rows, told)
    elif isinstance(shape, ListOf | MapOf):
        offsets = np.asarray(values.offsets)
        part, items = (shape.item, values.values) if isinstance(shape, ListOf) else (shape.value, values.items)
        items = items.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        _mark(part, items, np.repeat(rows, np.diff(offsets)), told)


def _present(values: pa.Array) -> Mask:
    found: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return found.copy()


def _parts(shape: Shape) -> list[Shape]:
    if isinstance(shape, Record):
        return [member.shape for member in shape.members]
    return [] if isinstance(shape, Scalar) else [shape.item if isinstance(shape, ListOf) else shape.value]


def has_unions(shape: Shape) -> bool:
    """Return whether a value of the shape may have a part of one of several types."""
    return (isinstance(shape, Record) and shape.is_union) or any(map(has_unions, _parts(shape)))


def _is_closed(shape: Shape) -> bool:
    return not (isinstance(shape, Record) and shape.is_open) and all(map(_is_closed, _parts(shape)))


def _has_defaults(shape: Shape) -> bool:
    return (isinstance(shape, Record) and any(member.default not in (ABSENT, None) for member in shape.members)) or any(
        map(_has_defaults, _parts(shape))
    )
