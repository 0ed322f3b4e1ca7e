"""JSON Schema with allOf, oneOf, anyOf and not: which columns there are, how a record is judged, what can't be typed and why."""

from __future__ import annotations

import json
import time
from typing import Any, Final

import pyarrow as pa
import pytest

from log_format.schemas.columns.codec import SchemaReader
from log_format.schemas.columns.documents import Documents
from log_format.schemas.columns.json_schema import json_documents
from log_format.schemas.columns.json_shapes import RULES_MAX
from log_format.schemas.columns.shape import Untypable
from log_format.schemas.schema import Schema, SchemaType

_KIND: Final = {"type": "string"}
CIRCLE: Final = {
    "type": "object",
    "properties": {"kind": {**_KIND, "const": "circle"}, "size": {"type": "number"}},
    "required": ["kind"],
}
SQUARE: Final = {
    "type": "object",
    "properties": {"kind": {**_KIND, "const": "square"}, "size": {"type": "integer"}},
    "required": ["kind"],
}
SHAPES: Final = {
    "type": "object",
    "properties": {
        "shape": {"oneOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}, {"type": "null"}]},
        "id": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    },
    "$defs": {"Circle": CIRCLE, "Square": SQUARE},
}


def _documents(schema: Any, **others: Any) -> Documents:
    return json_documents(json.dumps(schema), {name: json.dumps(other) for name, other in others.items()})


def _of(documents: Documents, *values: Any) -> list[Any]:
    """Each value's column, or what is wrong, with its path."""
    column, faults = documents.column_of(pa.array([json.dumps(value).encode() for value in values], pa.binary()))
    return [
        f"{faults[row].path}: {faults[row].what}" if row in faults else value
        for row, value in enumerate(column.to_pylist())
    ]


def test_a_choice_is_a_struct_with_one_member_set() -> None:
    """Members have the names of definitions or types; which one is set is told by the branch's whole schema, not by its types."""
    documents = _documents(SHAPES)
    circle = pa.struct([("kind", pa.string()), ("size", pa.float64())])
    square = pa.struct([("kind", pa.string()), ("size", pa.int64())])
    union = pa.struct([("Circle", circle), ("Square", square)])
    assert documents.type == pa.struct(
        [("shape", union), ("id", pa.struct([("integer", pa.int64()), ("string", pa.string())]))]
    )
    assert _of(documents, {"shape": {"kind": "square", "size": 2}, "id": "x"}, {"shape": None, "id": 7}, {}) == [
        {"shape": {"Circle": None, "Square": {"kind": "square", "size": 2}}, "id": {"integer": None, "string": "x"}},
        {"shape": None, "id": {"integer": 7, "string": None}},
        {"shape": None, "id": None},
    ]


def test_a_value_of_no_branch_is_refused_by_its_path() -> None:
    """And so is one that two branches of ``oneOf`` take."""
    documents = _documents(SHAPES)
    (unknown, wrong) = _of(documents, {"shape": {"kind": "cube"}}, {"id": 1.5})
    assert unknown == "shape: it must be one of Circle, Square, not an object"
    assert wrong == "id: it must be one of integer, string, not a number"
    both = _documents({"type": "object", "properties": {"n": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}})
    fine, twice = _of(both, {"n": 0.5}, {"n": 1})
    assert fine == {"n": {"integer": None, "number": 0.5}}
    assert twice.startswith("n: ")


def test_the_whole_document_may_be_a_choice() -> None:
    """``data`` is the struct then."""
    documents = _documents({"oneOf": [CIRCLE | {"title": "Circle"}, SQUARE | {"title": "Square"}]})
    assert documents.type.names == ["Circle", "Square"]
    assert _of(documents, {"kind": "circle", "size": 1.5}) == [
        {"Circle": {"kind": "circle", "size": 1.5}, "Square": None}
    ]


def test_parts_of_all_of_have_their_columns_together() -> None:
    """Also by references into other schemas, whose own references lead into themselves."""
    base = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"id": {"$ref": "#/$defs/Id"}},
        "$defs": {"Id": {"type": "integer"}},
    }
    schema = {
        "allOf": [{"$ref": "base"}, {"properties": {"id": {"minimum": 3}, "note": {"$ref": "#/$defs/Note"}}}],
        "required": ["note"],
        "$defs": {"Note": {"type": ["string", "null"]}, "Id": {"type": "boolean"}},
    }
    documents = _documents(schema, base=base)
    assert documents.type == pa.struct([("id", pa.int64()), ("note", pa.string())])
    fine, low, missing = _of(documents, {"id": 3, "note": None}, {"id": 2, "note": "n"}, {"id": 3})
    assert fine == {"id": 3, "note": None}
    assert low == "id: 2 is less than the minimum of 3"
    assert missing == "note: it is missing"


def test_rules_beside_members_bring_no_columns() -> None:
    """``anyOf`` of required members, and ``not``, are checked."""
    schema = {
        "type": "object",
        "properties": {"mail": {"type": "string"}, "phone": {"type": "string"}},
        "anyOf": [{"required": ["mail"]}, {"required": ["phone"]}],
        "not": {"properties": {"mail": {"const": "x"}}, "required": ["mail"]},
    }
    documents = _documents(schema)
    assert documents.type == pa.struct([("mail", pa.string()), ("phone", pa.string())])
    found = _of(documents, {"mail": "a"}, {"phone": "1"}, {}, {"mail": "x"})
    assert found[:2] == [{"mail": "a", "phone": None}, {"mail": None, "phone": "1"}]
    assert all(isinstance(one, str) for one in found[2:])


def test_branches_of_one_type_are_that_type() -> None:
    """Constants with titles, the usual way to describe an enumeration, are a string."""
    states = [{"type": "string", "const": name, "title": f"State {name}"} for name in ("on", "off")]
    documents = _documents({"type": "object", "properties": {"state": {"oneOf": states}}})
    assert documents.type == pa.struct([("state", pa.string())])
    fine, wrong = _of(documents, {"state": "on"}, {"state": "x"})
    assert fine == {"state": "on"}
    assert wrong.startswith("state: ")


_OBJECT: Final = {"type": "object", "properties": {"x": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        ({"oneOf": [_OBJECT, CIRCLE]}, "two branches called 'object': give each a title"),
        ({"oneOf": [{"type": "integer"}, {"const": "x"}]}, r"branch 2 \(any\) has no single type"),
        ({"anyOf": [{"type": "integer"}, {}]}, r"branch 2 \(any\) has no single type"),
        ({**_OBJECT, "oneOf": [{"properties": {"y": {"type": "integer"}}}, {}]}, "describes 'y' in a choice beside"),
        ({"oneOf": [_OBJECT], "anyOf": [_OBJECT]}, "oneOf beside anyOf"),
        ({"allOf": [{"type": "integer"}, {"type": "string"}]}, "allows no value"),
        ({"allOf": [{"type": "integer"}, False]}, "allows no value"),
        ({"allOf": [{"type": "string", "format": "date"}, {"format": "date-time"}]}, "the keyword 'format'"),
        ({"allOf": [{"$ref": "#/$defs/R"}]}, "contains itself"),
        ({"type": "string", "not": {"$ref": "#/$defs/R"}}, "contains itself"),
        ({"type": "object", "anyOf": [{"propertyNames": {"minLength": 1}}]}, "the keyword 'propertyNames'"),
        ({"type": "integer", "not": {"if": {"const": 1}}}, "the keyword 'if'"),
        ({"type": "integer", "not": {"$ref": "#/$defs/None"}}, "is not there"),
        ({"oneOf": [{"title": "a b", **_OBJECT}, {"type": "integer"}]}, "a name that a column can't have"),
    ],
)
def test_what_has_no_sound_column_is_refused_by_name(member: Any, reason: str) -> None:
    """With the place, and the way out where there is one."""
    schema = {"type": "object", "properties": {"m": member}, "$defs": {"R": {"allOf": [{"$ref": "#/$defs/R"}]}}}
    with pytest.raises(Untypable, match=f"^m.*{reason}"):
        _documents(schema)


def test_the_work_of_a_check_is_bounded() -> None:
    """Definitions that double with each step are counted where they are used, and found at once."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        doubled = {f"D{n}": {keyword: [{"$ref": f"#/$defs/D{n + 1}"}] * 2} for n in range(30)}
        schema = {"type": "object", "properties": {"m": {"$ref": "#/$defs/D0"}, "n": {"type": "integer", "not": {}}}}
        began = time.process_time()
        with pytest.raises(Untypable, match=f"more than {RULES_MAX} schemas|nested too deep"):
            _documents(schema | {"$defs": doubled | {"D30": {"type": "integer"}}})
        assert time.process_time() - began < 2


def test_a_document_that_would_be_checked_for_seconds_is_refused() -> None:
    """The more rules a schema has, the smaller is the largest document: 330,000 items took five seconds by 240 rules."""
    branches = [{"type": "integer", "minimum": 10**9 + number} for number in range(240)]
    documents = _documents(
        {"type": "object", "properties": {"m": {"type": "array", "items": {"anyOf": [*branches, {"type": "integer"}]}}}}
    )
    began = time.process_time()
    (large,) = _of(documents, {"m": [1] * 330_000})
    assert large.startswith(": it has 990,007 bytes")
    assert _of(documents, {"m": [1] * 10_000}) == [{"m": [1] * 10_000}]
    assert time.process_time() - began < 2


def test_columns_from_the_sender_have_the_branch_that_their_document_has() -> None:
    """A row whose set member is not its document's branch is refused: its value would say something else than its columns."""
    reader = SchemaReader(Schema(type=SchemaType.JSON, text=json.dumps(SHAPES)))
    square = {"kind": "square", "size": 2}
    rows = [
        {"shape": {"Circle": None, "Square": square}, "id": {"integer": 1, "string": None}},
        {"shape": {"Circle": {"kind": "square", "size": 2.0}, "Square": None}, "id": None},
    ]
    _, faults = reader.given(pa.array(rows, reader.type), 10_000)
    assert list(faults) == [1]
    assert "first that takes" in faults[1].what
