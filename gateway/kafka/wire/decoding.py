"""Decoding of a record batch to an Arrow table, column by column: no Python object for each record.

1. The start of each record is found from the record before it. Runs of records of equal length are skipped in one step; for other
   records it takes a few additions each.
2. All other fields are read for all records at once. Keys and values are gathered by Arrow.
3. Whatever a length, count or number claims, nothing beyond its record is read, and memory stays proportional to the batch's
   bytes.

Source: Kafka's ``DefaultRecord``. Record: length, attributes, timestamp delta, offset delta, key, value, headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gateway.kafka.wire import few_records
from gateway.kafka.wire.batch_head import HEAD, BatchHead
from gateway.kafka.wire.compression import CODECS, TooLarge, decompress
from gateway.kafka.wire.few_records import NO_TIMESTAMP
from gateway.kafka.wire.reading import Malformed
from log_format.limits import HEADER_BYTES_MIN, HEADERS_FREE
from log_format.records import varints
from log_format.records.schema import BATCH_SCHEMA, HEADER, HEADERS, TIMESTAMP, TIMESTAMP_MS_MAX
from log_format.records.single import SingleRecord
from log_format.records.varints import Bytes, Int64s

RECORD_BYTES_MIN: Final = 7
"""Least bytes of a record: length, attributes, two deltas, two lengths, a count."""
_LOOK_AFTER_RECORDS: Final = 8
_LOOK_RECORDS_MIN: Final = 64
_LOOK_RECORDS_MAX: Final = 16_384
"""After so many records of one length, those that follow are looked at together, up to the first one of another length: 64 of
them, and 16,384 where all 64 are as long."""
_PADDING_BYTES: Final = 4 * varints.VARINT_BYTES_MAX
"""Bytes of padding behind the batch: up to three numbers are read before the check whether their record has ended."""
_COLUMNS_RECORDS_MIN: Final = 16
"""Number of records below which further headers are read record by record: a step over columns costs as much as twenty of
them."""


class UnknownCodec(Exception):
    """The batch is compressed by a codec that Kafka does not have."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Byte ranges, one for each record: their start and their length; -1: null."""

    starts: Int64s
    lengths: Int64s


def decode(
    head: BatchHead, batch: memoryview, now_ms: int, bytes_max: int, *, few_max: int = few_records.RECORDS_MAX
) -> pa.Table | SingleRecord:
    """Decode a batch.

    Args:
        head: The batch's head, checked.
        batch: All bytes of the batch.
        now_ms: Timestamp of records in a batch without timestamps.
        bytes_max: Most bytes after decompression.
        few_max: Number of records up to which they are decoded one by one.

    Returns:
        The records with ``BATCH_SCHEMA``, or the only record.

    Raises:
        Malformed: The bytes are not a batch.
        TooLarge: More than ``bytes_max`` bytes.
        UnknownCodec: The compression is unknown.
    """
    if head.codec not in CODECS:
        raise UnknownCodec
    records = decompress(head.codec, batch[HEAD.size :], bytes_max)
    _check_count(head, len(records))
    if head.count <= few_max and len(records) <= few_records.BYTES_MAX:
        few = few_records.decode_few(head, records, now_ms)
        if few is not None:
            return few
    return _table([head], [records], now_ms, bytes_max)


def decode_together(heads: Sequence[BatchHead], batches: Sequence[memoryview], now_ms: int, bytes_max: int) -> pa.Table:
    """Decode uncompressed batches into one table, in their order, each as ``decode`` does. A step over the columns of several
    batches costs little more than over those of one.

    Raises ``Malformed`` or ``TooLarge`` if any batch does.
    """
    for head, batch in zip(heads, batches, strict=True):
        _check_count(head, len(batch) - HEAD.size)
    return _table(heads, [batch[HEAD.size :] for batch in batches], now_ms, bytes_max)


def _check_count(head: BatchHead, size: int) -> None:
    if head.count * RECORD_BYTES_MIN > size:
        raise Malformed(f"{head.count} records in {size} bytes")


def _table(heads: Sequence[BatchHead], batches: Sequence[bytes | memoryview], now_ms: int, bytes_max: int) -> pa.Table:
    """Return the records of the batches as one table."""
    sizes = np.array([len(records) for records in batches])
    counts = np.array([head.count for head in heads])
    size = int(sizes.sum())
    data = np.zeros(size + _PADDING_BYTES, np.uint8)
    np.concatenate([np.frombuffer(records, np.uint8) for records in batches], out=data[:size])
    firsts = np.cumsum(counts) - counts
    places, starts, ends = _find_records(data, size, int(counts.sum()))
    if (places[firsts] != np.cumsum(sizes) - sizes).any():
        raise Malformed("records that do not fill their batch")
    deltas, at = varints.read(data, starts + 1)  # the attributes before have no meaning
    offsets, at = varints.read(data, at)
    if (offsets != np.arange(len(offsets)) - np.repeat(firsts, counts)).any():
        raise Malformed("offsets that do not follow each other")
    keys, at = _read_span(data, at, ends)
    values, at = _read_span(data, at, ends)
    header_counts, at = varints.read(data, at)
    headers = _headers(data, header_counts, at, ends, bytes_max)
    columns = _gather_columns(data, (keys, values))
    first_times = np.repeat([head.first_timestamp for head in heads], counts)
    times = np.where(first_times == NO_TIMESTAMP, now_ms, first_times + deltas)
    return pa.Table.from_arrays([_timestamps(times), *columns, headers], schema=BATCH_SCHEMA)


def _find_records(data: Bytes, size: int, count: int) -> tuple[Int64s, Int64s, Int64s]:
    """Return for each record its position, its start after the length, and its end."""
    raw = data.tobytes()
    found: list[Int64s] = []
    walked: list[int] = []
    position, left, looked = 0, count, _LOOK_RECORDS_MIN
    last_stride = in_a_row = 0
    while left:
        if position >= size:
            raise Malformed("a record behind the end of its batch")
        length = raw[position]
        if length < 128:
            stride = 1 + (length >> 1)
        elif (byte := raw[position + 1]) < 128:
            stride = 2 + ((length & 127 | byte << 7) >> 1)
        else:
            stride = _long_record_size(raw, position)
        walked.append(position)
        position += stride
        left -= 1
        if stride != last_stride:
            last_stride, in_a_row = stride, 1
            continue
        in_a_row += 1
        if in_a_row >= _LOOK_AFTER_RECORDS and position < size:
            most = min(left, looked, (size - position) // stride)
            alike = _count_equal_lengths(raw, position - stride, stride, most + 1) - 1
            looked = _LOOK_RECORDS_MAX if alike == looked else _LOOK_RECORDS_MIN
            found += [np.array(walked, np.int64), np.arange(position, position + stride * alike, stride)]
            walked = []
            position += stride * alike
            left -= alike
            in_a_row = in_a_row if alike == most else 0
    places = np.concatenate([*found, np.array(walked, np.int64)])
    lengths, starts = varints.read(data, places)
    ends = starts + lengths
    if position != size or lengths.min() < RECORD_BYTES_MIN - 1 or ends[-1] != size:
        raise Malformed("records that do not fill their batch")
    return places, starts, ends


def _long_record_size(raw: bytes, position: int) -> int:
    """Return the size of a record whose length takes more than two bytes."""
    length, shift, size = 0, 0, 0
    while True:
        byte = raw[position + size]
        size += 1
        length |= (byte & 127) << shift
        if byte < 128:
            return size + (length >> 1)
        shift += 7
        if shift > 28:
            raise Malformed("a record's length has more than 5 bytes")


def _count_equal_lengths(raw: bytes, position: int, stride: int, most: int) -> int:
    """Return how many records from ``position`` on, at most ``most``, have the length of the first one, which takes ``stride``
    bytes with its length."""
    byte, column = 0x80, position
    while most and byte & 0x80:
        bytes_of_all = raw[column : column + stride * most : stride]
        byte = bytes_of_all[0]
        most -= len(bytes_of_all.lstrip(bytes_of_all[:1]))
        column += 1
    return most


def _read_span(data: Bytes, at: Int64s, ends: Int64s) -> tuple[_Span, Int64s]:
    """Return nullable byte ranges, each preceded by its length, and the positions behind them."""
    lengths, starts = varints.read(data, at)
    if lengths.min(initial=0) < -1 or (lengths > ends - starts).any():
        raise Malformed("a key, value or header is longer than its record")
    return _Span(starts, lengths), starts + np.maximum(lengths, 0)


def _read_headers_singly(data: Bytes, position: int, end: int, places: range, spans: tuple[_Span, _Span]) -> int:
    """Read the headers of one record into ``spans`` at ``places``; return the position behind them."""
    raw = data[position : end + varints.VARINT_BYTES_MAX].tobytes()
    at, last = 0, end - position
    for place in places:
        for span in spans:
            value, at = varints.read_one(raw, at)
            if not -1 <= value <= last - at:
                raise Malformed("a header is longer than its record")
            span.starts[place], span.lengths[place] = position + at, value
            at += max(value, 0)
    return position + at


def _gather_columns(data: Bytes, spans: tuple[_Span, ...]) -> list[pa.Array]:
    """Return the ranges as columns. The ranges must lie in order: within each record, and from record to record.

    A column over all of ``data`` has the bytes between the ranges as elements, too; the wanted elements are taken from it.
    """
    present = [span for span in spans if (span.lengths >= 0).any()]
    if not present:
        return [pa.nulls(len(span.starts), pa.binary()) for span in spans]
    count, width = len(spans[0].starts), 2 * len(present)
    edges = np.empty((count, width), np.int32)
    for number, span in enumerate(present):
        edges[:, 2 * number] = span.starts
        edges[:, 2 * number + 1] = span.starts + np.maximum(span.lengths, 0)
    whole = pa.BinaryArray.from_buffers(
        pa.binary(), count * width - 1, [None, pa.py_buffer(edges.reshape(-1)), pa.py_buffer(data)]
    )
    first = np.arange(0, count * width, width)
    columns = []
    number = 0
    for span in spans:
        is_null = span.lengths < 0
        if is_null.all():
            columns.append(pa.nulls(count, pa.binary()))
            continue
        indices = pa.array(first + number, mask=is_null if is_null.any() else None)
        columns.append(pc.take(whole, indices, boundscheck=False))
        number += 2
    return columns


def _timestamps(times: Int64s) -> pa.Array:
    if times.min() < 0 or times.max() > TIMESTAMP_MS_MAX:
        raise Malformed("a timestamp that is none")
    return pa.array(times * 1000, pa.int64()).view(TIMESTAMP)


def _headers(data: Bytes, counts: Int64s, at: Int64s, ends: Int64s, bytes_max: int) -> pa.Array:
    """Return the column of headers. The n-th headers of all records are read in one step; when few records have that many,
    record by record."""
    if counts.min() < 0 or (counts * 2 > ends - at).any():
        raise Malformed("more headers than their record has bytes")
    if not counts.any():
        if (at != ends).any():
            raise Malformed("bytes behind a record's headers")
        return pa.nulls(len(counts), HEADERS)
    if int(np.maximum(counts - HEADERS_FREE, 0).sum()) * HEADER_BYTES_MIN > bytes_max:
        raise TooLarge
    list_ends = np.cumsum(counts)
    total = int(list_ends[-1])
    names = _Span(np.zeros(total, np.int64), np.zeros(total, np.int64))
    values = _Span(np.zeros(total, np.int64), np.zeros(total, np.int64))
    at = at.copy()
    having, number = np.flatnonzero(counts), 0
    while len(having):
        place = list_ends[having] - counts[having] + number
        for of_all in (names, values):
            span, behind = _read_span(data, at[having], ends[having])
            of_all.starts[place], of_all.lengths[place] = span.starts, span.lengths
            at[having] = behind
        number += 1
        having = having[counts[having] > number]
        if number >= _COLUMNS_RECORDS_MIN and len(having) < _COLUMNS_RECORDS_MIN:
            for record in having.tolist():
                first = int(list_ends[record] - counts[record])
                places = range(first + number, first + int(counts[record]))
                at[record] = _read_headers_singly(data, int(at[record]), int(ends[record]), places, (names, values))
            break
    if (at != ends).any():
        raise Malformed("bytes behind a record's headers")
    if (names.lengths < 0).any():
        raise Malformed("a header without a name")
    columns = _gather_columns(data, (names, values))
    try:
        texts = columns[0].cast(pa.string())
    except pa.ArrowInvalid as error:
        raise Malformed("a header's name is not UTF-8") from error
    structs = pa.StructArray.from_arrays([texts, columns[1]], fields=list(HEADER))
    offsets = np.zeros(len(counts) + 1, np.int32)
    offsets[1:] = list_ends
    is_null = np.append(counts == 0, False)
    return pa.ListArray.from_arrays(pa.array(offsets, mask=is_null), structs, type=HEADERS)
