"""Decoding of a batch of few records, record by record: a step over columns costs as much as ten records.

A single record without headers stays a ``SingleRecord``: a table would cost more than everything else. Accepts and refuses the
same bytes as decoding by columns (``decoding``). Source: Kafka's ``DefaultRecord``.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from gateway.kafka.wire.batch_head import BatchHead
from gateway.kafka.wire.reading import Malformed
from log_format.records import varints
from log_format.records.schema import BATCH_SCHEMA, HEADERS, TIMESTAMP, TIMESTAMP_MS_MAX
from log_format.records.single import SingleRecord

RECORDS_MAX: Final = 16
BYTES_MAX: Final = 16 * 1024
HEADERS_MAX: Final = 16
"""Most headers of a record."""
NO_TIMESTAMP: Final = -1
_RECORD_BYTES_MIN: Final = 6
"""Least bytes of a record after its length."""


def decode_few(head: BatchHead, records: bytes | memoryview, now_ms: int) -> pa.Table | SingleRecord | None:
    """Decode decompressed records as ``decoding.decode_few`` does; return None if a record has many headers."""
    size = len(records)
    data = bytes(records) + bytes(varints.VARINT_BYTES_MAX)
    times: list[int] = []
    columns: tuple[list[bytes | None], list[bytes | None], list[Any]] = ([], [], [])
    at = 0
    for number in range(head.count):
        if at >= size:
            raise Malformed("a record behind the end of its batch")
        length, at = varints.read_one(data, at)
        end = at + length
        if length < _RECORD_BYTES_MIN or end > size:
            raise Malformed("records that do not fill their batch")
        delta, at = varints.read_one(data, at + 1)  # the attributes before have no meaning
        offset, at = varints.read_one(data, at)
        if offset != number:
            raise Malformed("offsets that do not follow each other")
        key, at = _bytes(data, at, end)
        value, at = _bytes(data, at, end)
        count, at = varints.read_one(data, at)
        if not 0 <= count * 2 <= end - at:
            raise Malformed("more headers than their record has bytes")
        if count > HEADERS_MAX:
            return None
        headers, at = _headers(data, at, end, count)
        if at != end:
            raise Malformed("bytes behind a record's headers")
        time_ms = now_ms if head.first_timestamp == NO_TIMESTAMP else head.first_timestamp + delta
        if not 0 <= time_ms <= TIMESTAMP_MS_MAX:
            raise Malformed("a timestamp that is none")
        if head.count == 1 and headers is None and at == size:
            return SingleRecord(time_ms, key, value)
        times.append(time_ms * 1000)
        for column, one in zip(columns, (key, value, headers), strict=True):
            column.append(one)
    if at != size:
        raise Malformed("records that do not fill their batch")
    return _table(times, *columns)


def _table(times: list[int], keys: list[bytes | None], values: list[bytes | None], headers: list[Any]) -> pa.Table:
    arrays = [pa.array(times, pa.int64()).view(TIMESTAMP), pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
    arrays.append(pa.array(headers, HEADERS) if any(headers) else pa.nulls(len(times), HEADERS))
    return pa.Table.from_arrays(arrays, schema=BATCH_SCHEMA)


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Return nullable bytes, preceded by their length, and the position behind them."""
    length, at = varints.read_one(data, at)
    if not -1 <= length <= end - at:
        raise Malformed("a key, value or header is longer than its record")
    return (None, at) if length < 0 else (data[at : at + length], at + length)


def _headers(data: bytes, at: int, end: int, count: int) -> tuple[list[dict[str, Any]] | None, int]:
    """Return the headers, None if there are none, and the position behind them."""
    if not count:
        return None, at
    found = []
    for _ in range(count):
        name, at = _bytes(data, at, end)
        value, at = _bytes(data, at, end)
        if name is None:
            raise Malformed("a header without a name")
        try:
            found.append({"key": name.decode(), "value": value})
        except UnicodeDecodeError as error:
            raise Malformed("a header's name is not UTF-8") from error
    return found, at
