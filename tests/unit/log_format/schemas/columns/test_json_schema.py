"""JSON Schema as columns: which members get one, what is checked besides, and what is refused."""

from __future__ import annotations

import json
import socket
from typing import Any

import pyarrow as pa
import pytest

from log_format.records.schema import TIMESTAMP
from log_format.schemas.columns.documents import Documents
from log_format.schemas.columns.json_schema import json_documents
from log_format.schemas.columns.shape import Untypable

PERSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "born": {"type": "string", "format": "date"},
        "seen": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
        "paid": {"type": "string", "format": "decimal", "precision": 10, "scale": 2},
        "home": {"$ref": "#/$defs/Address"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "scores": {"type": "object", "additionalProperties": {"type": "number"}},
        "anything": {},
    },
    "required": ["id"],
    "$defs": {"Address": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
}


def judged(documents: Documents, *values: Any) -> list[str | None]:
    """What is wrong with each value, by its path; None: nothing."""
    _, faults = documents.column_of(pa.array([json.dumps(value).encode() for value in values], pa.binary()))
    return [faults[row].path if row in faults else None for row in range(len(values))]


def test_members_of_one_type_have_columns() -> None:
    """A member without a single type has none."""
    assert json_documents(json.dumps(PERSON)).type == pa.struct(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("born", pa.date32()),
            ("seen", TIMESTAMP),
            ("paid", pa.decimal128(10, 2)),
            ("home", pa.struct([("city", pa.string())])),
            ("tags", pa.list_(pa.field("element", pa.string()))),
            ("scores", pa.map_(pa.string(), pa.float64())),
        ]
    )


def test_wrong_documents_are_named_by_their_path() -> None:
    """Missing members, nulls and types; further members are allowed here."""
    wrong = [{"id": 1, "name": None, "further": 1}, {}, {"id": 1, "born": None}, {"id": 1, "home": {}}, {"id": "1"}]
    wrong += [{"id": 1, "tags": ["a", 1]}, {"id": 1, "scores": {"x": "y"}}]
    assert judged(json_documents(json.dumps(PERSON)), *wrong) == [
        *(None, "id", "born", "home.city", "id", "tags[1]", "scores.x")
    ]


@pytest.mark.parametrize(
    ("keyword", "right", "wrong"),
    [
        ({"minimum": 3}, 3, 2),
        ({"multipleOf": 2}, 4, 5),
        ({"enum": [1, 2]}, 1, 3),
        ({"exclusiveMaximum": 7}, 6, 7),
    ],
)
def test_what_a_type_cant_say_is_checked_too(keyword: dict[str, Any], right: int, wrong: int) -> None:
    """Document by document, with the path."""
    schema = {"type": "object", "properties": {"a": {"type": "integer", **keyword}, "b": {"type": "integer"}}}
    assert judged(json_documents(json.dumps(schema)), {"a": right}, {"a": wrong}) == [None, "a"]


def test_a_member_without_a_column_is_checked_too() -> None:
    """It has several types, each with its rules."""
    mixed = {"type": ["integer", "string"], "maxLength": 2}
    schema = {"type": "object", "properties": {"a": mixed, "b": {"type": "integer"}}}
    assert judged(json_documents(json.dumps(schema)), {"a": 1}, {"a": "xy"}, {"a": "xyz"}) == [None, None, "a"]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "string"}, "no object with properties"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "contains itself"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/B"}}}, "is not there"),
        ({"type": "object", "properties": {"a": {"if": {"type": "integer"}}}}, "keyword 'if'"),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": {"type": ["null"]}}}},
            "rules for its parts",
        ),
        ({"type": "object", "properties": {"a": {"type": "integer", "$id": "x"}}}, "a name of its own"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/B", "minimum": 1}}}, "keywords beside"),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]}, "does not describe"),
        ({"type": "object", "properties": {"a b": {"type": "string"}}}, "a name that a column can't have"),
    ],
)
def test_what_columns_cant_have_is_refused(schema: Any, reason: str) -> None:
    """With the place."""
    with pytest.raises(Untypable, match=reason):
        json_documents(json.dumps(schema))


def test_members_without_parts_are_checked_by_their_type() -> None:
    """An array or object whose parts are not described has no column, and must be one all the same."""
    schema = {"type": "object", "properties": {"a": {"type": "array"}, "b": {"type": "integer"}}, "required": ["a"]}
    assert judged(json_documents(json.dumps(schema)), {"a": [1]}, {"a": "x"}, {"b": 1}) == [None, "a", ""]


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"z":' + b"[" * 600 + b"]" * 600 + b"}",
        b'{"a":1,"\\ud800":2}',
        b'{"a":1,"z":1e999999999}',
    ],
)
def test_no_document_ends_in_an_error(text: bytes) -> None:
    """What can't be checked is refused by name; the reason is text that an answer can have."""
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}}}
    _, faults = json_documents(json.dumps(schema)).column_of(pa.array([text, b'{"a":1}'], pa.binary()))
    assert 1 not in faults
    for fault in faults.values():
        fault.what.encode()


def test_nothing_is_fetched() -> None:
    """Neither a reference nor the name of a draft makes the gateway ask an address that somebody wrote into a schema."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema"
        member = {"type": "integer", "minimum": 1}
        for part in (
            {"$schema": address},
            {"allOf": [{"$ref": address}]},
            {"not": {"$schema": address, "type": "null"}},
        ):
            schema = {"type": "object", "properties": {"a": member}, **part}
            try:
                json_documents(json.dumps(schema)).column_of(pa.array([b'{"a":1}'], pa.binary()))
            except Untypable:
                continue
        with pytest.raises(TimeoutError):
            server.accept()
