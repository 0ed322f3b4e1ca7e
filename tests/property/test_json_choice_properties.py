"""JSON Schema with allOf, oneOf, anyOf and not: a document is taken exactly if it is valid, and its columns are its members."""

from __future__ import annotations

import json

import jsonschema_rs
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.schemas.columns.json_schema import json_documents
from log_format.schemas.columns.shape import Untypable
from tests.support.json_choices import documents, members, schemas


@settings(max_examples=600)
@given(st.data())
def test_valid_documents_are_taken_and_no_others(data: st.DataObject) -> None:
    """By the whole schema, as another implementation of it says; what can't be a column is refused with its place."""
    schema = data.draw(schemas())
    try:
        reader = json_documents(json.dumps(schema))
    except Untypable:
        return
    drawn = [data.draw(documents(schema)) for _ in range(4)]
    validator = jsonschema_rs.validator_for({**schema, "$schema": "http://json-schema.org/draft-07/schema#"})
    column, faults = reader.column_of(pa.array([json.dumps(one).encode() for one in drawn], pa.binary()))
    column.validate(full=True)
    for row, document in enumerate(drawn):
        if document is None:
            continue  # a tombstone in the topic; documents are objects
        assert (row not in faults) == validator.is_valid(document), (schema, document, faults.get(row))
        if row not in faults:
            assert column[row].as_py() == members(reader.shape, document), (schema, document)
