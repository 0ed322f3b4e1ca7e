"""Older records that get columns, beside values that are left out: no value is lost by a change of its columns."""

from __future__ import annotations

import pyarrow as pa

from compaction.fill_columns import fill_columns
from log_format.records.left_out import with_values
from log_format.records.schema import HEADERS, TIMESTAMP
from log_format.records.typed_columns import TypedColumns, record_schema
from log_format.schemas.columns.codec import RecordReaders, SchemaReader, SubjectReader
from log_format.schemas.schema import Schema, SchemaType

_ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'


def _reader(text: str) -> SubjectReader:
    return SubjectReader("s", [(1, SchemaReader(Schema(type=SchemaType.AVRO, text=text)))])


def test_a_key_that_gets_columns_takes_no_value_away() -> None:
    """The value has columns only; its key fits, or does not: readers get the value as before."""
    readers = RecordReaders(_reader(_ORDER), _reader('"long"'))
    data = pa.array([{"id": 1}, {"id": 2}, None], pa.struct([("id", pa.int64())]))
    columns = [
        pa.array([0] * 3, pa.int32()),
        pa.array(range(3), pa.int64()),
        pa.array([10**15] * 3, pa.int64()).cast(TIMESTAMP),
        pa.array([b"7", b"no number", b"8"], pa.binary()),
        pa.nulls(3, pa.binary()),
        pa.nulls(3, HEADERS),
        data,
        pa.nulls(3, pa.string()),
    ]
    records = pa.Table.from_arrays(columns, schema=record_schema(TypedColumns(data.type)))
    before = with_values(records).column("value").to_pylist()
    for judged in ((), ("data",)):
        found = fill_columns(records, readers, judged)
        assert found.column("key_data").to_pylist() == [7, None, 8]
        assert found.column("data_error")[1].is_valid
        assert with_values(found).column("value").to_pylist() == before == [b'{"id":1}', b'{"id":2}', None]
