"""Protobuf: what Google's library writes is read as the same values, all at once and one by one; damaged bytes are named."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.schemas.columns.codec import SchemaReader, SubjectReader
from log_format.schemas.columns.given_columns import UnfitType
from log_format.schemas.columns.protobuf_values import ProtobufValues
from log_format.schemas.parsing_protobuf import parse_protobuf
from log_format.schemas.schema import Schema, SchemaType
from tests.support.proto_values import columns, messages, plain, schemas

_HEADER = b"\0\0\0\0\1"


def _readers(text: str) -> tuple[ProtobufValues, ProtobufValues]:
    """One that reads in bulk and one that reads one by one."""
    schema = parse_protobuf(text, [])
    return ProtobufValues(schema, bulk_min=1), ProtobufValues(schema, bulk_min=10**9)


def _framed(reader: ProtobufValues, bodies: list[bytes]) -> pa.BinaryArray:
    return pa.array([_HEADER + reader.prefix + body for body in bodies], pa.binary())


@settings(max_examples=200)
@given(st.data())
def test_values_come_back(data: st.DataObject) -> None:
    """The column has the values that were written, read together and alone, from bytes and from documents."""
    bulk, alone = _readers(data.draw(schemas()))
    found = [data.draw(messages(bulk.message_class)) for _ in range(data.draw(st.integers(1, 6)))]
    values = _framed(bulk, [message.SerializeToString(deterministic=True) for message in found])
    column, faults = bulk.framed(values)
    assert not faults
    column.validate(full=True)
    assert column.type == bulk.type
    for row, message in enumerate(found):
        expected = columns(message)
        assert repr(plain(column[row].as_py(), expected)) == repr(expected)
    other, faults = alone.framed(values)
    assert not faults
    assert repr(other.to_pylist()) == repr(column.to_pylist())
    texts = [_document(message) for message in found]
    if None not in texts:
        other, faults = bulk.documents(pa.array(texts, pa.binary()))
        assert not faults
        other.validate(full=True)
        for row, message in enumerate(found):
            expected = columns(message)
            assert repr(plain(other[row].as_py(), expected)) == repr(expected)


def _document(message: Any) -> bytes | None:
    """The message in Protobuf's JSON; None for one that has none, such as a duration out of range."""
    try:
        return bytes(json_format.MessageToJson(message, indent=None).encode())
    except (json_format.Error, ValueError):
        return None


@settings(max_examples=200)
@given(st.data())
def test_columns_from_the_sender_are_the_documents_that_are_stored_for_them(data: st.DataObject) -> None:
    """The columns that a value has, sent as such, are the same again, and so is the document made of them."""
    text = data.draw(schemas())
    subject = SubjectReader("s", [(1, SchemaReader(Schema(text=text, type=SchemaType.PROTOBUF)))])
    reader, _ = _readers(text)
    found = [data.draw(messages(reader.message_class)).SerializeToString() for _ in range(3)]
    column, faults = reader.framed(_framed(reader, found))
    if not reader.takes_columns:
        with pytest.raises(UnfitType, match="whose columns say no document"):
            subject.given(column, 1_000_000)
        return
    again, faults = subject.given(column, 1_000_000)
    whole = [row for row in range(3) if row not in faults]  # NaN and infinite numbers are none of JSON
    assert repr([again[row].as_py() for row in whole]) == repr([column[row].as_py() for row in whole])
    if not faults:
        decoded, more = subject.column_of(subject.documents(again, 1_000_000))
        assert not more
        # A document of -0.0 is the integer 0.
        assert repr(decoded.to_pylist()).replace("-0.0", "0.0") == repr(column.to_pylist()).replace("-0.0", "0.0")


@st.composite
def _damaged(draw: st.DrawFn, raw: bytes, other: bytes, kind: Any) -> bytes:
    """Draw the bytes intact, cut, longer, changed, merged with others, in another order, with unknown fields, or others."""
    match draw(st.sampled_from(["intact", "cut", "longer", "changed", "merged", "mixed", "unknown", "random"])):
        case "cut":
            return raw[: draw(st.integers(0, max(0, len(raw) - 1)))]
        case "longer":
            return raw + draw(st.binary(min_size=1, max_size=5))
        case "changed" if raw:
            at = draw(st.integers(0, len(raw) - 1))
            return raw[:at] + draw(st.binary(min_size=1, max_size=1)) + raw[at + 1 :]
        case "merged":
            return raw + other
        case "mixed":
            fields = [_only(kind, raw, field.name) for field in kind.DESCRIPTOR.fields]
            return b"".join(draw(st.permutations(fields)))
        case "unknown":
            more = draw(
                st.sampled_from([b"\xfa\x7d\x01a", b"\xf8\x7d\x01", b"\xfb\x7d\x08\x01\xfc\x7d", b"\xfd\x7dabcd"])
            )
            return more + raw if draw(st.booleans()) else raw + more
        case "random":
            return draw(st.binary(max_size=30))
    return raw


def _only(kind: Any, raw: bytes, name: str) -> bytes:
    """The bytes of one field of a message."""
    message = kind.FromString(raw)
    for field in kind.DESCRIPTOR.fields:
        if field.name != name:
            message.ClearField(field.name)
    return bytes(message.SerializePartialToString())


def _read(kind: Any, raw: bytes) -> Any:
    """What the library's own types make of the bytes, as a column has it; ``ValueError`` if they or a column refuse it."""
    try:
        message = kind.FromString(raw)
    except DecodeError as error:
        raise ValueError from error
    return columns(message)


@settings(max_examples=300)
@given(st.data())
def test_damage_is_named_and_does_not_spread(data: st.DataObject) -> None:
    """Of any bytes each value is read as it is read alone, and as the library reads it, or it is named."""
    bulk, alone = _readers(data.draw(schemas()))
    kind = bulk.message_class
    written = [data.draw(messages(kind)).SerializeToString() for _ in range(data.draw(st.integers(1, 5)))]
    raws = [data.draw(_damaged(raw, written[0], kind)) for raw in written]
    column, faults = bulk.framed(_framed(bulk, raws))
    column.validate(full=True)
    single, single_faults = alone.framed(_framed(bulk, raws))
    assert faults == single_faults
    for row, raw in enumerate(raws):
        if row in faults:
            assert faults[row].what
            continue
        assert repr(column[row].as_py()) == repr(single[row].as_py())
        expected = _read(kind, raw)  # what the library refuses is refused
        assert repr(plain(column[row].as_py(), expected)) == repr(expected)


@settings(max_examples=150)
@given(schemas(), st.binary(max_size=12))
def test_any_bytes_behind_the_header_are_read_or_named(text: str, raw: bytes) -> None:
    """Also those in which the indexes of the message are expected."""
    bulk, alone = _readers(text)
    values = pa.array([_HEADER + raw, _HEADER + bulk.prefix], pa.binary())
    column, faults = bulk.framed(values)
    single, single_faults = alone.framed(values)
    assert faults == single_faults
    for row in {0, 1} - faults.keys():
        assert repr(column[row].as_py()) == repr(single[row].as_py())


_JSON = st.recursive(
    st.sampled_from(
        [
            "null",
            "true",
            "1",
            "-1.5",
            "1e400",
            "NaN",
            '"NaN"',
            '"a"',
            '"YQ=="',
            '"1"',
            '"ZERO"',
            '"\\ud800"',
            "{",
            "1" * 5000,
        ]
    )
    | st.sampled_from(
        ['"2026-01-31T00:00:00Z"', '"2026-01-31T00:00:00.123456789Z"', '"9999-99-99T00:00:00Z"', '"1.5s"']
    ),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: f"[{','.join(parts)}]")
        | st.lists(
            st.tuples(st.sampled_from(["f1", "f2", "f3", "f14", "always", "choice", "x", "", "a"]), inner), max_size=3
        ).map(lambda parts: "{" + ",".join(f'"{name}":{one}' for name, one in parts) + "}")
    ),
    max_leaves=6,
)


@settings(max_examples=200)
@given(schemas(), st.lists(_JSON.map(str.encode) | st.binary(max_size=10), min_size=1, max_size=4))
def test_any_document_is_read_or_named(text: str, texts: list[bytes]) -> None:
    """As the library reads it, or as null; the library takes some that are refused here."""
    reader, _ = _readers(text)
    column, faults = reader.documents(pa.array(texts, pa.binary()))
    column.validate(full=True)
    assert column.type == reader.type
    assert len(column) == len(texts)
    for row, document in enumerate(texts):
        if row in faults:
            assert faults[row].what.encode()
            assert not column[row].is_valid
            continue
        expected = columns(json_format.Parse(document, reader.message_class()))
        assert repr(plain(column[row].as_py(), expected)) == repr(expected)


@pytest.mark.parametrize("depth", [50, 5_000])
def test_nested_beyond_bounds_is_named(depth: int) -> None:
    """A document, groups, and messages that are unknown fields."""
    reader, _ = _readers('syntax = "proto3"; message M { int32 a = 1; }')
    _, faults = reader.documents(pa.array([b'{"a":' + b"[" * depth + b"]" * depth + b"}"], pa.binary()))
    assert faults.keys() == {0}
    _, faults = reader.framed(pa.array([_HEADER + b"\0" + b"\x13" * (depth * 3)], pa.binary()))
    assert faults.keys() == {0}


_ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    1,
    -1,
    2**31,
    2**63,
    1.5,
    1e300,
    "",
    "1",
    "01",
    "+1",
    "1e1",
    "ONE",
    "UNO",
    "x",
    [],
    {},
    [None],
    [{}],
    {"a": 1},
)
_ODD_TIMES = (
    "2026-01-31T23:59:59Z",
    "2026-01-31 23:59:59Z",
    "2026-02-30T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "2026-01-31T23:59Z",
)


@settings(max_examples=400)
@given(st.data())
def test_documents_are_judged_together_as_alone(data: st.DataObject) -> None:
    """Documents in a form of a serializer's, of which some are changed: the same verdicts and values together as alone."""
    bulk, alone = _readers(data.draw(schemas()))
    is_declared, is_number = data.draw(st.booleans()), data.draw(st.booleans())
    texts = []
    for _ in range(data.draw(st.integers(1, 5))):
        message = data.draw(messages(bulk.message_class))
        try:
            document = json_format.MessageToDict(message, preserving_proto_field_name=is_declared)
        except (ValueError, json_format.SerializeToJsonError):
            document = {"always": 1}
        if is_number:
            document = {
                name: int(one) if isinstance(one, str) and one.isdigit() else one for name, one in document.items()
            }
        if data.draw(st.integers(0, 3)) == 0:
            names = sorted({*document, *(field.name for field in bulk.message_class.DESCRIPTOR.fields), "further"})
            document[data.draw(st.sampled_from(names))] = data.draw(st.sampled_from([*_ODD, *_ODD_TIMES]))
        text = json.dumps(document).encode()
        if data.draw(st.integers(0, 9)) == 0:
            at = data.draw(st.integers(0, len(text) - 1))
            text = text[:at] + data.draw(st.binary(max_size=1)) + text[at + 1 :]
        texts.append(text)
    together, faults = bulk.documents(pa.array(texts, pa.binary()))
    together.validate(full=True)
    one_by_one, others = alone.documents(pa.array(texts, pa.binary()))
    assert faults == others, texts
    assert repr(together.to_pylist()) == repr(one_by_one.to_pylist()), texts
