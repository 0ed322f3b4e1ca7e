"""Filters on the keys of a segment: they never rule a key out that is there, and other programs read them, too."""

from __future__ import annotations

import zlib
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from log_format.errors import CorruptData
from log_format.records.schema import RECORD_SCHEMA
from log_format.segments.encoding_options import KEY_FILTER_ERRORS
from log_format.segments.footer import decode_footer, filter_ranges
from log_format.segments.key_filters import KeyFilters, as_hashes, hash_key, read_filters
from log_format.segments.segment import EncodedSegment
from log_format.segments.writer import SegmentWriter
from log_format.stores.memory import MemoryStore

KEY = "topics/t/compacted/x.parquet"


def written(keys: list[bytes | None], *, row_group_bytes_max: int = 1 << 22) -> EncodedSegment:
    """A segment as maintenance writes it, whose records have these keys."""
    count = len(keys)
    columns = {"partition": [0] * count, "offset": list(range(count)), "timestamp": [0] * count, "key": keys}
    more = {"value": [b"v" * 20] * count, "headers": [None] * count}
    writer = SegmentWriter(compression="zstd", row_group_bytes_max=row_group_bytes_max)
    writer.add(pa.table(columns | more, schema=RECORD_SCHEMA))
    found = writer.finish()
    assert found is not None
    return found


def may_have(segment: EncodedSegment, *keys: bytes) -> list[bool]:
    """Whether each row group may have any of the keys."""
    store = MemoryStore()
    store.put(KEY, segment.data)
    assert segment.filters is not None
    read = read_filters(store, KEY, segment.ref("compacted/x.parquet"), segment.filters, decode_footer)
    assert read is not None
    footer, asks = read
    return [asks(index, as_hashes([hash_key(key) for key in keys])) for index in range(len(footer.row_groups))]


def user(number: int) -> bytes:
    return b"user-%d" % number


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Call me Ishmael. Some years ago--never mind how long precisely-", 0x02A2E85470D6FD96),
    ],
)
def test_the_hash_is_the_one_that_parquet_means(key: bytes, expected: int) -> None:
    """XXH64 with seed 0: values that its other implementations give, up to more than one round of 32 bytes."""
    assert hash_key(key) == expected


def test_no_key_that_is_there_is_ruled_out() -> None:
    """In each row group, whatever its length; nearly all others are, and the filters take a few bytes for each key."""
    lengths = [b"k" * length for length in range(70)]
    keys = [*map(user, range(20_000)), *lengths, None, None]
    segment = written(keys, row_group_bytes_max=300_000)
    groups = decode_footer(segment.data[segment.footer_start :], segment.ref("x")).row_groups
    assert len(groups) > 2
    for index, group in enumerate(groups):
        there = [key for key in keys[group.base_offset : group.end_offset] if key is not None]
        assert all(may_have(segment, key)[index] for key in there[:: max(1, len(there) // 60)])
    assert all(any(may_have(segment, key)) for key in lengths)
    wrong = sum(sum(may_have(segment, user(20_000 + number))) for number in range(300))
    assert wrong <= 300 * len(groups) * KEY_FILTER_ERRORS * 20
    assert segment.filters is not None
    assert segment.footer_start - segment.filters.start < 6 * len(keys)


def test_several_keys_are_asked_for_at_once() -> None:
    """A row group may have any of them, if it may have one."""
    segment = written([*map(user, range(1_000))])
    assert may_have(segment, *(b"other-%d" % number for number in range(50))) == [False]
    assert may_have(segment, *(b"other-%d" % number for number in range(50)), user(999)) == [True]


def test_records_without_keys_have_a_filter_that_rules_all_out() -> None:
    """A topic without keys has nothing of any key."""
    assert may_have(written([None] * 10), b"k", b"") == [False]


@pytest.mark.parametrize("damage", ["a byte", "another place", "another kind"])
def test_damaged_filters_rule_nothing_out(damage: str) -> None:
    """They are told by the checksum in the log, or by their header, and the caller reads the segment."""
    segment = written([*map(user, range(100))])
    assert segment.filters is not None
    data, filters = bytearray(segment.data), segment.filters
    if damage == "a byte":
        data[-(len(data) - segment.footer_start) - 1] ^= 1
    elif damage == "another place":
        filters = KeyFilters(filters.start + 1, filters.crc32)
    else:
        data[filters.start + 4] = 0x2C
        filters = KeyFilters(filters.start, zlib.crc32(data[filters.start : segment.footer_start]))
    store = MemoryStore()
    store.put(KEY, bytes(data))
    assert read_filters(store, KEY, segment.ref("compacted/x.parquet"), filters, decode_footer) is None


def test_nothing_but_filters_may_be_before_a_footer() -> None:
    """A gap that the footer does not name is damage, as before there were filters."""
    segment = written([b"a", b"b"])
    assert segment.filters is not None
    plain = pq.ParquetFile(pa.BufferReader(segment.data)).metadata
    assert filter_ranges(plain) == [(segment.filters.start, segment.footer_start)]
    ref = segment.ref("x")
    footer = segment.data[segment.footer_start :]
    moved = type(ref)(ref.path, ref.size_bytes + 1, ref.footer_start + 1, ref.footer_crc32)
    with pytest.raises(CorruptData, match="row groups end at"):
        decode_footer(footer, moved)


def test_other_programs_skip_row_groups_by_them(tmp_path: Path) -> None:
    """DuckDB finds a key by the filters: with filters of zeros it takes every row group for one without the key."""
    segment = written([*map(user, range(2_000))], row_group_bytes_max=30_000)
    asks = "select count(*) from '{}' where key = 'user-7'::blob"
    whole, zeros = tmp_path / "whole.parquet", tmp_path / "zeros.parquet"
    whole.write_bytes(segment.data)
    data = bytearray(segment.data)
    ranges = filter_ranges(pq.read_metadata(whole))
    assert ranges is not None
    for start, end in ranges:
        data[start + 20 : end] = bytes(end - start - 20)
    zeros.write_bytes(data)
    with duckdb.connect() as connection:
        found = [connection.execute(asks.format(path)).fetchall() for path in (whole, zeros)]
    assert found == [[(1,)], [(0,)]]
