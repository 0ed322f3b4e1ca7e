"""Values that are left out: the document of the columns is equal to what was sent, or what was sent is kept."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.records.canonical_json import render
from log_format.schemas.columns.documents import Documents
from log_format.schemas.columns.given_columns import document_form
from log_format.schemas.columns.shape import ListOf, MapOf, Record, Shape
from log_format.schemas.columns.told_values import columns_told, documents_told
from tests.support.typed_shapes import records, values


def _same(shape: Shape | None, sent: Any, read: Any) -> bool:
    """Whether two parsed documents are equal, numbers and times by the shape; None: members of no shape."""
    if isinstance(shape, Record) and isinstance(sent, dict) and isinstance(read, dict):
        shapes = {member.name: member.shape for member in shape.members}
        return sent.keys() == read.keys() and all(_same(shapes.get(name), sent[name], read[name]) for name in sent)
    if isinstance(shape, ListOf) and isinstance(sent, list) and isinstance(read, list):
        return len(sent) == len(read) and all(map(lambda a, b: _same(shape.item, a, b), sent, read))
    if isinstance(shape, MapOf) and isinstance(sent, dict) and isinstance(read, dict):
        return sent.keys() == read.keys() and all(_same(shape.value, sent[name], read[name]) for name in sent)
    if shape is None or isinstance(shape, Record | ListOf | MapOf) or sent is None or read is None:
        return bool(sent == read)
    arrow = shape.type
    if pa.types.is_decimal(arrow):
        return Decimal(str(sent)) == Decimal(str(read))
    if pa.types.is_floating(arrow):
        kind = np.float32 if arrow.bit_width == 32 else np.float64
        return bool(kind(float(sent)) == kind(float(read)))
    if pa.types.is_date(arrow):
        return date.fromisoformat(sent) == date.fromisoformat(read)
    if pa.types.is_timestamp(arrow):
        first, second = (datetime.fromisoformat(text) for text in (sent, read))
        return (first if first.tzinfo else first.replace(tzinfo=UTC)) == second
    return bool(sent == read)


@settings(max_examples=500)
@given(st.data())
def test_a_document_that_is_left_out_comes_back_equal(data: st.DataObject) -> None:
    """Whatever the document: members that no column has, explicit nulls, defaults, and texts that look like JSON."""
    shape = data.draw(records())
    texts = []
    for _ in range(data.draw(st.integers(1, 5))):
        document = data.draw(values(shape))
        if isinstance(document, dict) and data.draw(st.booleans()):
            document[data.draw(st.sampled_from(["x", '":', '"\u00e4":', "m9"]))] = data.draw(
                st.sampled_from(['":', '"\t:', '\\":null', {"y": None}, '" :'])
            )
        layout = data.draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " \t: ")]))
        text = json.dumps(document, separators=layout, ensure_ascii=data.draw(st.booleans()))
        escaped = data.draw(st.sampled_from(["none", "none", '\\"', ":"]))
        if escaped == '\\"':
            text = text.replace('\\"', "\\u0022")
        texts.append(text.encode("utf-8", "replace"))
    column, _ = Documents(shape, bulk_min=1).column_of(pa.array(texts, pa.binary()))
    told = documents_told(shape, pa.array(texts, pa.binary()), column)
    rendered = render(column)
    for row in np.flatnonzero(told).tolist():
        assert _same(shape, json.loads(texts[row]), json.loads(rendered[row].as_py())), (texts[row], rendered[row])


@settings(max_examples=300)
@given(st.data())
def test_what_is_rendered_is_told_by_its_columns(data: st.DataObject) -> None:
    """Columns that are told give the document of their schema without it."""
    shape = data.draw(records())
    texts = [json.dumps(data.draw(values(shape))).encode() for _ in range(data.draw(st.integers(1, 5)))]
    column, _ = Documents(shape, bulk_min=1).column_of(pa.array(texts, pa.binary()))
    told = columns_told(shape, column)
    by_schema, without = render(column, document_form(shape)), render(column)
    for row in np.flatnonzero(told).tolist():
        assert by_schema[row] == without[row]
