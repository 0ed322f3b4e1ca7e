"""Protobuf: which column a type gets, which values are refused by which name, and what can't be typed."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

from log_format.errors import BackOff
from log_format.records.schema import TIMESTAMP
from log_format.records.typed_columns import TypeConflict
from log_format.schemas.changes import Register, compared
from log_format.schemas.columns.codec import SchemaReader, SubjectReader
from log_format.schemas.columns.protobuf_values import ProtobufValues, protobuf_values
from log_format.schemas.columns.shape import LibraryNeeded, Untypable
from log_format.schemas.columns.subject_readers import make_readers
from log_format.schemas.decision import Decided
from log_format.schemas.schema import Schema, SchemaType
from log_format.schemas.state import SchemasState
from log_format.topic.config import Subjects

_IMPORTS = "".join(
    f'import "google/protobuf/{name}.proto"; '
    for name in ("timestamp", "wrappers", "duration", "struct", "any", "field_mask", "empty")
)


def _proto3(body: str) -> str:
    return f'syntax = "proto3"; package p; {_IMPORTS} enum E {{ A = 0; B = 1; }} {body}'


def _reader(body: str) -> ProtobufValues:
    return protobuf_values(_proto3(body), [])


def _one(reader: ProtobufValues, body: bytes) -> tuple[object, str | None]:
    """The column's value of a message's bytes, and how it is refused; the same by the bulk and alone."""
    value = b"\0\0\0\0\1" + reader.prefix + body
    column, faults = reader.framed(pa.array([value], pa.binary()))
    many, others = reader.framed(pa.array([value] * 20, pa.binary()))
    assert set(others) == (set(range(20)) if faults else set())
    if not faults:
        assert repr(many[19].as_py()) == repr(column[0].as_py())
        return column[0].as_py(), None
    assert others[19] == faults[0]
    return None, f"{faults[0].path}: {faults[0].what}"


def test_each_type_has_its_column() -> None:
    """As docs/typed-topics.md lists them."""
    text = """message M { int32 a = 1; sint64 b = 2; uint32 c = 3; fixed64 d = 4; float e = 5; bool f = 6; string g = 7;
        bytes h = 8; E i = 9; google.protobuf.Timestamp j = 10; google.protobuf.StringValue k = 11; repeated uint64 l = 12;
        map<int64, E> m = 13; oneof n { int32 o = 14; N q = 15; } google.protobuf.Duration r = 16; google.protobuf.Any s = 17;
        google.protobuf.FieldMask t = 18; google.protobuf.Empty u = 19; } message N { optional bool x = 1; }"""
    n = pa.struct([("x", pa.bool_())])
    wanted = {
        "a": pa.int32(),
        "b": pa.int64(),
        "c": pa.int64(),
        "d": pa.decimal128(20, 0),
        "e": pa.float32(),
        "f": pa.bool_(),
        "g": pa.string(),
        "h": pa.binary(),
        "i": pa.string(),
        "j": TIMESTAMP,
        "k": pa.string(),
        "l": pa.list_(pa.field("element", pa.decimal128(20, 0))),
        "m": pa.map_(pa.string(), pa.string()),
        "n": pa.struct([("o", pa.int32()), ("q", n)]),
        "r": pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())]),
        "s": pa.struct([("type_url", pa.string()), ("value", pa.binary())]),
        "t": pa.struct([("paths", pa.list_(pa.field("element", pa.string())))]),
    }
    assert _reader(text).type == pa.struct(list(wanted.items()))


def test_absent_fields_are_their_default_or_null() -> None:
    """Without presence the default, with it null; lists and maps are empty; no member of a oneof is set."""
    reader = _reader(
        """message M { int32 a = 1; optional int32 b = 2; E c = 3; repeated int32 d = 4; map<string, int32> e = 5;
        oneof f { int32 g = 6; string h = 7; } google.protobuf.Int32Value i = 8; google.protobuf.Timestamp j = 9; }"""
    )
    absent: dict[str, object] = {"a": 0, "b": None, "c": "A", "d": [], "e": [], "f": None, "i": None, "j": None}
    assert _one(reader, b"") == (absent, None)
    assert _one(reader, b"\x30\x00\x42\x00") == (absent | {"f": {"g": 0, "h": None}, "i": 0}, None)


_NO_MESSAGE = ": its bytes are no message of Protobuf: they end within a field, are damaged, or nested too deep"


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"\x08\x80\x80\x80\x80\x10", "a: it must be from -2147483648 to 2147483647"),
        (b"\x10\x02", "b: it must be a boolean, 0 or 1"),
        (b"\x18\x07", "c: its number 7 is none of the enum: A (0), B (1)"),
        (b"\x22\x02\xc3\x28", "d: it is not UTF-8"),
        (b"\x22\x05ab", _NO_MESSAGE),
        (b"\x08\x01\x00", _NO_MESSAGE),
        (b"\x22\x01a\x0d\1\1\1\1", "a: its bytes are not of its type"),
        (
            b"\x2a\x02\x10\x01\x2a\x07\x08\xff\xff\xff\xff\xff\x7f",
            "e: it must be from 0001-01-01 to 9999-12-31, with 0 to 999,999,999 nanoseconds",
        ),
        (b"\x32\x05\x08\x80\x80\x80\x80\x32\x00", _NO_MESSAGE),
    ],
)
def test_what_is_wrong_has_a_name(body: bytes, wanted: str) -> None:
    """With the path where the library reads the bytes, and nothing is cut off or taken as absent."""
    reader = _reader(
        "message M { int32 a = 1; bool b = 2; E c = 3; string d = 4; google.protobuf.Timestamp e = 5; repeated N f = 6; } "
        "message N { uint32 x = 1; }"
    )
    assert _one(reader, body) == (None, wanted)


def test_fields_in_any_order_again_and_unknown_are_read_as_the_library_reads_them() -> None:
    """The last one counts, messages are merged, unknown ones are skipped, lists may be packed or not."""
    reader = _reader(
        "message M { int32 a = 1; N b = 2; repeated int32 c = 3; } message N { int32 x = 1; int32 y = 2; }"
    )
    body = b"\x18\x05\x12\x02\x08\x01\x08\x01\x08\x02\x1a\x02\x06\x07\x12\x02\x10\x09\xfa\x01\x01z"
    assert _one(reader, body) == ({"a": 2, "b": {"x": 1, "y": 9}, "c": [5, 6, 7]}, None)


def test_forms_that_serializers_do_not_write_are_read_as_the_library_reads_them() -> None:
    """Two members of a oneof, two entries of one key, entries without a key or a value: the last one counts, what lacks is its
    default. The bulk says the same as one alone."""
    reader = _reader(
        "message M { oneof o { int32 a = 1; string b = 2; } map<string, int32> m = 3; map<int32, N> n = 4; N e = 5; } "
        "message N { repeated int32 x = 1; }"
    )
    absent: dict[str, object] = {"o": None, "m": [], "n": [], "e": None}
    for body, wanted in (
        (b"\x08\x01\x12\x01b", {"o": {"a": None, "b": "b"}}),
        (b"\x1a\x05\x0a\x01k\x10\x01\x1a\x05\x0a\x01k\x10\x02", {"m": [("k", 2)]}),
        (b"\x1a\x02\x10\x07\x1a\x03\x0a\x01k", {"m": [("", 7), ("k", 0)]}),
        (b"\x22\x00\x22\x02\x08\x05", {"n": [("0", {"x": []}), ("5", {"x": []})]}),
        (b"\x2a\x02\x08\x01\x2a\x03\x0a\x01\x02", {"e": {"x": [1, 2]}}),
    ):
        assert _one(reader, body) == (absent | wanted, None)


def test_fields_may_have_the_names_of_the_librarys_methods() -> None:
    """And of anything else: a name of a schema is never one of the program's."""
    names = ("HasField", "Clear", "FromString", "DESCRIPTOR", "__class__", "class", "None", "WhichOneof", "f2", "mro")
    fields = " ".join(f"optional int32 {name} = {number};" for number, name in enumerate(names, 1))
    text = f'syntax = "proto2"; message M {{ {fields} repeated f2 Add = 11; map<int32, f2> m0 = 12; extensions 100 to 200; '
    reader = protobuf_values(text + "message f2 { optional int32 HasField = 1; enum f1 { o0 = 0; } } }", [])
    body = b"".join(bytes([number << 3, number]) for number in range(1, 11))
    wanted = {name: number for number, name in enumerate(names, 1)} | {
        "Add": [{"HasField": 7}],
        "m0": [("5", {"HasField": 6})],
    }
    more = b"\x5a\x02\x08\x07\x62\x06\x08\x05\x12\x02\x08\x06"
    assert _one(reader, body + more) == (wanted, None)
    assert _one(reader, more + body) == (wanted, None)


def test_a_program_without_the_library_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no fault of the schema: what needs it waits for a program that has it."""
    monkeypatch.setitem(sys.modules, "log_format.schemas.columns.protobuf_values", None)
    schema = Schema(text=_proto3("message M { int32 a = 1; }"), type=SchemaType.PROTOBUF)
    with pytest.raises(LibraryNeeded, match="needs the package protobuf"):
        SchemaReader(schema)
    decided = Register(subject="s", schema=schema, compared=compared(SchemasState(), "s")).decide(SchemasState(), 0)
    assert isinstance(decided, Decided)
    state = SchemasState().after((decided.changes,))
    with pytest.raises(BackOff, match="can't be read by this program"):
        make_readers(Subjects("s"), state)


def test_a_missing_required_field_and_an_unknown_number_of_a_closed_enum_are_named() -> None:
    """Of proto2, whose enums are closed; a group is a struct."""
    text = """syntax = "proto2"; enum E { A = 1; B = 2; } message M { required int32 a = 1; optional E b = 2;
        optional group G = 3 { optional int32 x = 1; } }"""
    reader = protobuf_values(text, [])
    assert _one(reader, b"") == (None, "a: it is missing")
    assert _one(reader, b"\x08\x01\x10\x05") == (None, "b: its number 5 is none of the enum: A (1), B (2)")
    assert _one(reader, b"\x08\x01\x1b\x08\x04\x1c") == ({"a": 1, "b": None, "g": {"x": 4}}, None)


def test_columns_that_lack_a_required_message_say_no_document() -> None:
    """A message without fields has no column, so the document that is made of the columns would lack what it must have."""
    body = "message Order { %s Mark mark = 1; %s int64 id = 2; } message Mark {}"
    for label, takes_columns in (("optional", True), ("required", False)):
        text = f'syntax = "proto2"; {body % (label, "optional")}'
        assert protobuf_values(text, []).takes_columns is takes_columns


def test_a_value_names_its_message_by_indexes() -> None:
    """The topic's is the first one that no other has; both forms of the first message's are taken; others are refused by name."""
    nested = _reader("message Space { message In { int32 x = 1; } message Order { In a = 1; } }")
    assert nested.prefix == b"\x04\x00\x02"
    first = _reader("message Order { int32 a = 1; } message Other { int32 x = 1; }")
    values = {
        b"\0\x08\x01": None,
        b"\x02\0\x08\x01": None,
        b"\x02\x02": "its message is p.Other, and the topic's columns are those of p.Order",
    }
    values |= {b"": "the indexes of its message are damaged", b"\x01\0": "the indexes of its message are damaged"}
    values |= {
        b"\x02\x08": "its schema has no message of these indexes",
        b"\xff" * 12: "the indexes of its message are damaged",
    }
    for times in (1, 20):
        _, faults = first.framed(pa.array([b"\0\0\0\0\1" + value for value in values] * times, pa.binary()))
        assert [faults[row].what if row in faults else None for row in range(len(values))] == list(values.values())


_DEEP = "".join(f"message M{n} {{ M{n + 1} a = 1; }} " for n in range(400)) + "message M400 { int32 a = 1; }"
_DOUBLING = "message M0 { int32 a = 1; } " + "".join(
    f"message M{n} {{ M{n - 1} a = 1; M{n - 1} b = 2; }} " for n in range(1, 20)
)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("message M { M a = 1; }", r"a contains itself \(p.M\)"),
        ("message M { repeated N a = 1; } message N { map<string, M> b = 1; }", r"a.b.value contains itself \(p.M\)"),
        ("message M { google.protobuf.Struct a = 1; }", "contains itself"),
        ("message M { }", "has no message with fields"),
        ("message M { N a = 1; } message N { }", "has no columns"),
        ("message M { map<string, N> a = 1; } message N { }", "a is a map of messages without fields"),
        ("message M { int32 a = 1; int32 A = 2; }", "A has the same name as 'a'"),
        (_DEEP, "nested more than 32 deep"),
        (_DOUBLING, "more than 4,000 columns"),
    ],
)
def test_what_no_column_can_be_is_refused_by_name(body: str, reason: str) -> None:
    """Soon, and with the place."""
    began = time.monotonic()
    with pytest.raises(Untypable, match=reason):
        _reader(body)
    assert time.monotonic() - began < 5


def test_a_file_that_only_has_the_name_of_a_well_known_one_is_read_as_it_says() -> None:
    """Somebody registered it, and a topic's file imports it."""
    text = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp a = 1; }'
    own = 'syntax = "proto3"; package google.protobuf; message Timestamp { string seconds = 1; int32 nanos = 2; }'
    reader = protobuf_values(text, [("google/protobuf/timestamp.proto", own)])
    assert _one(reader, b"\x0a\x03\x0a\x01x") == ({"a": {"seconds": "x", "nanos": 0}}, None)


_ITEMS_OF_MANY_COLUMNS = """
import resource
import pyarrow as pa
from log_format.schemas.columns.protobuf_values import protobuf_values

fields = " ".join(f"int64 f{n} = {n};" for n in range(1, 1_000))
text = f'syntax = "proto3"; message M {{ repeated N a = 1; map<int32, N> b = 2; N c = 3; }} message N {{ {fields} }}'
reader = protobuf_values(text, [])
entries = b"".join(b"\\x12\\x05\\x08" + bytes([n & 127 | 128, n >> 7]) + b"\\x12\\x00" for n in range(9_000))
bodies = [b"\\x0a\\x00" * 100_000, b"\\x1a\\x00\\x0a\\x00" + b"\\x0a\\x00" * 100_000, entries, b"\\x0a\\x00"]
reader.framed(pa.array([b"\\0\\0\\0\\0\\1\\0"] * 20, pa.binary()))
before = resource.getrusage(resource.RUSAGE_SELF)
for times in (1, 20):
    values = pa.array([b"\\0\\0\\0\\0\\1\\0" + body for body in bodies] * times, pa.binary())
    column, faults = reader.framed(values)
    assert len(faults) == 3 * times, faults
    assert all("too many for the value's size" in fault.what for fault in faults.values())
after = resource.getrusage(resource.RUSAGE_SELF)
assert after.ru_maxrss - before.ru_maxrss < 100 * 1024, after.ru_maxrss - before.ru_maxrss
assert after.ru_utime - before.ru_utime < 10, after.ru_utime - before.ru_utime
"""


def test_items_without_bytes_take_no_memory_and_no_time_without_bound() -> None:
    """A thousand columns for each two bytes: refused before they are made, by the bulk and by the library, which would take 8 KB
    for each."""
    done = subprocess.run([sys.executable, "-c", _ITEMS_OF_MANY_COLUMNS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_one_value_of_very_many_items_takes_no_step_of_numpy_for_each() -> None:
    """Among others with few of them, and not packed."""
    reader = _reader("message M { repeated string a = 1; }")
    values = [b"\0\0\0\0\1\0" + b"\x0a\x01x" * count for count in (100_000, *[1] * 30)]
    began = time.process_time()
    column, faults = reader.framed(pa.array(values, pa.binary()))
    assert time.process_time() - began < 2
    assert not faults
    assert [len(one["a"]) for one in column.to_pylist()] == [100_000, *[1] * 30]


def test_documents_are_protobufs_json() -> None:
    """Either name of a field, integers as text, enums by name, base64, RFC 3339; and what is none of it is refused."""
    reader = _reader(
        "message M { int64 order_id = 1; E kind = 2; bytes raw = 3; google.protobuf.Timestamp at_time = 4; "
        "oneof c { int32 d = 5; string x = 8; } google.protobuf.Int64Value w = 6; map<int32, bool> m = 7; }"
    )
    texts = [
        b'{"orderId":"9007199254740993","kind":"B","raw":"YQ==","atTime":"2026-01-31T00:00:00.5Z","d":1,"w":"7","m":{"3":true}}',
        b'{"order_id":9007199254740993,"kind":1,"raw":"YQ","at_time":"2026-01-31T01:00:00.5+01:00","d":1,"w":7,"m":{"3":true}}',
        *(
            b'{"order_id":1.5}',
            b'{"kind":"C"}',
            b'{"kind":9}',
            b'{"other":1}',
            b"{}{}",
            b'{"d":1,"x":""}',
            b'{"d":1,"d":2}',
            b"[]",
            b"\xff",
            b'{"raw":"*"}',
        ),
    ]
    column, faults = reader.documents(pa.array(texts, pa.binary()))
    assert sorted(faults) == list(range(2, len(texts)))
    first, second = column.to_pylist()[:2]
    assert first == second
    assert (first["order_id"], first["kind"], first["raw"], first["c"]) == (
        9007199254740993,
        "B",
        b"a",
        {"d": 1, "x": None},
    )
    assert (first["at_time"].isoformat(), first["w"], first["m"]) == (
        "2026-01-31T00:00:00.500000+00:00",
        7,
        [("3", True)],
    )
    assert {row: f"{fault.path}: {fault.what}" for row, fault in faults.items() if row in (3, 4, 5)} == {
        3: "kind: it must be one of A, B",
        4: "kind: its number 9 is none of the enum: A (0), B (1)",
        5: "other: the schema has no such member",
    }
    for text, what in (
        (b'{"order_id":1,"orderId":1}', "there are two members of this field"),
        (b'{"c":{"d":1}}', "the schema has no such member"),
        (b'{"at_time":"2026-01-31"}', "it must be a text like"),
        (b'{"order_id":9223372036854775808}', "it must be from"),
        (b'{"m":{"x":true}}', "it must be an integer"),
        (b'{"m":{"1":null}}', "it must not be null"),
    ):
        _, faults = reader.documents(pa.array([text], pa.binary()))
        assert what in faults[0].what


def test_real_numbers_of_documents_have_the_bounds_of_their_type() -> None:
    """The largest ``float`` is taken, and what would be rounded to infinity is not; texts name what JSON has no number for."""
    reader = _reader("message M { float a = 1; double b = 2; }")
    texts = [
        *(
            b'{"a":3.4028235677973362e38}',
            b'{"a":-3.4028235677973366e38}',
            b'{"b":1.7976931348623157e308}',
            b'{"b":1e309}',
        ),
        *(b'{"a":"NaN","b":"-Infinity"}', b'{"a":"1.5","b":"x"}', b'{"a":NaN}', b'{"a":"1.5","b":2}'),
    ]
    column, faults = reader.documents(pa.array(texts, pa.binary()))
    assert sorted(faults) == [1, 3, 5, 6]
    assert column[0].as_py()["a"] == float(np.finfo(np.float32).max)
    assert repr(column[4].as_py()) == "{'a': nan, 'b': -inf}"
    assert column[7].as_py() == {"a": 1.5, "b": 2.0}


def _version(number: int, body: str) -> tuple[int, SchemaReader]:
    return number, SchemaReader(Schema(text=_proto3(body), type=SchemaType.PROTOBUF))


def test_versions_widen_and_a_renamed_or_retyped_field_is_a_conflict() -> None:
    """A column belongs to the number of its field."""
    old = _version(1, "message M { int32 a = 1; N n = 2; } message N { string x = 1; }")
    new = _version(2, "message M { int32 a = 1; N n = 2; bool b = 3; } message N { string x = 1; int32 y = 2; }")
    subject = SubjectReader("s", [old, new])
    values = [b"\0\0\0\0\1\0\x08\x07", b"\0\0\0\0\2\0\x12\x02\x10\x05\x18\x01", b'{"a":1}']
    column, faults = subject.column_of(pa.array(values, pa.binary()))
    assert not faults
    assert column.to_pylist() == [
        {"a": 7, "n": None, "b": None},
        {"a": 0, "n": {"x": "", "y": 5}, "b": True},
        {"a": 1, "n": None, "b": False},
    ]
    for body, what in (
        ("message M { int32 z = 1; }", "z has the number 1, which is the field of the column 'a'"),
        ("message M { string z = 1; }", "z has the number 1"),
        ("message M { oneof o { int32 a = 1; } }", "o.a has the number 1"),
        (
            "message M { N n = 2; } message N { string z = 1; }",
            "n.z has the number 1, which is the field of the column 'n.x'",
        ),
        ("message M { int64 a = 1; }", "a is int64, and its column is int32"),
    ):
        with pytest.raises(TypeConflict, match=what):
            SubjectReader("s", [old, _version(3, body)])
