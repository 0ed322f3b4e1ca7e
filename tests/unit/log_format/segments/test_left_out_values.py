"""Segments that leave values out: every way to read them gives each value, bounded as its documents are."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from log_format.errors import CorruptData
from log_format.records.canonical_json import render
from log_format.records.left_out import are_tombstones
from log_format.records.schema import HEADERS, RECORD_SCHEMA, TIMESTAMP
from log_format.records.size import record_bytes
from log_format.records.typed_columns import TypedColumns, record_schema
from log_format.segments.footer import LEFT_OUT_KEY, decode_footer, row_groups_metadata
from log_format.segments.partial_decoding import decode_parts
from log_format.segments.reader import OffsetRange, SegmentReader
from log_format.segments.scan import scan_segment
from log_format.segments.segment import decode_row_groups, encode_segment
from log_format.segments.writer import SegmentWriter
from log_format.stores.memory import MemoryStore

DATA = pa.struct([("id", pa.int64()), ("text", pa.string())])
COUNT = 5_000


def _records(count: int = COUNT) -> pa.Table:
    """Values that are left out, kept, and tombstones, in turn."""
    rows = [None if index % 3 == 2 else {"id": index, "text": "x" * (index % 40)} for index in range(count)]
    values = [b"kept %d" % index if index % 3 == 1 else None for index in range(count)]
    columns = [
        pa.array([0] * count, pa.int32()),
        pa.array(range(count), pa.int64()),
        pa.array([10**15] * count, pa.int64()).cast(TIMESTAMP),
        pa.array([b"k"] * count, pa.binary()),
        pa.array(values, pa.binary()),
        pa.nulls(count, HEADERS),
        pa.array(rows, DATA),
        pa.nulls(count, pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=record_schema(TypedColumns(DATA)))


def _values(count: int = COUNT) -> list[Any]:
    """What readers get."""
    documents = render(_records(count).column("data").combine_chunks()).to_pylist()
    return [(documents[index], b"kept %d" % index, None)[index % 3] for index in range(count)]


def test_every_reader_makes_the_values() -> None:
    """By ranges, by parts, in whole and for rewriting; only the last one leaves them out as they are."""
    encoded = encode_segment(_records(), compression="zstd", row_group_bytes_max=50_000)
    store, ref = MemoryStore(), encoded.ref("segments/a.parquet")
    store.put("topics/t/segments/a.parquet", encoded.data)
    footer = decode_footer(encoded.data[ref.footer_start :], ref)
    assert footer.has_left_out
    assert len(footer.row_groups) > 2
    wanted = _values()
    whole = decode_row_groups(footer, range(len(footer.row_groups)), encoded.data[4 : ref.footer_start])
    assert (whole.schema, whole.column("value").to_pylist()) == (RECORD_SCHEMA, wanted)
    group = footer.row_groups[0]
    parts = list(decode_parts(footer, 0, encoded.data[group.start : group.end], 5_000))
    assert len(parts) > 1
    assert pa.concat_tables(parts).column("value").to_pylist() == wanted[: group.record_count]
    reader = SegmentReader(store)
    some = reader.read("t", ref, 0, 99, bytes_max=500, records_max=1_000)
    assert some.column("value").to_pylist() == wanted[99 : 99 + some.num_rows]
    assert record_bytes(some).sum() <= 500 < record_bytes(some).sum() + len(wanted[99 + some.num_rows] or b"") + 1
    scanned = pa.concat_tables(reader.scan("t", ref, [OffsetRange(0, 0, COUNT)], columns=["value"]))
    assert scanned.column("value").to_pylist() == wanted
    part = pa.field("data", pa.struct([("text", pa.string())]))
    both = pa.concat_tables(reader.scan("t", ref, [OffsetRange(0, 0, COUNT)], columns=["value"], typed=[part]))
    assert both.column("value").to_pylist() == wanted
    assert both.column("data").to_pylist()[:3] == [{"text": ""}, {"text": "x"}, None]
    rewritten = pa.concat_tables(scan_segment(store, "t", ref))
    assert rewritten.column("value").null_count == _records().column("value").null_count
    assert are_tombstones(rewritten).to_pylist() == [index % 3 == 2 for index in range(COUNT)]


def test_row_groups_are_bounded_by_their_documents() -> None:
    """Columns that are small, and large as documents, make as many row groups as documents would."""
    name = "n" * 200
    wide = pa.struct([(f"{name}{index}", pa.bool_()) for index in range(20)])
    row = dict.fromkeys((field.name for field in wide), True)
    plain = _records(1_000).drop_columns(["data", "data_error"])
    values = pa.nulls(1_000, pa.binary())
    columns = [
        *plain.set_column(4, "value", values).columns,
        pa.array([row] * 1_000, wide),
        pa.nulls(1_000, pa.string()),
    ]
    records = pa.Table.from_arrays(columns, schema=record_schema(TypedColumns(wide)))
    encoded = encode_segment(records, compression="zstd", row_group_bytes_max=100_000)
    written = SegmentWriter(compression="zstd", columns=TypedColumns(wide), row_group_bytes_max=100_000)
    written.add(records)
    rewritten = written.finish()
    assert rewritten is not None
    for segment in (encoded, rewritten):
        footer = decode_footer(segment.data[segment.footer_start :], segment.ref("x"))
        for index, group in enumerate(footer.row_groups):
            read = decode_row_groups(footer, range(index, index + 1), segment.data[group.start : group.end])
            size = int(record_bytes(read).sum())
            assert size <= 110_000
            assert size <= group.uncompressed_bytes


def test_a_segment_without_such_values_has_no_key() -> None:
    """Its footer is as it was, and its columns are not read for its values."""
    records = _records(3).slice(1, 2)
    encoded = encode_segment(records, compression="zstd")
    footer = decode_footer(encoded.data[encoded.footer_start :], encoded.ref("x"))
    assert not footer.has_left_out
    assert LEFT_OUT_KEY not in footer.metadata.metadata
    assert row_groups_metadata([], [0, 0]).keys() == row_groups_metadata([], []).keys()


@pytest.mark.parametrize("sizes", [b"x", b"[1,2,3]", b"[-1]", b'["1"]'])
def test_wrong_sizes_are_damage(sizes: bytes) -> None:
    """A footer that contradicts itself is refused, not read by half."""
    encoded = encode_segment(_records(30), compression="uncompressed")
    ref = encoded.ref("x")
    footer = decode_footer(encoded.data[ref.footer_start :], ref)
    good = footer.metadata.metadata[LEFT_OUT_KEY]
    data = encoded.data[ref.footer_start :].replace(good, sizes.ljust(len(good)))
    with pytest.raises(CorruptData):
        decode_footer(data, replace(ref, footer_crc32=zlib.crc32(data)))
