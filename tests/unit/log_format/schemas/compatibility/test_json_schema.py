"""JSON Schema's compatibility: each rule, with the kind and the path that Confluent's registry names."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from log_format.schemas.compatibility.check import incompatibilities
from log_format.schemas.compatibility.incompatibility import Level
from log_format.schemas.compatibility.json_sentences import SENTENCES
from log_format.schemas.compatibility.matching import largest_matching
from log_format.schemas.parsed import ParsedSchema
from log_format.schemas.parsing import parse
from log_format.schemas.parsing_json import Draft
from log_format.schemas.schema import Schema, SchemaType

MODERN = {"$schema": Draft.DRAFT_2020_12}
FLAG, STRING, NUMBER, INTEGER = {"type": "boolean"}, {"type": "string"}, {"type": "number"}, {"type": "integer"}


def _parsed(value: Any) -> ParsedSchema:
    return parse(Schema(text=json.dumps(value), type=SchemaType.JSON))


def _findings(new: Any, old: Any) -> list[str]:
    return [f"{each.kind} {each.path}" for each in incompatibilities(_parsed(new), _parsed(old), Level.BACKWARD)]


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _closed(**properties: Any) -> dict[str, Any]:
    return {**_object(**properties), "additionalProperties": False}


def _partial(said: Any, **properties: Any) -> dict[str, Any]:
    return {**_object(**properties), "additionalProperties": said}


BOUNDS = [
    *(("string", *row) for row in [("maxLength", "MAX_LENGTH", 1), ("minLength", "MIN_LENGTH", -1)]),
    *(("number", *row) for row in [("maximum", "MAXIMUM", 1), ("minimum", "MINIMUM", -1)]),
    *(
        ("number", *row)
        for row in [("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", 1), ("exclusiveMinimum", "EXCLUSIVE_MINIMUM", -1)]
    ),
    *(("object", *row) for row in [("maxProperties", "MAX_PROPERTIES", 1), ("minProperties", "MIN_PROPERTIES", -1)]),
    *(("array", *row) for row in [("maxItems", "MAX_ITEMS", 1), ("minItems", "MIN_ITEMS", -1)]),
    *(("array", *row) for row in [("maxContains", "MAX_CONTAINS", 1), ("minContains", "MIN_CONTAINS", -1)]),
]


@pytest.mark.parametrize(("kind", "keyword", "name", "wider"), BOUNDS)
def test_bounds_may_only_widen(kind: str, keyword: str, name: str, wider: int) -> None:
    """A bound may go or let more through; one that comes or lets less through is told."""
    without, bound = {"type": kind}, {"type": kind, keyword: 5}
    wide = {"type": kind, keyword: 5 + wider}
    assert _findings(without, bound) == _findings(wide, bound) == []
    assert _findings(bound, without) == [f"{name}_ADDED #/{keyword}"]
    assert _findings(bound, wide) == [f"{name}_{'DECREASED' if wider > 0 else 'INCREASED'} #/{keyword}"]


COMPATIBLE = [
    ({}, _object(a=STRING)),
    (True, STRING),
    (STRING, False),
    (NUMBER, INTEGER),
    (STRING, {**STRING, "pattern": "a"}),
    ({**NUMBER, "multipleOf": 2}, {**NUMBER, "multipleOf": 4}),
    ({**NUMBER, "multipleOf": 0.1}, {**NUMBER, "multipleOf": 0.3}),
    ({"enum": ["a", "b"]}, {"enum": ["b"]}),
    ({"enum": [1, True]}, {"enum": [True]}),
    ({"not": INTEGER}, {"not": NUMBER}),
    ({"type": ["string", "null"]}, STRING),
    ({"oneOf": [STRING, NUMBER]}, STRING),
    ({"anyOf": [STRING, NUMBER]}, {"oneOf": [STRING, NUMBER]}),
    ({"oneOf": [NUMBER, STRING]}, {"oneOf": [STRING, INTEGER]}),
    ({"allOf": [STRING]}, STRING),
    (STRING, {"allOf": [STRING, {"minLength": 1}]}),
    ({"type": "string", "connect.type": "bytes"}, {"type": "number", "connect.type": "bytes"}),
    # open: left out; closed: added, optional or with a default; partially open: what fits
    (_object(), _object(a=STRING)),
    (_object(a={}), _object()),
    (_object(a=STRING), _closed(a=STRING)),
    (_closed(a=STRING), _closed()),
    ({**_closed(a={**STRING, "default": ""}), "required": ["a"]}, _closed()),
    ({**_object(a={**STRING, "default": ""}), "required": ["a"]}, _object(a=STRING)),
    (_object(a=STRING), {**_object(a=STRING), "required": ["a"]}),
    (_closed(), _closed(a=False)),
    (_partial(STRING), _partial(STRING, a=STRING)),
    (_partial(STRING, a=STRING), _partial(STRING)),
    ({**_closed(), "patternProperties": {"^a": NUMBER}}, _closed(a1=INTEGER)),
    (
        {**MODERN, **_object(), "unevaluatedProperties": NUMBER},
        {**MODERN, **_object(a=NUMBER), "unevaluatedProperties": NUMBER},
    ),
    ({"type": "array"}, {"type": "array", "items": STRING}),
    ({"type": "array", "items": [STRING]}, {"type": "array", "items": [STRING, STRING]}),
    (
        {"type": "array", "items": [FLAG, STRING], "additionalItems": False},
        {"type": "array", "items": [FLAG], "additionalItems": False},
    ),
    ({**MODERN, "prefixItems": [FLAG, STRING], "items": STRING}, {**MODERN, "prefixItems": [FLAG], "items": STRING}),
    ({"dependencies": {"a": ["b"]}}, {"dependencies": {"a": ["b", "c"]}}),
    ({}, {"dependencies": {"a": STRING}}),
]


@pytest.mark.parametrize(("new", "old"), COMPATIBLE)
def test_what_is_compatible(new: Any, old: Any) -> None:
    """Whatever the old schema allows, the new one does."""
    assert _findings(new, old) == []


INCOMPATIBLE = [
    (STRING, NUMBER, ["TYPE_CHANGED #/"]),
    (STRING, {}, ["TYPE_CHANGED #/"]),
    (False, STRING, ["TYPE_CHANGED #/"]),
    (INTEGER, NUMBER, ["TYPE_NARROWED #/"]),
    ({**STRING, "pattern": "a"}, STRING, ["PATTERN_ADDED #/pattern"]),
    ({**STRING, "pattern": "a"}, {**STRING, "pattern": "b"}, ["PATTERN_CHANGED #/pattern"]),
    ({**NUMBER, "multipleOf": 2}, NUMBER, ["MULTIPLE_OF_ADDED #/multipleOf"]),
    ({**NUMBER, "multipleOf": 4}, {**NUMBER, "multipleOf": 2}, ["MULTIPLE_OF_EXPANDED #/multipleOf"]),
    ({**NUMBER, "multipleOf": 3}, {**NUMBER, "multipleOf": 2}, ["MULTIPLE_OF_CHANGED #/multipleOf"]),
    (
        {"$schema": Draft.DRAFT_4, "maximum": 5, "exclusiveMaximum": True},
        {"$schema": Draft.DRAFT_4, "maximum": 5},
        ["EXCLUSIVE_MAXIMUM_ADDED #/exclusiveMaximum"],
    ),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_NARROWED #/enum"]),
    ({"enum": ["a", "c"]}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_CHANGED #/enum"]),
    ({"enum": [1]}, {"enum": [True]}, ["ENUM_ARRAY_CHANGED #/enum"]),
    ({"const": 1}, {"const": True}, ["ENUM_ARRAY_CHANGED #/const"]),
    ({"not": NUMBER}, {"not": INTEGER}, ["NOT_TYPE_EXTENDED #/not"]),
    (STRING, {"type": ["string", "null"]}, ["TYPE_CHANGED #/"]),
    ({"oneOf": [STRING]}, {"oneOf": [STRING, NUMBER]}, ["SUM_TYPE_NARROWED #/"]),
    ({"allOf": [STRING, NUMBER]}, {"allOf": [STRING]}, ["PRODUCT_TYPE_EXTENDED #/"]),
    ({"oneOf": [STRING, NUMBER]}, {"anyOf": [STRING, NUMBER]}, ["COMBINED_TYPE_CHANGED #/"]),
    ({"oneOf": [STRING, {"type": "null"}]}, {"oneOf": [STRING, NUMBER]}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"]),
    (_object(a=STRING), _object(a=NUMBER), ["TYPE_CHANGED #/properties/a"]),
    (_object(a=STRING), _object(), ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"]),
    (
        {**_object(a=STRING), "required": ["a"]},
        _object(),
        ["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    (
        {**_object(a={**STRING, "default": ""}), "required": ["a"]},
        _object(),
        ["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    (
        {**_closed(a=STRING), "required": ["a"]},
        _closed(),
        ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"],
    ),
    ({**_object(a=STRING), "required": ["a"]}, _object(a=STRING), ["REQUIRED_ATTRIBUTE_ADDED #/required/a"]),
    (_closed(), _closed(a=STRING), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a"]),
    (
        _partial(NUMBER),
        _partial(NUMBER, a=STRING),
        ["PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a", "TYPE_CHANGED #/properties/a"],
    ),
    (
        _partial(NUMBER, a=STRING),
        _partial(NUMBER),
        ["PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a", "TYPE_CHANGED #/properties/a"],
    ),
    (_closed(), _object(), ["ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"]),
    (_partial(STRING), _object(), ["ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties"]),
    (_partial(STRING), _partial(NUMBER), ["TYPE_CHANGED #/additionalProperties"]),
    (
        {**MODERN, **_object(), "unevaluatedProperties": False},
        {**MODERN, **_object()},
        ["UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties"],
    ),
    (
        {**MODERN, **_object(), "unevaluatedProperties": STRING},
        {**MODERN, **_object()},
        ["UNEVALUATED_PROPERTIES_NARROWED #/unevaluatedProperties"],
    ),
    ({"dependencies": {"a": ["b"]}}, _object(), ["DEPENDENCY_ARRAY_ADDED #/dependencies/a"]),
    (
        {"dependencies": {"a": ["b", "c"]}},
        {"dependencies": {"a": ["b"]}},
        ["DEPENDENCY_ARRAY_EXTENDED #/dependencies/a"],
    ),
    ({"dependencies": {"a": ["c"]}}, {"dependencies": {"a": ["b"]}}, ["DEPENDENCY_ARRAY_CHANGED #/dependencies/a"]),
    ({"dependencies": {"a": STRING}}, _object(), ["DEPENDENCY_SCHEMA_ADDED #/dependencies/a"]),
    ({"type": "array", "uniqueItems": True}, {"type": "array"}, ["UNIQUE_ITEMS_ADDED #/uniqueItems"]),
    ({"type": "array", "items": STRING}, {"type": "array"}, ["SCHEMA_ADDED #/items"]),
    ({"type": "array", "items": STRING}, {"type": "array", "items": NUMBER}, ["TYPE_CHANGED #/items"]),
    ({"items": [STRING, STRING]}, {"items": [STRING]}, ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"]),
    (
        {"items": [FLAG], "additionalItems": False},
        {"items": [FLAG, STRING], "additionalItems": False},
        ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    (
        {"items": [FLAG, STRING], "additionalItems": NUMBER},
        {"items": [FLAG], "additionalItems": NUMBER},
        ["ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1", "TYPE_CHANGED #/items/1"],
    ),
    ({"items": [FLAG], "additionalItems": False}, {"items": [FLAG]}, ["ADDITIONAL_ITEMS_REMOVED #/additionalItems"]),
    (
        {**MODERN, "prefixItems": [FLAG], "items": False},
        {**MODERN, "prefixItems": [FLAG]},
        ["ADDITIONAL_ITEMS_REMOVED #/additionalItems"],
    ),
]


@pytest.mark.parametrize(("new", "old", "told"), INCOMPATIBLE)
def test_what_is_not_compatible(new: Any, old: Any, told: list[str]) -> None:
    """What the old schema allows and the new one may not is told with its kind and its place, each in a sentence."""
    found = _findings(new, old)
    assert found == told
    assert all(each.partition(" ")[0] in SENTENCES for each in found)


def test_references_are_compared_by_what_they_lead_to() -> None:
    """A definition that moves is the same; one that changes is told where it is used."""
    inline = _object(a=_object(b=STRING))
    moved = {**_object(a={"$ref": "#/definitions/A"}), "definitions": {"A": _object(b=STRING)}}
    other = {**_object(a={"$ref": "#/definitions/A"}), "definitions": {"A": _object(b=NUMBER)}}
    assert _findings(moved, inline) == _findings(inline, moved) == []
    assert _findings(other, inline) == ["TYPE_CHANGED #/properties/a/properties/b"]


def test_a_recursive_schema_is_compared_once() -> None:
    """A schema that contains itself is compared, and a change deep in it is told once."""
    one = {**_object(next={"$ref": "#"}, value=NUMBER)}
    assert _findings(one, {**one, "title": "t"}) == []
    assert _findings(_object(next={"$ref": "#"}, value=STRING), one) == ["TYPE_CHANGED #/properties/value"]


def _doubling(innermost: Any) -> Any:
    definitions = {"d0": innermost}
    for index in range(1, 60):
        part = {"$ref": f"#/definitions/d{index - 1}"}
        definitions[f"d{index}"] = {"oneOf": [_object(a=part), {"type": "array", "items": part}]}
    return {"$ref": "#/definitions/d59", "definitions": definitions}


def test_definitions_that_refer_to_each_other_exponentially_often_take_no_longer() -> None:
    """2**60 ways lead to the innermost definition, and each pair is judged once."""
    began = time.monotonic()
    assert _findings(_doubling(NUMBER), _doubling(INTEGER)) == []
    assert _findings(_doubling(INTEGER), _doubling(NUMBER)) == ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"]
    assert time.monotonic() - began < 5


def test_what_takes_too_long_is_not_compatible() -> None:
    """Combinations with more pairs than anybody can look at are refused within seconds."""
    old = {"oneOf": [{"type": "string", "maxLength": at} for at in range(2_000)]}
    new = {"oneOf": [{"type": "string", "maxLength": at - 1} for at in range(2_000, 0, -1)] + [NUMBER]}
    began = time.monotonic()
    assert _findings(new, old) == ["TOO_COMPLEX #/"]
    assert time.monotonic() - began < 20


LARGE_PAIRS = {
    "enums": [{"enum": [f"{at}.{each}" for each in range(140)]} for at in range(600)],
    "objects": [{"properties": {f"p{each}": True for each in range(90)}, "title": str(at)} for at in range(700)],
}


@pytest.mark.parametrize("parts", LARGE_PAIRS.values(), ids=LARGE_PAIRS)
def test_large_parts_count_by_their_size(parts: list[Any]) -> None:
    """Each part of a combination may be compared with each other one: large ones end the comparison sooner."""
    began = time.monotonic()
    old = [
        {**part, "minProperties": 5} if "properties" in part else {"enum": [*part["enum"], "more"]} for part in parts
    ]
    new = [{**part, "minProperties": 6} if "properties" in part else part for part in parts]
    assert _findings({"oneOf": new}, {"oneOf": old}) == ["TOO_COMPLEX #/"]
    assert time.monotonic() - began < 20


def test_patterns_are_not_tried_for_ever() -> None:
    """Hard patterns, each tried with each name, end the comparison, and what is known by then is told."""
    patterns: dict[str, Any] = {rf"^(a|a)*?(?=b)\1c{at}": {} for at in range(100)}
    names = {"a" * 500 + str(at): STRING for at in range(1_000)}
    began = time.monotonic()
    assert _findings({**_closed(), "patternProperties": patterns}, _closed(**names))
    assert time.monotonic() - began < 20


def test_a_pattern_that_takes_too_long_covers_nothing() -> None:
    """A pattern that would have to be tried for ever covers no name, so that the property is missed."""
    new = {**_closed(), "patternProperties": {"^(a|aa)+(?=b)c$": {}}}
    began = time.monotonic()
    name = "a" * 200
    found = _findings(new, _closed(**{name: STRING}))
    assert found
    assert time.monotonic() - began < 5


def test_a_largest_matching_hands_partners_on() -> None:
    """Who came first gives a partner up when it fits another one, too."""
    fits = {(0, 0), (0, 1), (1, 0), (2, 1), (2, 2)}
    assert largest_matching(3, 3, lambda one, other: (one, other) in fits) == 3
    assert largest_matching(3, 1, lambda one, other: (one, other) in fits) == 1
    assert largest_matching(2, 3, lambda one, other: other == 0) == 1
