"""Protobuf's compatibility: each rule, with the kind and the path that Confluent's registry names."""

from __future__ import annotations

import itertools
import time

import pytest

from log_format.schemas.compatibility.check import incompatibilities
from log_format.schemas.compatibility.incompatibility import Level
from log_format.schemas.compatibility.protobuf import SENTENCES
from log_format.schemas.parsed import ParsedSchema
from log_format.schemas.parsing import parse
from log_format.schemas.schema import Schema, SchemaType


def _parsed(text: str, *references: tuple[str, str]) -> ParsedSchema:
    return parse(Schema(text=text, type=SchemaType.PROTOBUF), references)


def _told(new: ParsedSchema, old: ParsedSchema) -> list[str]:
    return [f"{each.kind} {each.path}" for each in incompatibilities(new, old, Level.BACKWARD)]


def _proto3(members: str) -> str:
    return f'syntax = "proto3"; message M {{ {members} }} message N {{}} message O {{}} enum E {{ Z = 0; }}'


def _proto2(members: str) -> str:
    return f"message M {{ {members} }}"


GROUPS = [
    ["int32", "int64", "uint32", "uint64", "bool", "E"],
    ["sint32", "sint64"],
    ["string", "bytes"],
    ["fixed32", "sfixed32"],
    ["fixed64", "sfixed64"],
    ["float"],
    ["double"],
]
KINDS = [(kind, number) for number, kinds in enumerate(GROUPS) for kind in kinds]


@pytest.mark.parametrize(("new", "old"), list(itertools.product(KINDS, KINDS)))
def test_scalars_read_their_own_group(new: tuple[str, int], old: tuple[str, int]) -> None:
    """What is alike on the wire reads each other, and nothing else does."""
    found = _told(_parsed(_proto3(f"{new[0]} a = 1;")), _parsed(_proto3(f"{old[0]} a = 1;")))
    assert found == ([] if new[1] == old[1] else ["FIELD_SCALAR_KIND_CHANGED #/M/1"])


COMPATIBLE = [
    (_proto3(""), _proto3("int32 a = 1;")),
    (_proto3("int32 a = 1;"), _proto3("")),
    (_proto3("int32 b = 1;"), _proto3("int32 a = 1;")),
    (_proto3("repeated int32 a = 1;"), _proto3("int32 a = 1;")),
    (_proto3("repeated string a = 1;"), _proto3("optional string a = 1;")),
    (_proto3("oneof o { int32 a = 1; }"), _proto3("int32 a = 1;")),
    (_proto3("oneof o { int32 a = 1; int32 b = 2; }"), _proto3("int32 a = 1;")),
    (_proto3("int32 a = 1; int32 b = 2;"), _proto3("oneof o { int32 a = 1; int32 b = 2; }")),
    (_proto3(""), _proto3("oneof o { int32 a = 1; int32 b = 2; }")),
    (_proto3("oneof p { int32 a = 1; }"), _proto3("oneof o { int32 a = 1; }")),
    (_proto3("optional int32 a = 1;"), _proto3("int32 a = 1;")),
    (_proto3("map<string, bytes> a = 1;"), _proto3("map<bytes_, string> a = 1;".replace("bytes_", "string"))),
    (_proto3("") + "message More {}", _proto3("")),
    ("message B {} message A {}", "message A {} message B {}"),
    ("enum E { A = 0; C = 2; } message M {}", "enum E { A = 0; B = 1; } enum F { G = 0; } message M {}"),
    ('syntax = "proto3"; message M { int32 a = 1; }', "message M { optional int64 a = 1; }"),
]


@pytest.mark.parametrize(("new", "old"), COMPATIBLE)
def test_what_is_compatible(new: str, old: str) -> None:
    """Fields come and go, names mean nothing, and fields may leave a oneof, or one may enter it."""
    assert _told(_parsed(new), _parsed(old)) == []


INCOMPATIBLE = [
    ("package a; message M {}", "package b; message M {}", ["PACKAGE_CHANGED #/"]),
    ("message N {}", "message M {}", ["MESSAGE_REMOVED #/M"]),
    ("message M {}", "message M { message N {} }", ["MESSAGE_REMOVED #/M/N"]),
    (_proto3("N a = 1;"), _proto3("int32 a = 1;"), ["FIELD_KIND_CHANGED #/M/1"]),
    (_proto3("E a = 1;"), _proto3("N a = 1;"), ["FIELD_KIND_CHANGED #/M/1"]),
    (_proto3("N a = 1;"), _proto3("map<string, N> a = 1;"), ["FIELD_KIND_CHANGED #/M/1"]),
    (_proto3("O a = 1;"), _proto3("N a = 1;"), ["FIELD_NAMED_TYPE_CHANGED #/M/1"]),
    (_proto3("map<string, O> a = 1;"), _proto3("map<string, N> a = 1;"), ["FIELD_NAMED_TYPE_CHANGED #/M/1"]),
    (_proto3("map<int32, N> a = 1;"), _proto3("map<string, N> a = 1;"), ["FIELD_SCALAR_KIND_CHANGED #/M/1"]),
    (_proto3("repeated int32 a = 1;"), _proto3("optional int32 a = 1;"), ["FIELD_NUMERIC_LABEL_CHANGED #/M/1"]),
    (_proto2("repeated double a = 1;"), _proto2("optional double a = 1;"), ["FIELD_NUMERIC_LABEL_CHANGED #/M/1"]),
    (_proto2("required int32 a = 1;"), _proto2(""), ["REQUIRED_FIELD_ADDED #/M/1"]),
    (_proto2(""), _proto2("required int32 a = 1;"), ["REQUIRED_FIELD_REMOVED #/M/1"]),
    (
        _proto3("oneof o { int32 a = 1; }"),
        _proto3("oneof o { int32 a = 1; int32 b = 2; }"),
        ["ONEOF_FIELD_REMOVED #/M/o/2"],
    ),
    (_proto3("int32 a = 1;"), _proto3("oneof o { int32 a = 1; int32 b = 2; }"), ["ONEOF_FIELD_REMOVED #/M/o/2"]),
    (
        _proto3("oneof o { int32 a = 1; int32 b = 2; }"),
        _proto3("int32 a = 1; int32 b = 2;"),
        ["MULTIPLE_FIELDS_MOVED_TO_ONEOF #/M/o"],
    ),
    (
        _proto3("oneof o { int32 a = 1; int32 b = 2; }"),
        _proto3("int32 a = 1; oneof o { int32 b = 2; }"),
        ["FIELD_MOVED_TO_EXISTING_ONEOF #/M/o"],
    ),
    (
        _proto3("oneof o { string a = 1; }"),
        _proto3("oneof o { int32 a = 1; }"),
        ["FIELD_SCALAR_KIND_CHANGED #/M/o/1"],
    ),
    ("message M { message N { optional int32 a = 1; } }", "message M { message N { optional string a = 1; } }",
     ["FIELD_SCALAR_KIND_CHANGED #/M/N/1"]),
]  # fmt: skip


@pytest.mark.parametrize(("new", "old", "told"), INCOMPATIBLE)
def test_what_is_not_compatible(new: str, old: str, told: list[str]) -> None:
    """What a reader would miss or misread is told with its kind and its place."""
    assert _told(_parsed(new), _parsed(old)) == told


def test_sentences_say_which_schema() -> None:
    """A message says which of the schemas is the new one, in the direction that is judged."""
    new, old = _parsed("message N {}"), _parsed("message M {}")
    (backward,) = incompatibilities(new, old, Level.BACKWARD)
    assert backward.message == (
        '{errorType:"MESSAGE_REMOVED", description:"The new schema lacks the message at \'#/M\' of the old schema"}'
    )
    (forward,) = incompatibilities(new, old, Level.FORWARD)
    assert forward.description == "The old schema lacks the message at '#/N' of the new schema"
    assert all(sentence.count("{reader}") == 1 for sentence in SENTENCES.values())


def test_imported_types_are_compared_where_they_are_used() -> None:
    """A change in an imported message is told of that message, and of the field that has it."""
    text = 'syntax = "proto3"; import "other.proto"; message M { Other a = 1; }'
    versions = [
        f'syntax = "proto3"; message Other {{ Inner i = 1; message Inner {{ {kind} x = 1; }} }}'
        for kind in ("int32", "string")
    ]
    one, other = (_parsed(text, ("other.proto", version)) for version in versions)
    assert _told(one, other) == [
        "FIELD_NAMED_TYPE_CHANGED #/M/1",
        "FIELD_NAMED_TYPE_CHANGED #/Other/1",
        "FIELD_SCALAR_KIND_CHANGED #/Other/Inner/1",
    ]
    moved = _parsed('syntax = "proto3"; message M { Other a = 1; } ' + versions[0].partition(";")[2])
    assert _told(moved, one) == []


def test_recursive_imports_are_compared_once() -> None:
    """Messages that refer to each other exponentially often are judged once each, those that contain themselves, too."""
    lines = [
        "message R0 { %s x = 1; R39 top = 2; }",
        *(f"message R{at} {{ R{at - 1} a = 1; R{at - 1} b = 2; }}" for at in range(1, 40)),
    ]
    text = 'syntax = "proto3"; import "other.proto"; message M { R39 a = 1; }'
    one, other = (
        _parsed(text, ("other.proto", 'syntax = "proto3"; ' + "".join(lines).replace("%s", kind)))
        for kind in ("int32", "string")
    )
    began = time.monotonic()
    assert "FIELD_SCALAR_KIND_CHANGED #/R0/1" in _told(one, other)
    assert _told(one, one) == []
    assert time.monotonic() - began < 5
