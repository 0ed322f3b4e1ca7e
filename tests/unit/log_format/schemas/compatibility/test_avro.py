"""Avro's compatibility: each rule of schema resolution, with the kind and the path that Confluent's registry names."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from log_format.schemas.compatibility.check import incompatibilities
from log_format.schemas.compatibility.incompatibility import Level
from log_format.schemas.parsed import ParsedSchema
from log_format.schemas.parsing import parse
from log_format.schemas.schema import Schema


def _parsed(value: Any) -> ParsedSchema:
    return parse(Schema(text=json.dumps(value)))


def _record(*fields: Any, name: str = "R", **members: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **members}


def _field(kind: Any, name: str = "f", **members: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **members}


def _enum(*symbols: str, **members: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **members}


def _fixed(size: int, name: str = "F") -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}


def _unread(reader: Any, writer: Any) -> list[tuple[str, str]]:
    return [(each.kind, each.path) for each in incompatibilities(_parsed(reader), _parsed(writer), Level.BACKWARD)]


NUMBERS = ["int", "long", "float", "double"]
PROMOTED = [(reader, writer) for at, writer in enumerate(NUMBERS) for reader in NUMBERS[at:]]
READ = [
    *PROMOTED,
    ("string", "bytes"),
    ("bytes", "string"),
    (["null", "int"], "int"),
    (["null", "int"], "null"),
    (["null", "long", "string"], ["int", "null"]),
    ("long", ["int", "long"]),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
    ({"type": "map", "values": "double"}, {"type": "map", "values": "int"}),
    (_record(), _record(_field("int"))),
    (_record(_field("int", default=1)), _record()),
    (_record(_field(["null", "int"], default=None)), _record()),
    (_record(_field("int", "g", aliases=["f"])), _record(_field("int"))),
    (_record(name="a.R"), _record(name="b.R")),
    (_record(name="Q", aliases=["R"]), _record()),
    (_record(name="a.Q", aliases=["R"]), _record(name="a.R")),
    (_record(name="a.Q", aliases=["b.R"]), _record(name="b.R")),
    (_enum("A", "B"), _enum("A")),
    (_enum("A", default="A"), _enum("A", "B")),
    (_fixed(4), _fixed(4)),
    (_record(_field(["null", "R"])), _record(_field(["null", "R"]))),
]


@pytest.mark.parametrize(("reader", "writer"), READ)
def test_what_is_read(reader: Any, writer: Any) -> None:
    """Promotions, aliases, defaults, wider unions and enums read what was written."""
    assert _unread(reader, writer) == []


UNREAD = [
    *((writer, reader, "TYPE_MISMATCH", "/") for reader, writer in PROMOTED if reader != writer),
    ("boolean", "int", "TYPE_MISMATCH", "/"),
    ("int", {"type": "array", "items": "int"}, "TYPE_MISMATCH", "/"),
    (_fixed(4), "bytes", "TYPE_MISMATCH", "/"),
    ("int", ["int", "string"], "TYPE_MISMATCH", "/"),
    (["null", "int"], "string", "MISSING_UNION_BRANCH", "/"),
    (["null", "int"], ["null", "int", "string"], "MISSING_UNION_BRANCH", "/2"),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, "TYPE_MISMATCH", "/items"),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, "TYPE_MISMATCH", "/values"),
    (_record(_field("int")), _record(), "READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0"),
    (_record(_field("int")), _record(_field("string")), "TYPE_MISMATCH", "/fields/0/type"),
    (
        _record(_field("int", "g", aliases=["h"])),
        _record(_field("int")),
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        "/fields/0",
    ),
    (
        _record(_field("int", "g", aliases=["a", "b"])),
        _record(_field("int", "a"), _field("int", "b")),
        "NAME_MISMATCH",
        "/fields/0",
    ),
    (_record(name="Q"), _record(), "NAME_MISMATCH", "/name"),
    (_record(name="a.Q", aliases=["R"]), _record(name="b.R"), "NAME_MISMATCH", "/name"),
    (_enum("A"), _enum("A", "B"), "MISSING_ENUM_SYMBOLS", "/symbols"),
    (_fixed(4), _fixed(8), "FIXED_SIZE_MISMATCH", "/size"),
    (_fixed(4), _fixed(4, "G"), "NAME_MISMATCH", "/name"),
]


@pytest.mark.parametrize(("reader", "writer", "kind", "path"), UNREAD)
def test_what_is_not_read(reader: Any, writer: Any, kind: str, path: str) -> None:
    """What a reader can't read is told with its kind and its place."""
    assert _unread(reader, writer) == [(kind, path)]


def test_each_reason_is_told() -> None:
    """Somebody who mends a schema sees all that is wrong at once, in the order of the schema."""
    reader = _record(_field("int"), _field("int", "g"), _field(_enum("A"), "h"))
    writer = _record(_field("string"), _field(_enum("A", "B"), "h"))
    assert _unread(reader, writer) == [
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1"),
        ("TYPE_MISMATCH", "/fields/0/type"),
        ("MISSING_ENUM_SYMBOLS", "/fields/2/type/symbols"),
    ]


def test_messages_have_what_programs_look_for() -> None:
    """A message names type and field, and says which of the schemas is the new one."""
    without, with_field = _parsed(_record()), _parsed(_record(_field("int")))
    (backward,) = incompatibilities(with_field, without, Level.BACKWARD)
    assert backward.message == (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'f' at '/fields/0' in the new schema has no "
        "default value and is missing in the old schema', additionalInfo:'f'}"
    )
    (forward,) = incompatibilities(without, with_field, Level.FORWARD)
    assert "in the old schema has no default value and is missing in the new schema" in forward.description


def test_an_assumption_that_fails_is_not_believed() -> None:
    """A type of a union is judged while its record is being judged; when that fails, what was assumed of it is judged again.

    Assuming that R holds, Q holds; R does not, since its field g is missing; so a union that needs Q for anything else fails.
    """
    writer = _record(
        _field(["null", _record(_field("R", "back"), name="Q")]),
        _field(["null", "Q"], "again"),
    )
    reader = _record(
        _field(["null", _record(_field("R", "back"), name="Q")]),
        _field(["null", "Q"], "again"),
        _field("int", "g"),
    )
    found = _unread(reader, writer)
    assert ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/2") in found
    assert ("MISSING_UNION_BRANCH", "/fields/0/type/1") in found
    assert ("MISSING_UNION_BRANCH", "/fields/1/type/1") in found


def _doubling(innermost: Any, depth: int) -> Any:
    kind = _record(_field(innermost), name="R0")
    for index in range(1, depth):
        kind = _record(_field(kind, "a"), _field(f"R{index - 1}", "b"), name=f"R{index}")
    return kind


def test_types_that_refer_to_each_other_exponentially_often_take_no_longer() -> None:
    """Each pair is judged and told once, though 2**60 places have it."""
    began = time.monotonic()
    assert _unread(_doubling("int", 60), _doubling("int", 60)) == []
    (found,) = _unread(_doubling("int", 60), _doubling("string", 60))
    assert found[0] == "TYPE_MISMATCH"
    assert time.monotonic() - began < 5


def test_what_takes_too_long_is_not_compatible() -> None:
    """Schemas with more pairs than anybody can look at are refused within seconds, and never let through."""
    fields = [_field("int", f"f{index}") for index in range(20)]
    written = [_record(*fields, name=f"n{space}.R") for space in range(400)]
    read = [_record(*fields, _field("int", "g"), name=f"n{space}.R") for space in range(399)] + [
        _record(*fields, name="last.R")
    ]
    began = time.monotonic()
    assert _unread(read, written) == [("TOO_COMPLEX", "/")]
    assert time.monotonic() - began < 20


def test_a_long_chain_of_types_is_not_compatible() -> None:
    """A chain that is longer than Python's stack is refused, not fallen over; with itself every schema is compatible."""
    kinds = [_record(_field("int"), name="R0"), *(_record(_field(f"R{at - 1}"), name=f"R{at}") for at in range(1, 300))]
    references = [("R299", json.dumps(kinds))]
    chain = parse(Schema(text=json.dumps(_record(_field("R299")))), references)
    longer = parse(Schema(text=json.dumps(_record(_field("R299"), _field("int", "more")))), references)
    assert [found.kind for found in incompatibilities(chain, longer, Level.BACKWARD)] == ["TOO_COMPLEX"]
    assert incompatibilities(chain, chain, Level.FULL) == []
