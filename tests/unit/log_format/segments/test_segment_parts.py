"""Segments of older versions, whose row groups of empty headers become many times their size: read within bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from log_format.errors import CorruptData
from log_format.records.schema import HEADERS, RECORD_SCHEMA, TIMESTAMP
from log_format.segments.partial_decoding import decode_parts
from log_format.segments.reader import SegmentReader
from log_format.segments.run import SegmentRef
from log_format.segments.segment import decode_footer, encode_segment
from log_format.stores.memory import MemoryStore

MEBIBYTE = 1024 * 1024
RECORD_COUNT = 10


def records(header_count: int) -> pa.Table:
    """Ten records of so many empty headers each."""
    total = header_count * RECORD_COUNT
    names = pa.Array.from_buffers(pa.string(), total, [None, pa.py_buffer(bytes(4 * (total + 1))), pa.py_buffer(b"")])
    pairs = pa.StructArray.from_arrays([names, pa.nulls(total, pa.binary())], fields=list(HEADERS.value_type))
    headers = pa.ListArray.from_arrays(
        pa.array(np.arange(RECORD_COUNT + 1) * header_count, pa.int32()), pairs, type=HEADERS
    )
    zeros = np.zeros(RECORD_COUNT, np.int64)
    return pa.table(
        [
            pa.array(zeros.astype(np.int32)),
            pa.array(np.arange(RECORD_COUNT)),
            pa.array(zeros).cast(TIMESTAMP),
            pa.nulls(RECORD_COUNT, pa.binary()),
            pa.array([b"%d" % index for index in range(RECORD_COUNT)], pa.binary()),
            headers,
        ],
        schema=RECORD_SCHEMA,
    )


def put(store: MemoryStore, table: pa.Table) -> SegmentRef:
    """One row group, as it was made when empty headers counted nothing."""
    segment = encode_segment(table, compression="zstd", row_group_bytes_max=1 << 40)
    store.put("topics/t/segments/x.parquet", segment.data)
    return segment.ref("segments/x.parquet")


def peak_bytes(call: Callable[[], object]) -> int:
    """The most that Arrow holds while ``call`` runs."""
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    try:
        call()
    finally:
        pa.set_memory_pool(usual)
    peak: int = counting.max_memory()
    return peak


def test_one_record_of_many_costs_one() -> None:
    """Whichever record of such a row group is asked for, about as much is decoded as that one takes; what comes is right."""
    table = records(600_000)
    store = MemoryStore()
    ref = put(store, table)
    assert ref.size_bytes < 16_000 < 40 * MEBIBYTE < table.nbytes
    reader = SegmentReader(store)
    assert peak_bytes(lambda: reader.read("t", ref, 0, 7, bytes_max=1, records_max=100)) < 40 * MEBIBYTE
    assert reader.read("t", ref, 0, 7, bytes_max=1, records_max=100).equals(table.slice(7, 1))
    assert reader.read("t", ref, 0, 3, bytes_max=2 * 16 * 600_000, records_max=100).equals(table.slice(3, 2))
    assert reader.read("t", ref, 0, 0, bytes_max=1 << 40, records_max=4).equals(table.slice(0, 4))


@pytest.mark.parametrize("start", [0, 4, 9])
@pytest.mark.parametrize(("bytes_max", "records_max"), [(1, 1), (1 << 40, 3), (1 << 40, 100), (400, 100)])
def test_parts_are_what_is_read_at_once(start: int, bytes_max: int, records_max: int) -> None:
    """The limits cut the same records off, whether a row group is decoded as a whole or in parts."""
    store = MemoryStore()
    ref = put(store, records(20))
    reader = SegmentReader(store)
    whole = reader.read("t", ref, 0, start, bytes_max=bytes_max, records_max=records_max)
    reader = SegmentReader(store, decoded_bytes_max=1)
    assert reader.read("t", ref, 0, start, bytes_max=bytes_max, records_max=records_max).equals(whole)


def test_damage_is_found_in_parts() -> None:
    """A wrong checksum, and records that are not those that the footer names."""
    segment = encode_segment(records(20), compression="zstd")
    ref = segment.ref("segments/x.parquet")
    footer = decode_footer(segment.data[segment.footer_start :], ref)
    body = bytearray(segment.data[: segment.footer_start])
    assert sum(part.num_rows for part in decode_parts(footer, 0, bytes(body), 1)) == RECORD_COUNT
    body[100] ^= 1
    with pytest.raises(CorruptData):
        list(decode_parts(footer, 0, bytes(body), 1))
