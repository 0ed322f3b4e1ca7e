"""Avro: what the judgement of compatibility promises, held against two libraries that are not ours."""

from __future__ import annotations

import io
import json
from typing import Any

import avro.compatibility
import avro.schema
import fastavro
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.schemas.compatibility.check import incompatibilities
from log_format.schemas.compatibility.incompatibility import Level
from log_format.schemas.parsed import InvalidSchema, ParsedSchema
from log_format.schemas.parsing import parse
from log_format.schemas.schema import Schema
from tests.support.avro_schemas import avro_records, changed, values_of

_CHECKER: Any = avro.compatibility.ReaderWriterCompatibilityChecker


def _parsed(value: Any) -> ParsedSchema:
    return parse(Schema(text=json.dumps(value)))


@given(avro_records(), st.sampled_from(Level))
def test_a_schema_is_compatible_with_itself(schema: Any, level: Level) -> None:
    """At each level, whether it is written as before or otherwise."""
    assert incompatibilities(_parsed(schema), _parsed({"doc": "same", **schema}), level) == []


@given(avro_records())
def test_an_optional_field_is_fully_compatible(schema: Any) -> None:
    """A new field with a default is read from old records, and is skipped in new ones."""
    more = {**schema, "fields": [*schema["fields"], {"name": "new", "type": ["null", "string"], "default": None}]}
    assert incompatibilities(_parsed(more), _parsed(schema), Level.FULL_TRANSITIVE) == []


@given(avro_records())
def test_canonical_texts_are_their_own(schema: Any) -> None:
    """Canonical and normalized texts are schemas that mean the same; written again they are the same text."""
    parsed = _parsed(schema)
    canonical, normalized = parse(Schema(text=parsed.canonical)), parse(Schema(text=parsed.normalized))
    assert canonical.canonical == parsed.canonical
    assert normalized.normalized == canonical.normalized == parsed.normalized
    assert avro.schema.parse(parsed.canonical) == avro.schema.parse(json.dumps(schema))


@given(st.data())
@settings(max_examples=300)
def test_the_verdict_is_that_of_apache(data: st.DataObject) -> None:
    """A schema and a change of it are compatible when Apache's checker says so, and only then."""
    old = data.draw(avro_records())
    new = data.draw(changed(old))
    for reader, writer in ((new, old), (old, new)):
        checked = _CHECKER().get_compatibility(
            avro.schema.parse(json.dumps(reader)), avro.schema.parse(json.dumps(writer))
        )
        compatible = checked.compatibility is avro.compatibility.SchemaCompatibilityType.compatible
        assert (incompatibilities(_parsed(reader), _parsed(writer), Level.BACKWARD) == []) is compatible


@given(st.data())
@settings(max_examples=300)
def test_what_is_compatible_is_read(data: st.DataObject) -> None:
    """Where a new schema is said to be backward compatible, records that were written with the old one are read with it."""
    old = data.draw(avro_records())
    new = data.draw(changed(old))
    if incompatibilities(_parsed(new), _parsed(old), Level.BACKWARD):
        return
    record = data.draw(values_of(old))
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(old), record)
    written.seek(0)
    read = fastavro.schemaless_reader(written, fastavro.parse_schema(old), fastavro.parse_schema(new))
    assert isinstance(read, dict)
    assert read.keys() == {field["name"] for field in new["fields"]}


_FUZZ = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["record", "enum", "union", "int", "array", "R", "a.R"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["type", "name", "namespace", "fields", "symbols", "items", "values", "size", "default", "aliases"]),
        inner,
        max_size=5,
    ),
    max_leaves=15,
)  # fmt: skip


@given(_FUZZ.map(json.dumps) | st.text(max_size=50))
def test_any_text_is_a_schema_or_invalid(text: str) -> None:
    """Whatever the text, it is understood or refused as an invalid schema."""
    try:
        parsed = parse(Schema(text=text))
    except InvalidSchema:
        return
    assert parse(Schema(text=parsed.canonical)).canonical == parsed.canonical
