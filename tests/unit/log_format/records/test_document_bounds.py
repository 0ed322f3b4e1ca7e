"""Bounds of documents that are not made hold for each part of the columns, and are not far above."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from log_format.records.canonical_json import bytes_at_most_within, render

TEXT = pa.struct([("t", pa.string())])
LISTS = pa.struct([("t", pa.list_(pa.field("element", pa.string())))])
MAPS = pa.struct([("t", pa.map_(pa.string(), pa.string()))])
WITHIN = pa.struct([("t", pa.struct([("u", pa.binary())]))])


@pytest.mark.parametrize(
    ("arrow", "row"),
    [
        (TEXT, lambda number: {"t": "x" * 10 * number}),
        (LISTS, lambda number: {"t": ["x" * 10] * number}),
        (MAPS, lambda number: {"t": [("x" * 10 + str(index), "y") for index in range(number)]}),
        (WITHIN, lambda number: {"t": {"u": b"x" * 10 * number}}),
    ],
)
def test_a_bound_is_that_of_its_own_rows(arrow: pa.DataType, row: object) -> None:
    """Rows of very different sizes, among them null ones, in a slice: no part's bound has the texts of another part."""
    assert callable(row)
    column = pa.array([None if number % 5 == 4 else row(number) for number in range(60)], arrow).slice(7)
    sizes = np.array([len(text.as_py() or b"") for text in render(column)])
    bounds = np.array([0, 1, 1, 20, 53])
    found = bytes_at_most_within(column, bounds)
    wanted = np.array([sizes[start:end].sum() for start, end in pairwise(bounds)])
    assert (found >= wanted).all()
    assert (found <= 3 * wanted + 32 * np.diff(bounds)).all()
