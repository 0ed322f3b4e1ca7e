"""Unit tests of ``tidelog.bodies.encode``, ``json_record``, ``chunk`` and ``record_columns``."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from log_format import limits as contract
from tidelog import limits
from tidelog.bodies.chunk import Chunk, records_from_table, table_from_records
from tidelog.bodies.encode import ARROW, JSON, compress, encode
from tidelog.bodies.json_record import JsonRecord, as_json_record
from tidelog.bodies.record_columns import ANY_PARTITION, RecordColumns
from tidelog.types.record import Record, TopicPartition

PLACE = TopicPartition("t", 3)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
BYTES = st.none() | st.binary(max_size=20) | NAMES.map(str.encode)
HEADERS = st.lists(st.tuples(NAMES, BYTES), max_size=3).map(tuple)
UNHURRIED = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
RECORDS = st.lists(st.tuples(st.integers(0, contract.TIMESTAMP_MS_MAX), BYTES, BYTES, HEADERS), min_size=1, max_size=8)


def columns_of(rows: list[Any]) -> RecordColumns:
    columns = RecordColumns()
    for index, (timestamp, key, value, headers) in enumerate(rows):
        columns.keys.append(key)
        columns.values.append(value)
        columns.named.append(ANY_PARTITION)
        columns.timestamps_ms.append(timestamp)
        if headers:
            columns.headers[index] = headers
    columns.assigned = [3] * len(rows)
    return columns


@UNHURRIED
@given(RECORDS)
def test_what_is_encoded_is_what_was_given(rows: list[Any]) -> None:
    """Both bodies hold exactly the bytes, nulls, headers and times of the records, in their order."""
    expected = [Record("t", 3, offset, *row) for offset, row in enumerate(rows)]
    body, kind = encode(columns_of(rows))
    assert kind == JSON
    decoded = [{"offset": offset, **record} for offset, record in enumerate(msgspec.json.decode(body)["records"])]
    assert [msgspec.convert(record, JsonRecord).record(PLACE) for record in decoded] == expected
    many = rows * limits.ARROW_RECORDS_MIN
    body, kind = encode(columns_of(many))
    assert kind == ARROW
    table = pa.ipc.open_stream(body).read_all()
    assert set(table.column_names) <= {"partition", "timestamp", "key", "value", "headers"}
    table = table.append_column("offset", pa.array(range(len(many)), pa.int64()))
    for name, kind_ in (
        ("key", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ):
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(len(many), kind_))
    assert records_from_table(PLACE, table) == [Record("t", 3, offset, *row) for offset, row in enumerate(many)]


@UNHURRIED
@given(RECORDS)
def test_records_as_json_and_as_tables_come_back(rows: list[Any]) -> None:
    """What the consumer makes of an answer, and what the command line writes, keep every byte."""
    records = [Record("t", 3, offset, *row) for offset, row in enumerate(rows)]
    assert records_from_table(PLACE, table_from_records(records)) == records
    for record in records:
        line = msgspec.json.encode(as_json_record(record))
        assert msgspec.json.decode(line, type=JsonRecord).record(PLACE) == record


@UNHURRIED
@given(RECORDS, st.data())
def test_parts_of_columns(rows: list[Any], data: st.DataObject) -> None:
    """A slice and a selection hold the same records as the whole, headers at their records."""
    columns = columns_of(rows)
    columns.assigned = list(range(len(rows)))
    start = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(start, len(rows)))
    indices = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True))
    for part, chosen in ((columns.slice(start, end), range(start, end)), (columns.select(indices), indices)):
        assert part.assigned == list(chosen)
        found = [
            (part.timestamps_ms[i], part.keys[i], part.values[i], part.headers.get(i, ())) for i in range(len(part))
        ]
        assert found == [rows[index] for index in chosen]


@pytest.mark.parametrize("from_table", [True, False])
def test_a_chunk_is_handed_out_once_in_any_pieces(from_table: bool) -> None:
    """Records and tables taken in turn are all the records, once, in order, and the position is always the next record's."""
    records = [Record("t", 3, offset * 2, 0, None, b"x" * 50) for offset in range(5_000)]
    chunk = Chunk(PLACE, [], table_from_records(records), 10_007) if from_table else Chunk(PLACE, records, None, 10_007)
    taken: list[int] = []
    step = 0
    while not chunk.empty:
        assert chunk.position == len(taken) * 2
        step += 1
        if step % 3 == 0:
            taken += chunk.take_table(3_000).column("offset").to_pylist()
        else:
            taken += [record.offset for record in chunk.take(100)]
    assert taken == [record.offset for record in records]
    assert chunk.position == 10_007


def test_compression_is_left_out_where_it_does_not_help() -> None:
    """A body that would grow goes as it is."""
    assert compress(b"x" * 1_000, "zstd")[1] == {"Content-Encoding": "zstd"}
    assert compress(b"x" * 1_000, "gzip")[1] == {"Content-Encoding": "gzip"}
    assert compress(b"x", "gzip") == (b"x", {})
    assert compress(b"x" * 1_000, None) == (b"x" * 1_000, {})
