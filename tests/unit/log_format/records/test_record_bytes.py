"""What records count where sizes are limited."""

from __future__ import annotations

import pyarrow as pa
import pytest

from log_format.limits import HEADER_BYTES_MIN, HEADERS_FREE
from log_format.records.schema import BATCH_SCHEMA, HEADERS
from log_format.records.size import SMALL_TABLE_RECORDS, largest_record_bytes, record_bytes, record_bytes_at_most
from tidelog.types.record import headers_bytes


@pytest.mark.parametrize("count", [0, 1, HEADERS_FREE, HEADERS_FREE + 1, 100, 1000])
@pytest.mark.parametrize("value", [None, b"", b"x" * 5, b"y" * 30])
def test_headers_count_their_bytes_and_many_at_least_their_number(count: int, value: bytes | None) -> None:
    """A few headers count their bytes, exactly; many empty ones what they take in memory. The SDK counts the same."""
    headers = [{"key": "", "value": value}] * count
    row = {"timestamp": 0, "key": b"k", "value": b"vv", "headers": headers}
    records = pa.Table.from_pylist([row, row | {"headers": None}, row], schema=BATCH_SCHEMA)
    size = max(count * len(value or b""), (count - HEADERS_FREE) * HEADER_BYTES_MIN)
    assert record_bytes(records).tolist() == [3 + size, 3, 3 + size]
    assert headers_bytes((("", value),) * count) == size
    assert record_bytes_at_most(records) >= 2 * size + 9


@pytest.mark.parametrize("count", [1, SMALL_TABLE_RECORDS, SMALL_TABLE_RECORDS + 1])
@pytest.mark.parametrize("headers", [None, [{"key": "name", "value": b"12345"}]])
def test_the_largest_record(count: int, headers: object) -> None:
    """Few records are measured in another way than many, and come to the same; nulls count nothing."""
    columns = {
        "key": pa.array([None if index % 2 else b"key" for index in range(count)], pa.binary()),
        "value": pa.array([b"x" * index if index else None for index in range(count)], pa.binary()),
        "headers": pa.array([headers if index == 0 else None for index in range(count)], HEADERS),
    }
    records = pa.table(columns).slice(0, count)
    assert largest_record_bytes(records) == int(record_bytes(records).max())
