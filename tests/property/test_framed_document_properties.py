"""Values of Confluent's serializer for JSON Schema: the bulk reads each as its document alone."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from log_format.schemas.columns.codec import SchemaReader, SubjectReader
from log_format.schemas.schema import Schema, SchemaType

TEXT = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})
READER = SubjectReader("s", [(1, SchemaReader(Schema(text=TEXT, type=SchemaType.JSON)))])
HEADER = b"\0\0\0\0\1"

documents = st.one_of(st.sampled_from([b"", b"{}", b'{"id":1}', b" ", b'{"id":22222222222}']), st.binary(max_size=20))


@given(st.lists(st.one_of(st.none(), documents), min_size=1, max_size=8), st.integers(0, 3))
def test_what_follows_the_header_is_the_document(some: list[bytes | None], before: int) -> None:
    """Empty ones too, which leave nothing of their value, nulls between, and arrays that begin within others."""
    framed = [None if one is None else HEADER + one for one in some]
    values = pa.array([*[b"before"] * before, *framed], pa.binary()).slice(before)
    column, faults = READER.column_of(values)
    for row, one in enumerate(some):
        if one is None:
            assert row not in faults
            continue
        alone, fault = READER.column_of(pa.array([one], pa.binary())) if one[:1] != b"\0" else (None, {0: None})
        assert (row in faults) == (0 in fault)
        if row not in faults:
            assert alone is not None
            assert column[row].as_py() == alone[0].as_py()
