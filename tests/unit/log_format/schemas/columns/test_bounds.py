"""Schemas and values that would take without bound are refused soon, by name."""

from __future__ import annotations

import json
import time
from typing import Any

import pyarrow as pa
import pytest

from log_format.records.typed_columns import TypeConflict, TypedColumns
from log_format.schemas.columns.avro_schema import avro_reader
from log_format.schemas.columns.codec import SchemaReader, SubjectReader
from log_format.schemas.columns.documents import Documents
from log_format.schemas.columns.shape import MapOf, Member, Record, Scalar, Untypable
from log_format.schemas.schema import Schema, SchemaType


def test_types_that_double_with_each_level_are_counted_first() -> None:
    """Each level has the one below it twice; the columns are counted before any is made."""
    text = '"int"'
    for level in range(24):
        inner = text if level == 0 else f'"E{level - 1}"'
        text = f'{{"type":"record","name":"E{level}","fields":[{{"name":"p","type":{text}}},{{"name":"q","type":{inner}}}]}}'
    began = time.monotonic()
    with pytest.raises(Untypable, match="more than"):
        avro_reader(text)
    assert time.monotonic() - began < 5


def test_a_fixed_has_its_size_in_a_document_too() -> None:
    """As in Avro's bytes."""
    schema = {
        "type": "record",
        "name": "A",
        "fields": [{"name": "f", "type": {"type": "fixed", "name": "F", "size": 4}}],
    }
    documents = Documents(avro_reader(json.dumps(schema)).shape)
    _, faults = documents.column_of(pa.array([b'{"f":"AAAAAA=="}', b'{"f":"AA=="}'], pa.binary()))
    assert faults.keys() == {1}


def test_texts_and_numbers_that_a_column_cant_have_are_refused_alone() -> None:
    """Half a surrogate pair as a name, and a zero with a huge exponent, which is zero."""
    shape = Record(
        (
            Member("m", MapOf(Scalar(pa.int64())), is_required=False),
            Member("d", Scalar(pa.decimal128(10, 2)), is_required=False),
        )
    )
    texts = [b'{"m":{"\\ud800":1}}', b'{"d":"0e99999999"}', b'{"d":1}', b'{"\\ud800":1}']
    _, faults = Documents(shape).column_of(pa.array(texts, pa.binary()))
    assert faults.keys() == {0, 3}
    for fault in faults.values():
        fault.path.encode()


def test_many_members_with_one_twice_take_no_square() -> None:
    """Twenty thousand members."""
    text = b"{" + b",".join(b'"m%d":1' % number for number in range(20_000)) + b',"m19999":2}'
    began = time.thread_time()
    _, faults = Documents(Record((Member("m0", Scalar(pa.int64())),))).column_of(pa.array([text], pa.binary()))
    assert faults[0].path == "m19999"
    assert time.thread_time() - began < 1


def test_a_key_of_a_map_that_is_there_twice_is_refused_in_each_form() -> None:
    """Bytes of Avro, documents and columns: no document has two members of one name, and DuckDB refuses the whole column. Two
    maps of one record may have one key."""
    maps = {"type": "array", "items": {"type": "map", "values": "int"}}
    schema = {"type": "record", "name": "A", "fields": [{"name": "m", "type": maps}]}
    reader = SchemaReader(Schema(text=json.dumps(schema), type=SchemaType.AVRO))
    entry = b"\2a\2"
    once, twice = b"\4\2" + entry + b"\0\2" + entry + b"\0\0", b"\2\4" + entry * 2 + b"\0\0"
    blocks = b"\2\2" + entry + b"\2" + entry + b"\0\0"
    _, faults = reader.framed(pa.array([b"\0\0\0\0\1" + one for one in (once, twice, blocks)], pa.binary()))
    assert {row: fault.what for row, fault in faults.items()} == dict.fromkeys((1, 2), "it has a key twice")
    texts = [b'{"m":[{"a":1},{"a":1}]}', b'{"m":[{"a":1,"a":1}]}', b'{"m":[{"a":1,"\\u0061":1}]}']
    assert reader.documents(pa.array(texts, pa.binary()))[1].keys() == {1, 2}
    kind = pa.list_(pa.map_(pa.string(), pa.int32()))
    given = pa.array([[[("a", 1)], [("a", 1)], None], [[("b", 1), ("a", 1), ("b", 2)]]], kind)
    _, faults = reader.given(pa.StructArray.from_arrays([given], names=["m"]), 1_000)
    assert {row: fault.path for row, fault in faults.items() if fault.what == "it has a key twice"} == {1: "m[]"}


def test_two_members_have_two_paths() -> None:
    """A name with a dot may not be the path of another member, at once or by a later version: a segment's writer and readers know
    columns by their paths."""
    text, number = {"type": "string"}, {"type": "integer"}
    dotted, nested = {"a.b": text}, {"a": {"type": "object", "properties": {"b": number}}}
    lists = {"c": {"type": "array", "items": number}, "c.list.element": text}
    for properties in (dotted | nested, {"x": {"type": "object", "properties": dotted | nested}}, lists):
        with pytest.raises(Untypable, match="is the path of two members"):
            _json_reader(properties)
    alone = [(1, _json_reader(dotted)), (2, _json_reader(nested))]
    with pytest.raises(TypeConflict, match=r"a\.b is the path of two members"):
        SubjectReader("s", alone)
    columns = [TypedColumns(data=reader.type) for _, reader in alone]
    with pytest.raises(TypeConflict, match=r"a\.b is the path of two members"):
        columns[0].merged_with(columns[1])


def _json_reader(properties: dict[str, Any]) -> SchemaReader:
    return SchemaReader(Schema(text=json.dumps({"type": "object", "properties": properties}), type=SchemaType.JSON))
