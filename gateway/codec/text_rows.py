"""Rows of text, each joined from the same parts, without a Python object for any row.

Arrow joins columns row by row, at a price for each part. So numbers do not become columns of their own. If all numbers of a part
have equally many digits, they are written into copies of the text around them, four digits at a time; leading digits that all
share are part of that text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.integer[Any]]
Parts = list[str | pa.Array | Numbers]
"""Parts of the rows: text that is the same in each row, ``string`` arrays, and numbers, which are at least 0. Arrays and
numbers have an element for each row; one part at least must be of these."""

_ROWS_MIN: Final = 64
"""Number of rows below which numbers are written one by one."""
_DIGITS: Final = 4
_BELOW: Final = 10**_DIGITS
_TEXTS: Final = np.frombuffer(b"".join(b"%04d" % number for number in range(_BELOW)), dtype=np.uint32)
"""The digits of each number below ``_BELOW``."""


def join_rows(parts: Parts) -> pa.Array:
    """Join the parts of each row; a row is null if one of its parts is null."""
    count = next(len(part) for part in parts if not isinstance(part, str))
    merged: list[str | pa.Array] = []
    between: list[str | Numbers] = []
    for part in parts:
        if isinstance(part, str | np.ndarray):
            between.append(part)
        else:
            merged += [*_numbered(between, count), part]
            between = []
    merged += _numbered(between, count)
    if len(merged) > 1:
        return pc.binary_join_element_wise(*merged, "")
    (rows,) = merged
    return pa.repeat(rows, count) if isinstance(rows, str) else rows


def text_of(rows: pa.Array) -> memoryview:
    """Return the bytes of all rows of a ``string`` array, concatenated."""
    _, offsets, data = rows.buffers()
    if data is None or len(rows) == 0:
        return memoryview(b"")
    bounds = np.frombuffer(offsets, dtype=np.int32)
    return memoryview(data)[bounds[rows.offset] : bounds[rows.offset + len(rows)]]


def _numbered(parts: Sequence[str | Numbers], count: int) -> list[str | pa.Array]:
    """Join texts and numbers to one text or one column, or to several if the numbers differ in their count of digits."""
    template = bytearray()
    varying: list[tuple[int, Numbers, int, int]] = []
    for part in parts:
        if isinstance(part, str):
            template += part.encode()
            continue
        least, most = (int(part.min()), int(part.max())) if count else (0, 0)
        if least != most and (count < _ROWS_MIN or len(str(least)) != len(str(most))):
            return _apart(parts)
        template += b"%d" % least
        if least != most:
            varying.append((len(template), part, least, most))
    if not varying:
        return [template.decode()] if template else []
    width, text = len(template), template * count
    for end, numbers, least, most in varying:
        _write(text, end, numbers, least, most)
    bounds = np.arange(0, len(text) + 1, width, dtype=np.int32)
    return [pa.StringArray.from_buffers(count, pa.py_buffer(bounds), pa.py_buffer(text))]


def _write(text: bytearray, end: int, numbers: Numbers, least: int, most: int) -> None:
    """Write numbers so that they end at ``end`` in each row; the leading digits that ``least`` and ``most`` share are already
    there."""
    digits, count = len(str(most)), len(numbers)
    width = len(text) // count
    while least != most:
        above = numbers // _BELOW
        texts = _TEXTS[numbers - above * _BELOW]
        if digits >= _DIGITS:
            np.ndarray(count, np.uint32, text, end - _DIGITS, (width,))[:] = texts
        else:
            characters = texts.view(np.uint8).reshape(count, _DIGITS)[:, -digits:]
            np.ndarray((count, digits), np.uint8, text, end - digits, (width, 1))[:] = characters
        numbers, least, most = above, least // _BELOW, most // _BELOW
        digits, end = digits - _DIGITS, end - _DIGITS


def _apart(parts: Sequence[str | Numbers]) -> list[str | pa.Array]:
    """Join neighbouring texts, and make each part of numbers a column, unless all its numbers are the same."""
    apart: list[str | pa.Array] = []
    for part in parts:
        if not isinstance(part, str) and (part != part[0]).any():
            apart.append(pa.array(part).cast(pa.string()))
            continue
        text = part if isinstance(part, str) else str(part[0])
        if apart and isinstance(apart[-1], str):
            apart[-1] += text
        else:
            apart.append(text)
    return apart
