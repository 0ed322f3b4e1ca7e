"""Arrow bodies with the columns of typed values: which types are taken, and that nothing costs more than its bytes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gateway.codec.arrow_body import decode_arrow
from log_format.errors import ErrorCode, RequestRefused

BYTES_MAX = 1 << 20


def stream(table: pa.Table, chunk_rows: int | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=chunk_rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decoded(data: pa.Array, chunk_rows: int | None = None) -> pa.Array:
    incoming = decode_arrow(stream(pa.table({"data": data}), chunk_rows), bytes_max=BYTES_MAX)
    assert incoming.records.column("value").null_count == len(incoming) == len(data)
    assert incoming.data is not None
    incoming.data.values.validate(full=True)
    return incoming.data.values


def refusal(columns: dict[str, Any], bytes_max: int = BYTES_MAX) -> RequestRefused:
    with pytest.raises(RequestRefused) as refused:
        decode_arrow(stream(pa.table(columns)), bytes_max=bytes_max)
    return refused.value


@pytest.mark.parametrize("chunk_rows", [None, 1])
def test_columns_become_plain(chunk_rows: int | None) -> None:
    """Views, large types and lists of fixed size become plain ones; nulls stay, and null lists have no items."""
    rows: list[dict[str, Any] | None] = [
        {"t": "a", "v": "long enough for a view", "b": b"12", "l": [1, 2], "f": [1, 2], "m": {"k": Decimal("1.5")}},
        None,
        {"t": None, "v": None, "b": None, "l": None, "f": None, "m": None},
        {"t": "", "v": "", "b": b"34", "l": [], "f": [3, None], "m": {"x": None, "y": Decimal(2)}},
    ]
    given = pa.struct(
        [
            ("t", pa.large_string()),
            ("v", pa.string_view()),
            ("b", pa.binary(2)),
            ("l", pa.large_list(pa.int64())),
            ("f", pa.list_(pa.int16(), 2)),
            ("m", pa.map_(pa.string(), pa.decimal64(4, 1))),
        ]
    )
    found = decoded(pa.array(rows, given), chunk_rows)
    plain = [pa.string(), pa.string(), pa.binary(), pa.list_(pa.int64()), pa.list_(pa.int16())]
    assert [field.type for field in found.type] == [*plain, pa.map_(pa.string(), pa.decimal128(4, 1))]
    wanted = [row if row is None or row["m"] is None else {**row, "m": list(row["m"].items())} for row in rows]
    assert found.to_pylist() == wanted
    lists = found.field("f")
    assert len(lists.values) == sum(len(items or ()) for items in lists.to_pylist())


def test_a_stream_has_values_or_columns() -> None:
    """One of both; nulls are tombstones, and a column without a type has nothing else."""
    assert refusal({"key": ["a"]}).fields["errors"] == [{"where": "/value", "what": "is missing"}]
    both = {"value": ["a"], "data": pa.array([{"a": 1}])}
    assert refusal(both).fields["errors"] == [{"where": "/data", "what": "excludes the column value"}]
    tombstones = decode_arrow(stream(pa.table({"data": pa.nulls(3), "key": ["a", "b", "c"]})), bytes_max=BYTES_MAX)
    assert (len(tombstones), tombstones.data) == (3, None)


@pytest.mark.parametrize(
    "data",
    [
        pa.array([1]),
        pa.array([{}], pa.struct([])),
        pa.array([{"a": "x"}], pa.struct([("a", pa.dictionary(pa.int8(), pa.string()))])),
        pa.array([{"a": None}], pa.struct([("a", pa.time64("us"))])),
        pa.array([{"a": None}], pa.struct([("a", pa.decimal256(50, 2))])),
        pa.array([{"a": None}], pa.struct([("a", pa.map_(pa.int8(), pa.int8()))])),
        pa.array([{"a": [{}]}], pa.struct([("a", pa.list_(pa.struct([])))])),
        pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
    ],
    ids=str,
)
def test_other_types_are_refused(data: pa.Array) -> None:
    """The schema is refused, not a row of it."""
    error = refusal({"data": data})
    assert error.code is ErrorCode.INVALID_REQUEST
    assert error.fields["errors"][0]["where"] == "/data"


def test_what_takes_no_bytes_counts() -> None:
    """A view that is repeated, and items that are only claimed, are refused before anything is made of them."""
    text = "x" * 1000
    views = pa.array([text] * 2, pa.string_view())
    validity, _, *buffers = views.buffers()
    repeated = np.tile(np.frombuffer(views.buffers()[1], np.uint8)[:16], 5_000)
    many = pa.Array.from_buffers(pa.string_view(), 5_000, [validity, pa.py_buffer(repeated), *buffers])
    error = refusal({"data": pa.StructArray.from_arrays([many], names=["a"])})
    assert error.code is ErrorCode.REQUEST_TOO_LARGE
    claimed = pa.ListArray.from_arrays(pa.array([0, 2**30], pa.int32()), pa.nulls(2**30))
    error = refusal({"data": pa.StructArray.from_arrays([claimed], names=["a"])})
    assert error.code is ErrorCode.REQUEST_TOO_LARGE
