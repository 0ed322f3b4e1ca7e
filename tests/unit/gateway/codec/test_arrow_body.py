"""Arrow bodies: which schemas and rows are taken, and that a hostile stream is refused before it costs anything."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gateway.codec.arrow_body import decode_arrow
from gateway.codec.arrow_messages import check_messages
from gateway.codec.incoming import NO_PARTITION
from log_format.errors import ErrorCode, RequestRefused
from log_format.records.schema import TIMESTAMP_MS_MAX

BYTES_MAX = 1 << 20
VALUES = pa.array([b"a", None, b""], pa.binary())
HEADERS = pa.list_(pa.struct([("value", pa.binary()), ("key", pa.string())]))


def stream(table: pa.Table, compression: str | None = None, chunk_rows: int | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=chunk_rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def refusal(data: bytes | pa.Table, bytes_max: int = BYTES_MAX) -> RequestRefused:
    with pytest.raises(RequestRefused) as refused:
        decode_arrow(data if isinstance(data, bytes) else stream(data), bytes_max=bytes_max)
    return refused.value


def wheres(error: RequestRefused) -> list[str]:
    return [entry["where"] for entry in error.fields["errors"]]


def milliseconds(column: pa.Array) -> list[int | None]:
    table = pa.table({"value": pa.array([b"x"] * len(column)), "timestamp": column})
    incoming = decode_arrow(stream(table), bytes_max=BYTES_MAX)
    return [None if t is None else t // 1000 for t in incoming.records.column("timestamp").cast(pa.int64()).to_pylist()]


def test_nothing_is_nothing() -> None:
    """A stream without batches, or with an empty one, is a request without records."""
    empty = pa.table({"value": pa.array([], pa.binary())})
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, empty.schema).close()
    assert len(decode_arrow(sink.getvalue().to_pybytes(), bytes_max=BYTES_MAX)) == 0
    assert len(decode_arrow(stream(empty), bytes_max=0)) == 0


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_every_column_over_several_batches(compression: str | None) -> None:
    """All columns arrive, those of Spark's source that mean nothing here are ignored, batches are one after another."""
    table = pa.table(
        {
            "topic": pa.array(["other"] * 3),
            "partition": pa.array([1, None, 2], pa.uint8()),
            "offset": pa.array([7, 8, 9]),
            "key": pa.array([None, "k", "é"]),
            "value": VALUES,
            "timestamp": pa.array([0, None, TIMESTAMP_MS_MAX], pa.int64()),
            "timestampType": pa.array([0, 0, 0], pa.int32()),
            "headers": pa.array([[{"key": "a", "value": None}, {"key": "a", "value": b"x"}], None, []], HEADERS),
        }
    )
    incoming = decode_arrow(stream(table, compression, chunk_rows=2), bytes_max=BYTES_MAX)
    assert incoming.partitions is not None
    assert incoming.partitions.tolist() == [1, NO_PARTITION, 2]
    assert incoming.records.column("key").to_pylist() == [None, b"k", "é".encode()]
    assert incoming.records.column("value").to_pylist() == [b"a", None, b""]
    assert incoming.records.column("headers").to_pylist() == [
        [{"key": "a", "value": None}, {"key": "a", "value": b"x"}],
        None,
        None,
    ]


def test_columns_of_type_null_are_null() -> None:
    """What writers make of a column that has no value yet is taken: all keys null, all values tombstones."""
    incoming = decode_arrow(
        stream(pa.table({"value": pa.nulls(2), "key": pa.nulls(2), "partition": pa.nulls(2)})), bytes_max=BYTES_MAX
    )
    assert incoming.records.column("value").to_pylist() == [None, None]
    assert incoming.partitions is None


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamps_of_every_unit(zone: str | None) -> None:
    """Seconds to nanoseconds, with a zone or without one (which is UTC), cut to whole milliseconds."""
    assert milliseconds(pa.array([0, None, TIMESTAMP_MS_MAX // 1000], pa.timestamp("s", zone))) == [
        0,
        None,
        TIMESTAMP_MS_MAX - 999,
    ]
    assert milliseconds(pa.array([0, TIMESTAMP_MS_MAX], pa.timestamp("ms", zone))) == [0, TIMESTAMP_MS_MAX]
    assert milliseconds(pa.array([1999, TIMESTAMP_MS_MAX * 1000 + 999], pa.timestamp("us", zone))) == [
        1,
        TIMESTAMP_MS_MAX,
    ]
    assert milliseconds(pa.array([999_999, 2**63 - 1], pa.timestamp("ns", zone))) == [0, (2**63 - 1) // 1_000_000]


@pytest.mark.parametrize(
    ("unit", "outside"),
    [
        ("s", [-1, TIMESTAMP_MS_MAX // 1000 + 1, 2**63 - 1]),
        ("ms", [-1, TIMESTAMP_MS_MAX + 1]),
        ("us", [-1, TIMESTAMP_MS_MAX * 1000 + 1000]),
        ("ns", [-1, -(2**63)]),
    ],
)
def test_timestamps_out_of_range_are_named(unit: str, outside: list[int]) -> None:
    """Before the epoch, if only by a nanosecond, or after the year 9999, in any unit, without wrapping around."""
    column = pa.array([5, *outside, None], pa.timestamp(unit))
    error = refusal(pa.table({"value": pa.array([b""] * len(column)), "timestamp": column}))
    assert error.code is ErrorCode.INVALID_RECORD
    assert wheres(error) == [f"/records/{index + 1}/timestamp" for index in range(len(outside))]


@pytest.mark.parametrize("type_", [pa.int64(), pa.timestamp("ms", "UTC"), pa.timestamp("us")])
def test_expiry_is_a_header_after_the_others(type_: pa.DataType) -> None:
    """A time becomes the record's last header; null is none; with or without headers of the record's own."""
    per_ms = 1000 if type_ == pa.timestamp("us") else 1
    times = pa.array([5 * per_ms, None, 7 * per_ms, TIMESTAMP_MS_MAX * per_ms], type_)
    own: list[Any] = [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        [{"key": "c", "value": b""}],
        [],
        None,
    ]
    expected = [b"5", None, b"7", b"%d" % TIMESTAMP_MS_MAX]
    columns = {"value": pa.array([b""] * 4), "expires_at": times}
    without: list[Any] = [None] * 4
    for headers in (own, without):
        table = pa.table(columns | ({} if headers[0] is None else {"headers": pa.array(headers, HEADERS)}))
        stored = decode_arrow(stream(table), bytes_max=BYTES_MAX).records.column("headers").to_pylist()
        for before, time_ms, after in zip(headers, expected, stored, strict=True):
            expiry = [] if time_ms is None else [{"key": "expires_at", "value": time_ms}]
            assert (after or []) == [*(before or []), *expiry]
    wrong = pa.array([5 * per_ms, -1], type_)
    error = refusal(pa.table({"value": pa.array([b""] * 2), "expires_at": wrong}))
    assert (error.code, wheres(error)) == (ErrorCode.INVALID_RECORD, ["/records/1/expires_at"])


@pytest.mark.parametrize("type_", [pa.int64(), pa.uint64(), pa.uint32()])
def test_partitions_out_of_range_are_named(type_: pa.DataType) -> None:
    """Whatever the integer's width and sign."""
    largest = {pa.int64(): 2**63 - 1, pa.uint64(): 2**64 - 1, pa.uint32(): 2**32 - 1}[type_]
    table = pa.table({"value": VALUES, "partition": pa.array([largest, None, 3], type_)})
    assert wheres(refusal(table)) == ["/records/0/partition"]


@pytest.mark.parametrize(
    ("columns", "where"),
    [
        ({"key": VALUES}, "/value"),
        ({"value": VALUES, "valeu": VALUES}, "/valeu"),
        ({"value": pa.array([1, 2, 3])}, "/value"),
        ({"value": pa.array([[b"a"], None, []])}, "/value"),
        ({"value": VALUES, "key": pa.array([1, 2, 3])}, "/key"),
        ({"value": VALUES, "timestamp": pa.array([1.0, 2.0, 3.0])}, "/timestamp"),
        ({"value": VALUES, "timestamp": pa.array([1, 2, 3], pa.int32())}, "/timestamp"),
        ({"value": VALUES, "timestamp": pa.array([1, 2, 3], pa.date32())}, "/timestamp"),
        ({"value": VALUES, "partition": pa.array([1.0, 2.0, 3.0])}, "/partition"),
        ({"value": VALUES, "partition": pa.array([True, False, None])}, "/partition"),
        ({"value": VALUES, "headers": pa.array([["a"], None, []])}, "/headers"),
        ({"value": VALUES, "headers": pa.array([[{"key": "a"}], None, []])}, "/headers"),
        ({"value": VALUES, "headers": pa.array([[{"key": "a", "value": b"", "x": 1}], None, []])}, "/headers"),
        ({"value": VALUES, "headers": pa.array([[{"key": 1, "value": b""}], None, []])}, "/headers"),
    ],
)
def test_a_wrong_schema_is_named(columns: dict[str, pa.Array], where: str) -> None:
    """Missing, unknown and wrongly typed columns are refused by name, whatever is in them."""
    error = refusal(pa.table(columns))
    assert error.code is ErrorCode.INVALID_REQUEST
    assert wheres(error) == [where]


def test_a_column_given_twice_is_refused() -> None:
    """There would be two values to choose from."""
    table = pa.Table.from_arrays([VALUES, VALUES], names=["value", "value"])
    assert wheres(refusal(table)) == ["/value"]


def test_headers_that_cannot_be_stored_are_named() -> None:
    """Null headers, null keys and keys that are not UTF-8; null values are fine."""
    rows: list[Any] = [[{"key": "a", "value": None}], [None], None, [{"key": None, "value": b""}] * 2]
    table = pa.table({"value": pa.array([b""] * 4), "headers": pa.array(rows, HEADERS)})
    assert wheres(refusal(table)) == ["/records/1/headers", "/records/3/headers"]
    binary = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
    rows = [[{"key": b"a", "value": b""}], [{"key": b"b", "value": b""}, {"key": b"\xff", "value": b""}]]
    table = pa.table({"value": pa.array([b""] * 2), "headers": pa.array(rows, binary)})
    assert wheres(refusal(table)) == ["/records/1/headers"]


def test_what_null_lists_hide_is_not_a_header() -> None:
    """A null list may span elements; they belong to no record and need not be good."""
    elements = pa.array([{"key": "a", "value": b"1"}, None, {"key": "b", "value": b"2"}], HEADERS.value_type)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), elements, mask=pa.array([False, True, False]))
    incoming = decode_arrow(stream(pa.table({"value": VALUES, "headers": lists})), bytes_max=BYTES_MAX)
    assert incoming.records.column("headers").to_pylist() == [
        [{"key": "a", "value": b"1"}],
        None,
        [{"key": "b", "value": b"2"}],
    ]


@pytest.mark.parametrize("view", [(-(2**31), 0, 0, 0), (0xFF0000, 0, 0, 0), (1 << 30, 0, 99, 1 << 30)])
def test_a_null_view_may_hold_anything(view: tuple[int, ...]) -> None:
    """Validation does not look at the view of a null; what follows it, as a cast does, would end the process."""
    validity = pa.py_buffer(bytes([0b101]))
    long = b"a value that is too long to lie in its view"
    views = struct.pack("<i12s", 1, b"a") + struct.pack("<iiii", *view)
    views += struct.pack("<i4sii", len(long), long[:4], 0, 0)
    column = pa.Array.from_buffers(pa.binary_view(), 3, [validity, pa.py_buffer(views), pa.py_buffer(long)])
    incoming = decode_arrow(stream(pa.table({"value": column, "key": column})), bytes_max=BYTES_MAX)
    assert (
        incoming.records.column("value").to_pylist() == incoming.records.column("key").to_pylist() == [b"a", None, long]
    )


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_stream_that_decompresses_to_too_much_is_refused(compression: str) -> None:
    """By what its buffers say, before anything is decompressed; exactly the limit is still taken."""
    data = stream(pa.table({"value": pa.array([b"a" * 1000] * 1000)}), compression)
    assert len(data) < 20_000
    error = refusal(data, 1_000_000)
    assert (error.code, error.fields["limit_bytes"]) == (ErrorCode.REQUEST_TOO_LARGE, 1_000_000)
    assert len(decode_arrow(data, bytes_max=1_004_004)) == 1000
    claimed = data.replace((1_000_000).to_bytes(8, "little"), (2**33).to_bytes(8, "little"))
    assert claimed != data
    assert refusal(claimed).code is ErrorCode.REQUEST_TOO_LARGE


def test_a_dictionary_or_view_that_writes_out_to_too_much_is_refused() -> None:
    """A long value named a hundred thousand times is one gigabyte; also in headers, also under many nulls."""
    long = pa.array([b"x" * 10_000])
    named = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int8)), long)
    assert refusal(pa.table({"value": named})).code is ErrorCode.REQUEST_TOO_LARGE
    view = struct.pack("<i4sii", 10_000, b"xxxx", 0, 0)
    views = pa.Array.from_buffers(
        pa.binary_view(), 1000, [None, pa.py_buffer(view * 1000), pa.py_buffer(b"x" * 10_000)]
    )
    assert refusal(pa.table({"value": views})).code is ErrorCode.REQUEST_TOO_LARGE
    unnamed = pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), views)
    assert refusal(pa.table({"value": unnamed})).code is ErrorCode.REQUEST_TOO_LARGE
    elements = pa.StructArray.from_arrays([named, pa.nulls(100_000, pa.binary())], names=["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, 100_000], pa.int32()), elements)
    assert refusal(pa.table({"value": pa.array([b""]), "headers": headers})).code is ErrorCode.REQUEST_TOO_LARGE


def test_rows_that_nothing_stands_for_are_refused() -> None:
    """A column of type null may claim any number of rows in a few bytes; each still counts."""
    column = pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])
    data = stream(pa.table({"value": column}))
    assert len(data) < 1_000
    assert refusal(data).code is ErrorCode.REQUEST_TOO_LARGE
    claimed = data.replace((2**31 - 1).to_bytes(8, "little"), (2**50).to_bytes(8, "little"))
    assert refusal(claimed).code is ErrorCode.REQUEST_TOO_LARGE


def test_a_stream_must_be_whole() -> None:
    """Every prefix of a stream is refused, also at the end of a batch, and so is what follows its end."""
    data = stream(pa.table({"value": VALUES}), chunk_rows=1)
    assert len(decode_arrow(data, bytes_max=BYTES_MAX)) == 3
    for end in range(len(data)):
        assert refusal(data[:end]).code is ErrorCode.INVALID_REQUEST
    for rest in (b"\x00", b"\x00" * 8, data):
        assert refusal(data + rest).code is ErrorCode.INVALID_REQUEST
    assert refusal(b"PAR1 not Arrow at all").code is ErrorCode.INVALID_REQUEST


def test_a_stream_of_too_many_messages_is_refused() -> None:
    """Each message costs as much as many rows, whatever is in it."""
    table = pa.table({"value": VALUES})
    check_messages(pa.py_buffer(stream(table, chunk_rows=2)), BYTES_MAX, messages_max=3)
    with pytest.raises(RequestRefused) as refused:
        check_messages(pa.py_buffer(stream(table, chunk_rows=1)), BYTES_MAX, messages_max=3)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
