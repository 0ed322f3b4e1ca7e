"""Encoding of an Arrow table to a record batch, column by column: no Python object for each record.

The bytes around keys and values are made as columns; Arrow joins the columns, and the data of the joined column are the records.
A record without headers ends in a zero, which is written before the next record: so there are fewer columns to join.

Source: Kafka's ``DefaultRecord``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gateway.kafka.wire.batch_head import LOG_APPEND_TIME, NO_PRODUCER, BatchHead, encode_head
from gateway.kafka.wire.compression import NONE, compress
from log_format.records import varints
from log_format.records.varints import Bytes, Int64s

Parts = Sequence[bytes | memoryview]
_Number = tuple[Bytes, Int64s | int]
"""A number for each record: see ``varints.encode``."""
_WANTED: Final = ("offset", "timestamp", "key", "value", "headers")
_NOTHING: Final = pa.scalar(b"", pa.binary())
_NO_HEADERS: Final = b"\0"
APPEND_TIMES_MAX: Final = 200
"""Most append times in one fetch: at the default ``flush.ms`` a gateway appends so often in a minute."""
_ALIKE_MAX: Final = 16
"""Number of changes in the numbers' sizes up to which rows are encoded in runs; beyond it, row by row."""


def encode_batches(
    tables: Sequence[pa.Table], base_offset: int, next_offset: int, *, codec: int = NONE, log_append_time: bool = False
) -> Parts:
    """Encode all records (``RECORD_SCHEMA``, by offset) as one batch, in parts: its head and its records.

    The batch begins at ``base_offset`` and reaches up to ``next_offset``, so that a reader continues behind a gap. Without
    records it is empty, like a broker's batch whose records were all compacted.

    ``log_append_time``: encode batches of type LogAppendTime, one for each time, since a batch's head has one time for all its
    records. If there are more than ``APPEND_TIMES_MAX`` times, producers must have set them: the result is one batch with
    CreateTime.
    """
    records = _joined(tables)
    edges = _changes_of_time(records) if log_append_time and records is not None else ()
    if records is None or not log_append_time or len(edges) >= APPEND_TIMES_MAX:
        return _batch(records, base_offset, next_offset, codec)
    offsets = records.column("offset").to_numpy()
    starts = [base_offset, *(int(offsets[edge]) for edge in edges), next_offset]
    found: list[bytes | memoryview] = []
    for (first, last), (start, end) in zip(pairwise([0, *edges, records.num_rows]), pairwise(starts), strict=True):
        found += _batch(records.slice(first, last - first), start, end, codec, attributes=int(LOG_APPEND_TIME))
    return found


def _changes_of_time(records: pa.Table) -> Sequence[int]:
    """Return the rows whose timestamp differs from that of the row before."""
    rows: list[int] = (np.flatnonzero(np.diff(_milliseconds(records.column("timestamp")))) + 1).tolist()
    return rows


def _batch(records: pa.Table | None, base_offset: int, next_offset: int, codec: int, *, attributes: int = 0) -> Parts:
    count = 0 if records is None else records.num_rows
    body: Parts = ()
    if records is None:
        codec = NONE
        times = np.zeros(1, np.int64)
    else:
        times = _milliseconds(records.column("timestamp"))
        body = _records(records, base_offset, times)
        if codec != NONE:
            body = (compress(codec, body),)
    head = BatchHead(
        base_offset=base_offset,
        attributes=codec | attributes,
        last_offset_delta=next_offset - 1 - base_offset,
        first_timestamp=int(times[0]) if count else -1,
        max_timestamp=int(times.max()) if count else -1,
        producer_id=NO_PRODUCER,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )
    return [encode_head(head, body), *body]


def _joined(tables: Sequence[pa.Table]) -> pa.Table | None:
    tables = [table.select(_WANTED) for table in tables if table.num_rows]
    if not tables:
        return None
    return (tables[0] if len(tables) == 1 else pa.concat_tables(tables)).combine_chunks()


def _records(records: pa.Table, base_offset: int, times: Int64s) -> Parts:
    keys, values, headers = (records.column(name).chunk(0) for name in ("key", "value", "headers"))
    count = len(values)
    key_lengths, value_lengths = _lengths(keys), _lengths(values)
    key = varints.encode(key_lengths)
    value = varints.encode(value_lengths)
    deltas = [varints.encode(times - times[0]), varints.encode(records.column("offset").to_numpy() - base_offset)]
    suffix = _header_bytes(headers)
    lengths = np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
    lengths += 1 if suffix is None else _lengths(suffix)
    for _, sizes in (*deltas, key, value):
        lengths += sizes
    zero = (np.zeros((count, 1), np.uint8), 1)
    ahead = [varints.encode(lengths + 1), zero, *deltas]
    if suffix is None:
        ahead.insert(0, zero)  # the end of the record before
    if keys.null_count == count:
        columns = [_column([*ahead, key, value]), _present(values)]
    else:
        columns = [_column([*ahead, key]), _present(keys), _column([value]), _present(values)]
    if suffix is None:
        whole = _data(pc.binary_join_element_wise(*columns, _NOTHING))
        return (whole[1:], _NO_HEADERS)
    return (_data(pc.binary_join_element_wise(*columns, suffix, _NOTHING)),)


def _header_bytes(headers: pa.ListArray) -> pa.Array | None:
    """Return for each record its encoded headers with their count; None if no record has headers."""
    count = len(headers)
    if headers.null_count == count:
        return None
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    if not counts.any():
        return None
    written = _column([varints.encode(counts)])
    names, values = headers.flatten().flatten()
    names = names.cast(pa.binary())
    each = pc.binary_join_element_wise(
        _column([varints.encode(_lengths(names))]),
        names,
        _column([varints.encode(_lengths(values))]),
        _present(values),
        _NOTHING,
    )
    ends = np.concatenate([[0], np.cumsum(counts)])
    of_each = np.frombuffer(each.buffers()[1], np.int32)[each.offset : each.offset + len(each) + 1]
    of_records = pa.BinaryArray.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(np.ascontiguousarray(of_each[ends])), each.buffers()[2]]
    )
    return pc.binary_join_element_wise(written, of_records, _NOTHING)


def _column(numbers: Sequence[_Number]) -> pa.Array:
    """Return the numbers, joined row by row, as a binary column."""
    count = len(numbers[0][0])
    varying = [sizes for _, sizes in numbers if not isinstance(sizes, int)]
    changes = [np.flatnonzero(sizes[1:] != sizes[:-1]) + 1 for sizes in varying]
    if sum(map(len, changes)) > _ALIKE_MAX:
        return _one_by_one(numbers)
    # Runs of rows whose numbers have equal sizes are copied in one step.
    edges = sorted({0, count, *(edge for some in changes for edge in some.tolist())})
    data, ends, end = [], np.empty(count + 1, np.int32), 0
    ends[0] = 0
    for first, last in pairwise(edges):
        parts = [rows[first:last, : sizes if isinstance(sizes, int) else sizes[first]] for rows, sizes in numbers]
        width = sum(part.shape[1] for part in parts)
        block = np.empty((last - first, width), np.uint8)
        column = 0
        for part in parts:
            block[:, column : column + part.shape[1]] = part
            column += part.shape[1]
        data.append(block.reshape(-1))
        ends[first + 1 : last + 1] = np.arange(end + width, end + width * (last - first) + 1, width)
        end += width * (last - first)
    return _binary(ends, data[0] if len(data) == 1 else np.concatenate(data))


def _one_by_one(numbers: Sequence[_Number]) -> pa.Array:
    rows = np.concatenate([matrix for matrix, _ in numbers], axis=1)
    is_used = np.concatenate([_used(matrix, sizes) for matrix, sizes in numbers], axis=1)
    ends = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(sum(sizes for _, sizes in numbers), out=ends[1:])
    return _binary(ends, rows[is_used])


def _binary(ends: np.ndarray[tuple[int, ...], np.dtype[np.int32]], data: Bytes) -> pa.Array:
    return pa.BinaryArray.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def _used(matrix: Bytes, sizes: Int64s | int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    if isinstance(sizes, int):
        return np.ones(matrix.shape, np.bool_)
    return np.arange(matrix.shape[1]) < sizes[:, None]


def _present(column: pa.Array) -> pa.Array:
    """Replace nulls by empty bytes."""
    return pc.fill_null(column, b"") if column.null_count else column


def _lengths(column: pa.Array) -> Int64s:
    """Return the lengths; -1 for null."""
    if column.null_count == len(column):
        return np.full(len(column), -1)
    lengths = pc.binary_length(column)
    if lengths.null_count:
        lengths = pc.fill_null(lengths, -1)
    return np.asarray(lengths.to_numpy(zero_copy_only=False)).astype(np.int64)


def _milliseconds(column: pa.ChunkedArray) -> Int64s:
    micros: Int64s = column.chunk(0).view(pa.int64()).to_numpy()
    return micros // 1000


def _data(column: pa.Array) -> memoryview:
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    first, last = int(offsets[column.offset]), int(offsets[column.offset + len(column)])
    return memoryview(column.buffers()[2])[first:last]
