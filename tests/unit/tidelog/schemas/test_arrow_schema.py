"""Avro schemas made of Arrow's: the columns of a topic have the types that the sender has."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from log_format.records.schema import TIMESTAMP
from log_format.schemas.columns.avro_schema import avro_reader
from log_format.schemas.columns.shape import arrow_type
from tidelog.schemas.arrow_schema import avro_schema, read_arrow_schema


@pytest.mark.parametrize(
    ("given", "column"),
    [
        (pa.int8(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.int32(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.int64(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.float16(), pa.float32()),
        (pa.float32(), pa.float32()),
        (pa.float64(), pa.float64()),
        (pa.bool_(), pa.bool_()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.binary(3), pa.binary()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.decimal64(9, 2), pa.decimal128(9, 2)),
        (pa.timestamp("ns"), TIMESTAMP),
        (pa.date64(), pa.date32()),
        (pa.list_(pa.int64()), pa.list_(pa.field("element", pa.int64()))),
        (pa.map_(pa.string(), pa.float64()), pa.map_(pa.string(), pa.float64())),
        (pa.struct([("b", pa.int64())]), pa.struct([("b", pa.int64())])),
    ],
    ids=str,
)
def test_each_type_has_its_column(given: pa.DataType, column: pa.DataType) -> None:
    """A field that may be null has null as its default; one that may not has none."""
    for nullable in (True, False):
        schema = avro_schema(pa.schema([pa.field("a", given, nullable=nullable)]))
        (field,) = json.loads(schema)["fields"]
        assert ("default" in field) is nullable
        assert arrow_type(avro_reader(schema).shape) == pa.struct([("a", column)])


def test_records_have_names_of_their_own() -> None:
    """Two structs whose paths would make one name get two."""
    inner = pa.struct([("x", pa.int64())])
    schema = pa.schema([("a_b", inner), ("a", pa.struct([("b", inner)]))])
    shape = avro_reader(avro_schema(schema)).shape
    assert arrow_type(shape) == pa.struct(list(schema))


@pytest.mark.parametrize(
    "kind", [pa.time64("us"), pa.duration("s"), pa.null(), pa.decimal256(50, 0), pa.map_(pa.int8(), pa.int8())]
)
def test_a_type_without_column_is_named(kind: pa.DataType) -> None:
    """The field's path is in the error, and so is that of a name that Avro does not take."""
    with pytest.raises(TypeError, match=r"a\.b: "):
        avro_schema(pa.schema([("a", pa.struct([("b", kind)]))]))
    with pytest.raises(TypeError, match="a-b: a name in Avro"):
        avro_schema(pa.schema([("a-b", pa.int64())]))


def test_a_schema_is_read_from_what_arrow_writes() -> None:
    """A file, a stream, and a schema alone; anything else is refused by its name."""
    schema = pa.schema([("a", pa.int64())])
    found = [schema.serialize().to_pybytes()]
    for make in (pa.ipc.new_file, pa.ipc.new_stream):
        sink = pa.BufferOutputStream()
        make(sink, schema).close()
        found.append(sink.getvalue().to_pybytes())
    assert [read_arrow_schema(data, Path("x")) for data in found] == [schema] * 3
    with pytest.raises(ValueError, match=r"x\.arrow is no Arrow file"):
        read_arrow_schema(b"text", Path("x.arrow"))
