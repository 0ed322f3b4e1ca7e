"""Columns as JSON documents: what is rendered is read back as the same columns, and is the same in any company."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.records.canonical_json import (
    NULLS_LEFT_OUT,
    NULLS_WRITTEN,
    bytes_at_most,
    bytes_at_most_within,
    render,
)
from log_format.schemas.columns.documents import Documents
from log_format.schemas.columns.given_columns import document_form, fitted
from log_format.schemas.columns.shape import Record
from tests.support.typed_shapes import records, values


def _column(data: st.DataObject, shape: Record) -> pa.Array:
    """The column of some documents of the shape, perhaps with nulls between them."""
    texts = [json.dumps(data.draw(values(shape))).encode() for _ in range(data.draw(st.integers(1, 6)))]
    column, _ = Documents(shape, bulk_min=1).column_of(pa.array(texts, pa.binary()))
    return column


@settings(max_examples=300)
@given(st.data())
def test_documents_of_columns_are_read_back_as_the_same_columns(data: st.DataObject) -> None:
    """Each is a document of the shape whose members are those of the columns; a null row has none."""
    shape = data.draw(records())
    column = _column(data, shape)
    texts = render(column, document_form(shape))
    assert texts.is_null().equals(column.is_null())
    assert sum(len(text) for text in texts.drop_null().to_pylist()) <= bytes_at_most(column)
    again, faults = Documents(shape, bulk_min=1).column_of(texts.drop_null())
    assert not faults
    assert again.equals(column.drop_null())


@given(st.data())
def test_the_bound_of_some_documents_holds_for_these(data: st.DataObject) -> None:
    """Wherever the columns are cut, also columns that are a part of others, and however many pieces there are."""
    shape = data.draw(records())
    whole = _column(data, shape)
    column = whole.slice(data.draw(st.integers(0, len(whole))))
    sizes = [len(text.as_py() or b"") for text in render(column)]
    cuts = data.draw(st.lists(st.integers(0, len(column)), max_size=4).map(sorted))
    bounds = np.array([0, *cuts, len(column)])
    found = bytes_at_most_within(column, bounds).tolist()
    assert len(found) == len(cuts) + 1
    for start, end, most in zip(bounds[:-1], bounds[1:], found, strict=True):
        assert sum(sizes[start:end]) <= most


@given(st.data())
def test_a_document_does_not_depend_on_its_neighbours(data: st.DataObject) -> None:
    """The same columns give the same bytes alone, in a slice, and with others."""
    shape = data.draw(records())
    column = _column(data, shape)
    for form in (document_form(shape), NULLS_LEFT_OUT, NULLS_WRITTEN):
        together = render(column, form)
        alone = [render(column.slice(row, 1), form)[0] for row in range(len(column))]
        copied = [render(pa.array([value.as_py()], column.type), form)[0] for value in column]
        assert together.to_pylist() == [text.as_py() for text in alone] == [text.as_py() for text in copied]


@given(st.data())
def test_columns_of_a_shape_are_taken_as_they_are(data: st.DataObject) -> None:
    """A sender that has the columns already sends what documents would have become."""
    shape = data.draw(records())
    column = _column(data, shape).drop_null()
    found, faults = fitted(shape, column)
    found.validate(full=True)
    assert not faults
    assert found.equals(column)
