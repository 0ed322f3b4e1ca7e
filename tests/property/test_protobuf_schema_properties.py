"""Protobuf: what parsing and the judgement of compatibility promise, for any schema."""

from __future__ import annotations

import itertools
import re
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.schemas.compatibility.check import incompatibilities
from log_format.schemas.compatibility.incompatibility import Level
from log_format.schemas.parsed import InvalidSchema
from log_format.schemas.parsing import parse
from log_format.schemas.parsing_protobuf import ProtobufSchema
from log_format.schemas.schema import Schema, SchemaType
from tests.support.proto_schemas import SCALARS, text_and_change


def _parsed(text: str) -> ProtobufSchema:
    parsed = parse(Schema(text=text, type=SchemaType.PROTOBUF))
    assert isinstance(parsed, ProtobufSchema)
    return parsed


def _class(schema: ProtobufSchema) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in schema.files:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))


@given(text_and_change(), st.sampled_from(Level))
def test_a_schema_is_compatible_with_itself(texts: tuple[str, str], level: Level) -> None:
    """At each level, whatever its layout and the names of its fields."""
    text = texts[0]
    assert incompatibilities(_parsed(text), _parsed(re.sub(r" f(\d)", r" name_\1 ", text)), level) == []


@given(text_and_change(), st.sampled_from(SCALARS))
def test_a_new_field_is_fully_compatible(texts: tuple[str, str], kind: str) -> None:
    """A field with a number of its own is read from what has it not, and skipped by who does not know it."""
    more = texts[0].replace("message M {", f"message M {{ {kind} new = 100;")
    assert incompatibilities(_parsed(more), _parsed(texts[0]), Level.FULL_TRANSITIVE) == []


@given(text_and_change())
def test_canonical_texts_are_their_own(texts: tuple[str, str]) -> None:
    """Canonical and normalized texts are schemas that mean the same; written again they are the same text."""
    parsed = _parsed(texts[0])
    canonical, normalized = _parsed(parsed.canonical), _parsed(parsed.normalized)
    assert canonical.canonical == parsed.canonical
    assert canonical.descriptor_set == parsed.descriptor_set
    assert canonical.normalized == normalized.normalized == parsed.normalized


def test_scalars_that_are_compatible_read_each_other() -> None:
    """Whatever two scalar types are said to be compatible, the one's values are read by the other, and keep their value."""
    schemas = {
        kind: _parsed(f'syntax = "proto3"; message M {{ {kind} a = 1; }} enum E {{ Z = 0; Y = 1; }}')
        for kind in SCALARS
    }
    classes = {kind: _class(schema) for kind, schema in schemas.items()}
    for (old, schema), (new, other) in itertools.product(schemas.items(), schemas.items()):
        if not incompatibilities(other, schema, Level.BACKWARD):
            value = {"string": "a", "bytes": b"a"}.get(old, 1)
            read = classes[new].FromString(classes[old](a=value).SerializeToString()).a
            assert read == {"string": "a", "bytes": b"a"}.get(new, 1), (old, new)


@given(st.data())
@settings(max_examples=300)
def test_what_is_compatible_is_read(data: st.DataObject) -> None:
    """Where a new schema is said to be backward compatible, what the old one wrote is read with it, field by field."""
    old_text, new_text = data.draw(text_and_change())
    old, new = _parsed(old_text), _parsed(new_text)
    if incompatibilities(new, old, Level.BACKWARD):
        return
    written = _class(old)()
    for field in written.DESCRIPTOR.fields:
        if field.type != FieldDescriptor.TYPE_MESSAGE and not field.is_repeated and data.draw(st.booleans()):
            setattr(
                written,
                field.name,
                {FieldDescriptor.CPPTYPE_STRING: "a"}.get(field.cpp_type, 1) if field.type != 12 else b"a",
            )
    read = _class(new).FromString(written.SerializeToString())
    for field, value in written.ListFields():
        other = read.DESCRIPTOR.fields_by_number.get(field.number)
        if other is not None:
            got = getattr(read, other.name)
            got = got[0] if other.is_repeated else got
            assert (got.encode() if isinstance(got, str) else got) == (
                value.encode() if isinstance(value, str) else value
            )


_WORDS = [
    *(
        "message",
        "M",
        "{",
        "}",
        "int32",
        "a",
        "=",
        "1",
        ";",
        "oneof",
        "map",
        "<",
        ">",
        ",",
        "reserved",
        "to",
        "max",
        "enum",
        "option",
        "(",
        ")",
    ),
    *("[", "]", "deprecated", "true", "import", "package", ".", "extend", "service", "rpc", "returns", "group"),
    *("optional", "extensions", "-", "syntax", "default", "stream", '"a"', '"proto3"'),
]


@given(st.lists(st.sampled_from(_WORDS), max_size=30).map(" ".join) | st.text(max_size=50))
@settings(max_examples=500)
def test_any_text_is_a_schema_or_invalid(text: str) -> None:
    """Whatever the text, it is understood or refused as an invalid schema."""
    try:
        parsed = _parsed(text)
    except InvalidSchema:
        return
    assert _parsed(parsed.canonical).canonical == parsed.canonical


@given(text_and_change(), st.data())
@settings(max_examples=300)
def test_a_schema_with_a_word_too_many_or_few_is_a_schema_or_invalid(
    texts: tuple[str, str], data: st.DataObject
) -> None:
    """A text that is nearly a schema is understood or refused, too."""
    words = texts[0].split()
    at = data.draw(st.integers(0, len(words) - 1))
    words[at : at + data.draw(st.integers(0, 1))] = data.draw(st.lists(st.sampled_from(_WORDS), max_size=2))
    try:
        parsed = _parsed(" ".join(words))
    except InvalidSchema:
        return
    assert _parsed(parsed.canonical).canonical == parsed.canonical
