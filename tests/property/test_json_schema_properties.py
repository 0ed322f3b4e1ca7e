"""JSON Schema: what the judgement of compatibility promises, held against a validator that is not ours."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.schemas.compatibility.check import incompatibilities
from log_format.schemas.compatibility.incompatibility import Level
from log_format.schemas.compatibility.json_sentences import SENTENCES
from log_format.schemas.parsed import InvalidSchema, ParsedSchema
from log_format.schemas.parsing import parse
from log_format.schemas.schema import Schema, SchemaType
from tests.support.json_schemas import schema_and_change, value_for


def _parsed(value: Any) -> ParsedSchema:
    return parse(Schema(text=json.dumps(value), type=SchemaType.JSON))


@given(schema_and_change(), st.sampled_from(Level))
def test_a_schema_is_compatible_with_itself(schemas: tuple[Any, Any], level: Level) -> None:
    """At each level, whether it is written as before or is a definition of another text."""
    for schema in schemas:
        elsewhere = {"$ref": "#/definitions/s", "definitions": {"s": schema}}
        assert incompatibilities(_parsed(schema), _parsed(elsewhere), level) == []


@given(schema_and_change())
def test_an_optional_property_of_a_closed_object_is_fully_compatible(schemas: tuple[Any, Any]) -> None:
    """A property that the model does not name yet may be added to a closed object, and be left out of an open one."""
    closed = {"type": "object", "properties": {"p": schemas[0]}, "additionalProperties": False}
    more = {**closed, "properties": {"p": schemas[0], "new": schemas[1]}}
    assert incompatibilities(_parsed(more), _parsed(closed), Level.BACKWARD) == []
    opened = {name: each for name, each in closed.items() if name != "additionalProperties"}
    assert (
        incompatibilities(_parsed(opened), _parsed({**opened, "properties": more["properties"]}), Level.BACKWARD) == []
    )


@given(st.data())
@settings(max_examples=600)
def test_what_is_compatible_is_valid(data: st.DataObject) -> None:
    """Where a new schema is said to be backward compatible, what is valid by the old one is valid by it."""
    old, new = data.draw(schema_and_change(2))
    if incompatibilities(_parsed(new), _parsed(old), Level.BACKWARD):
        return
    before, after = jsonschema_rs.Draft7Validator(old), jsonschema_rs.Draft7Validator(new)
    for instance in data.draw(st.lists(value_for(old), min_size=5, max_size=5)):
        assert after.is_valid(instance) or not before.is_valid(instance)


@given(schema_and_change())
def test_each_finding_has_a_sentence(schemas: tuple[Any, Any]) -> None:
    """Whatever is found is told, in both directions."""
    for each in incompatibilities(_parsed(schemas[0]), _parsed(schemas[1]), Level.FULL):
        assert each.kind in SENTENCES
        assert "{" not in each.description


@given(schema_and_change())
def test_canonical_texts_are_their_own(schemas: tuple[Any, Any]) -> None:
    """Canonical and normalized texts are schemas; written again they are the same text."""
    parsed = _parsed(schemas[0])
    for text in (parsed.canonical, parsed.normalized):
        again = parse(Schema(text=text, type=SchemaType.JSON))
        assert again.canonical == text
        assert again.normalized == parsed.normalized


_KEYWORDS = [
    "type",
    "$ref",
    "$id",
    "$schema",
    "$anchor",
    "properties",
    "items",
    "enum",
    "not",
    "allOf",
    "pattern",
    "definitions",
]
_FUZZ = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["object", "string", "#", "#/definitions/a", "http://[", "a", "^(a+)+$", "https://json-schema.org/draft/2020-12/schema"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*_KEYWORDS, "a"]), inner, max_size=5),
    max_leaves=15,
)  # fmt: skip


@given(_FUZZ.map(json.dumps) | st.text(max_size=50))
@settings(max_examples=300)
def test_any_text_is_a_schema_or_invalid(text: str) -> None:
    """Whatever the text, it is understood or refused as an invalid schema; what is understood is comparable."""
    try:
        parsed = parse(Schema(text=text, type=SchemaType.JSON))
    except InvalidSchema:
        return
    assert parse(Schema(text=parsed.canonical, type=SchemaType.JSON)).canonical == parsed.canonical
    incompatibilities(parsed, _parsed({"type": "object"}), Level.FULL)
