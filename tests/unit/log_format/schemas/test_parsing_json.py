"""JSON Schema's texts: what is understood, what is the same schema, where references lead, and what is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from log_format.schemas.parsed import InvalidSchema
from log_format.schemas.parsing import parse
from log_format.schemas.parsing_json import NO_TARGET, Draft, JsonSchema
from log_format.schemas.schema import SCHEMA_BYTES_MAX, Schema, SchemaType


def _parsed(value: Any, *references: tuple[str, Any]) -> JsonSchema:
    text = value if isinstance(value, str) else json.dumps(value)
    texts = [(name, json.dumps(reference)) for name, reference in references]
    parsed = parse(Schema(text=text, type=SchemaType.JSON), texts)
    assert isinstance(parsed, JsonSchema)
    return parsed


def test_layout_means_nothing_and_order_only_unless_normalized() -> None:
    """White space makes no other schema; the order of members does, unless it is normalized."""
    one, spaced = _parsed('{"type":"object","title":"t"}'), _parsed('{ "type" : "object",\n "title": "t" }')
    turned = _parsed('{"title":"t","type":"object"}')
    assert one.canonical == spaced.canonical == '{"type":"object","title":"t"}'
    assert turned.canonical != one.canonical
    assert turned.normalized == one.normalized == '{"title":"t","type":"object"}'


@pytest.mark.parametrize(
    ("named", "draft"),
    [
        ("http://json-schema.org/draft-04/schema#", Draft.DRAFT_4),
        ("https://json-schema.org/draft-06/schema", Draft.DRAFT_6),
        ("http://json-schema.org/draft-07/schema", Draft.DRAFT_7),
        ("http://json-schema.org/draft/2019-09/schema#", Draft.DRAFT_2019_09),
        ("https://json-schema.org/draft/2020-12/schema", Draft.DRAFT_2020_12),
        ("http://127.0.0.1:1/a-schema-of-ones-own", Draft.DRAFT_7),
        (None, Draft.DRAFT_7),
    ],
)
def test_each_draft_is_known(named: str | None, draft: Draft) -> None:
    """A schema is of the draft that it names; one that names none, or another address, is of draft 7, and nothing is fetched."""
    assert _parsed({"$schema": named} if named else {}).draft is draft


@pytest.mark.parametrize("draft", Draft)
def test_each_draft_is_checked(draft: Draft) -> None:
    """A keyword with a value that its draft does not allow is refused, with the place."""
    with pytest.raises(InvalidSchema) as refused:
        _parsed({"$schema": draft, "properties": {"a": {"minLength": "one"}}})
    assert refused.value.place == "#/properties/a/minLength"


REFERENCES = {
    "by pointer": {"$ref": "#/definitions/t"},
    "by pointer, escaped": {"$ref": "#/definitions/a~1b%20c"},
    "by anchor": {"$ref": "#anchored"},
    "by id": {"$ref": "inner.json"},
    "by whole id": {"$ref": "http://example.com/inner.json"},
    "by name": {"$ref": "other"},
    "into another by name": {"$ref": "other#/definitions/t"},
    "into another by its id": {"$ref": "http://example.com/other.json#/definitions/t"},
}
DEFINITIONS = {
    "$schema": Draft.DRAFT_2020_12,
    "$id": "http://example.com/root.json",
    "definitions": {
        "t": {"type": "string"},
        "a/b c": {"type": "string"},
        "anchored": {"$anchor": "anchored", "type": "string"},
        "inner": {"$id": "inner.json", "type": "string"},
    },
}
OTHER = {"$id": "http://example.com/other.json", "type": "string", "definitions": {"t": {"type": "string"}}}


@pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES)
def test_references_are_followed(reference: dict[str, str]) -> None:
    """A reference leads to a schema of the document or of another one, however it names it."""
    parsed = _parsed({**DEFINITIONS, "properties": {"p": reference}}, ("other", OTHER))
    found = parsed.target(parsed.document["properties"]["p"])
    assert found["type"] == "string"
    assert parsed.target(parsed.document) is NO_TARGET


INVALID = [
    ("{", "line 1, column 2", "no JSON"),
    ("[]", "#", "an object, true or false"),
    ('"string"', "#", "an object, true or false"),
    ('{"type":"strin"}', "#/type", "strin"),
    ('{"pattern":"("}', "#/pattern", "regex"),
    (json.dumps({"$schema": Draft.DRAFT_2020_12, "patternProperties": {"(": {}}}), "pattern", "no pattern"),
    ('{"$ref":"nowhere.json"}', "$ref 'nowhere.json'", "leads nowhere"),
    ('{"$ref":"#/definitions/x","definitions":{}}', "$ref '#/definitions/x'", "no 'x' on the way"),
    ('{"$ref":"#/title","title":"t"}', "$ref '#/title'", "no schema"),
    ('{"$ref":"http://[half/"}', "#/$ref", "uri-reference"),
    ('{"$ref":"#"}', "$ref", "for ever"),
    ('{"properties":{"a":{"$ref":"#/properties/b"},"b":{"$ref":"#/properties/a"}}}', "$ref", "for ever"),
    (json.dumps({"$ref": "http://127.0.0.1:1/a.json"}), "$ref 'http://127.0.0.1:1/a.json'", "leads nowhere"),
    (json.dumps({"$ref": "file:///etc/hostname"}), "$ref 'file:///etc/hostname'", "leads nowhere"),
]


@pytest.mark.parametrize(("text", "place", "said"), INVALID)
def test_errors_say_where_and_what(text: str, place: str, said: str) -> None:
    """A text that is no JSON Schema, or refers to what is not there, is refused; nothing is fetched or read for it."""
    with pytest.raises(InvalidSchema) as refused:
        _parsed(text)
    assert refused.value.place == place
    assert said in refused.value.detail


def test_an_error_of_a_reference_names_it() -> None:
    """Whoever registers a schema learns which of its references is wrong."""
    with pytest.raises(InvalidSchema, match="reference 'other': #/type: "):
        _parsed({}, ("other", {"type": "strin"}))


def test_a_schema_may_contain_itself() -> None:
    """A recursive schema is understood."""
    parsed = _parsed({"properties": {"next": {"$ref": "#"}}})
    assert parsed.target(parsed.document["properties"]["next"]) is parsed.document


HOSTILE = {
    "many brackets": "[" * SCHEMA_BYTES_MAX,
    "deep": '{"items":' * 1_000 + "{}" + "}" * 1_000,
    "a pattern that grows": json.dumps({"pattern": "(((a{99}){99}){99}){99}"}),
    "many patterns": json.dumps({"patternProperties": {f"^a{index}": {} for index in range(40_000)}}),
    "addresses that multiply": json.dumps(
        {
            "$schema": Draft.DRAFT_2020_12,
            "$id": "http://x/" + "a" * 300_000,
            "$defs": {f"{at}": {"$anchor": f"a{at}"} for at in range(9_000)},
        }
    ),
    "ids that multiply": json.dumps(
        {"$id": "http://x/" + "a" * 300_000 + "/", "definitions": {f"{at}": {"$id": f"a{at}"} for at in range(9_000)}}
    ),
    "a chain of references": json.dumps(
        {
            "$ref": "#/definitions/0",
            "definitions": {str(at): {"$ref": f"#/definitions/{at + 1}"} for at in range(10_000)},
        }
    ),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_take_bounded_time(text: str) -> None:
    """A text that was made to take long is refused within seconds."""
    began = time.monotonic()
    with pytest.raises(InvalidSchema):
        _parsed(text)
    assert time.monotonic() - began < 20


def test_many_properties_are_no_harm() -> None:
    """The most properties that a text can have are understood."""
    text = json.dumps(
        {"properties": {f"f{index}": {"type": "string"} for index in range(32_000)}}, separators=(",", ":")
    )
    assert len(text) < SCHEMA_BYTES_MAX
    assert _parsed(text).canonical == text
