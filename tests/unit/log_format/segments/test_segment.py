"""What a segment's bytes promise: one run after another, row groups that stand alone, any reader opens it."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from log_format.errors import CorruptData
from log_format.records.schema import HEADERS, RECORD_SCHEMA
from log_format.segments.run import Run
from log_format.segments.segment import (
    EncodedSegment,
    decode_row_group,
    decode_row_groups,
    encode_segment,
)
from tests.support.segments import START_MS, footer_of, make_records, row_group_bytes

COMPRESSIONS = ["zstd", "lz4", "snappy", "gzip", "uncompressed"]


def decode_all(segment: EncodedSegment) -> pa.Table:
    footer = footer_of(segment)
    return decode_row_groups(footer, range(len(footer.row_groups)), segment.data[4 : segment.footer_start])


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("headers", [False, True])
def test_every_row_group_is_read_alone(compression: str, headers: bool) -> None:
    """The footer and one row group's bytes are enough for that row group's records, in exactly the record schema."""
    records = make_records({0: 3, 2: 5, 7: 1}, headers=headers)
    segment = encode_segment(records, compression=compression)
    footer = footer_of(segment)
    parts = [
        decode_row_group(footer, index, row_group_bytes(segment, footer, index))
        for index in range(len(footer.row_groups))
    ]
    assert [part.num_rows for part in parts] == [3, 5, 1]
    assert pa.concat_tables(parts).equals(records)
    assert all(part.schema.equals(RECORD_SCHEMA, check_metadata=True) for part in parts)


@pytest.mark.parametrize("from_start", [True, False])
def test_columns_and_the_bytes_before_make_no_difference(from_start: bool) -> None:
    """Row groups decode from their own bytes or from all before, too; columns left out are only left out, not unchecked."""
    records = make_records({0: 3, 2: 5, 7: 1}, headers=True)
    segment = encode_segment(records, compression="zstd")
    footer = footer_of(segment)
    for first in range(3):
        indices = range(first, 3)
        start, end = footer.row_groups[first].start, footer.row_groups[2].end
        data = bytearray(segment.data[0 if from_start else start : end])
        narrow = decode_row_groups(footer, indices, bytes(data), columns=["value"])
        assert narrow.column_names == ["partition", "offset", "timestamp", "value"]
        expected = records.slice(sum(group.record_count for group in footer.row_groups[:first]))
        assert narrow.equals(expected.select(narrow.column_names))
        assert decode_row_groups(footer, indices, bytes(data)).equals(expected)
        data[-1] ^= 1
        with pytest.raises(CorruptData, match="do not match their checksum"):
            decode_row_groups(footer, indices, bytes(data), columns=["offset"])


def test_runs_and_row_groups_say_what_is_inside() -> None:
    """Offsets, counts, timestamps and sizes of runs and row groups are those of the records and of the bytes."""
    segment = encode_segment(make_records({0: 3, 2: 5}), compression="zstd")
    footer = footer_of(segment)
    first, second = footer.row_groups
    assert segment.runs == (
        Run(0, 0, 3, 3, first.size_bytes, START_MS, START_MS + 2000),
        Run(2, 2000, 2005, 5, second.size_bytes, START_MS + 3000, START_MS + 7000),
    )
    for run, group in zip(segment.runs, footer.row_groups, strict=True):
        assert (group.partition, group.base_offset, group.end_offset) == (
            run.partition,
            run.base_offset,
            run.end_offset,
        )
        assert (group.record_count, group.min_timestamp_ms, group.max_timestamp_ms) == (
            run.record_count,
            run.min_timestamp_ms,
            run.max_timestamp_ms,
        )
        assert zlib.crc32(segment.data[group.start : group.end]) == group.crc32
    assert (first.start, first.end, second.end) == (4, second.start, segment.footer_start)
    assert sum(run.record_count for run in segment.runs) == 8
    assert segment.data[:4] == segment.data[-4:] == b"PAR1"


def test_a_long_run_is_split_and_no_two_runs_share_a_row_group() -> None:
    """A row group stays near the bound, belongs to one partition, and a run's sizes add up; nothing is lost between them."""
    records = make_records({0: 10, 1: 400, 2: 10}, value_bytes=100)
    segment = encode_segment(records, compression="uncompressed", row_group_bytes_max=4096)
    footer = footer_of(segment)
    groups = footer.row_groups
    assert {group.partition for group in groups} == {0, 1, 2}
    assert 12 <= sum(group.partition == 1 for group in groups) <= 15
    assert all(group.size_bytes < 6000 for group in groups)
    for run in segment.runs:
        mine = [group for group in groups if group.partition == run.partition]
        assert sum(group.size_bytes for group in mine) == run.size_bytes
        assert (mine[0].base_offset, mine[-1].end_offset) == (run.base_offset, run.end_offset)
    assert decode_all(segment).equals(records)


def test_a_record_above_the_bound_has_a_row_group() -> None:
    """A record larger than a row group should be is written all the same."""
    records = make_records({0: 3}, value_bytes=5000)
    segment = encode_segment(records, compression="zstd", row_group_bytes_max=100)
    assert len(footer_of(segment).row_groups) == 3
    assert decode_all(segment).equals(records)


def test_a_slice_is_split_by_its_own_sizes() -> None:
    """What lies in a table outside the records does not count, neither before nor behind."""
    small, large = make_records({0: 50}, value_bytes=1), make_records({1: 50}, value_bytes=200)
    both = pa.concat_tables([small, large, small]).combine_chunks()
    segment = encode_segment(both.slice(50, 50), compression="zstd", row_group_bytes_max=1500)
    assert 6 <= len(footer_of(segment).row_groups) <= 9
    segment = encode_segment(both.slice(100, 50), compression="zstd", row_group_bytes_max=1500)
    assert len(footer_of(segment).row_groups) == 1


def test_what_is_compressed() -> None:
    """Places never, headers only where there are any, the rest always: a codec costs time for each column."""
    for headers in (False, True):
        segment = encode_segment(make_records({0: 5}, headers=headers), compression="snappy")
        group = pq.read_metadata(io.BytesIO(segment.data)).row_group(0)
        columns = [group.column(index) for index in range(group.num_columns)]
        compressed = {column.path_in_schema for column in columns if column.compression == "SNAPPY"}
        places = {"timestamp", "key", "value"}
        assert compressed == places | (HEADER_COLUMNS if headers else set())


HEADER_COLUMNS = {"headers.list.element.key", "headers.list.element.value"}


def test_gaps_between_offsets_are_kept() -> None:
    """After key compaction a run has fewer records than its offsets span."""
    records = make_records({3: 10}).filter(pa.array([index % 3 == 0 for index in range(10)]))
    segment = encode_segment(records, compression="zstd")
    assert [(run.base_offset, run.end_offset, run.record_count) for run in segment.runs] == [(3000, 3010, 4)]
    assert decode_all(segment).equals(records)


def test_nulls_and_empties_stay_apart() -> None:
    """A null key, value or list of headers is not an empty one."""
    headers = [None, [], [{"key": "", "value": None}], [{"key": "k", "value": b""}, {"key": "k", "value": b"\xff"}]]
    records = make_records({0: 4})
    records = records.set_column(3, RECORD_SCHEMA.field("key"), pa.array([None, b"", b"\0", None], pa.binary()))
    records = records.set_column(4, RECORD_SCHEMA.field("value"), pa.array([None, b"", b"\xff\xfe", b"v"], pa.binary()))
    records = records.set_column(5, RECORD_SCHEMA.field("headers"), pa.array(headers, HEADERS))
    assert decode_all(encode_segment(records, compression="zstd")).to_pylist() == records.to_pylist()


def test_chunks_and_slices_do_not_show() -> None:
    """The bytes depend on the records, not on how Arrow holds them."""
    records = make_records({0: 300, 1: 300}, headers=True)
    pieces = pa.concat_tables([records.slice(start, 7) for start in range(0, 600, 7)])
    longer = pa.concat_tables([records.slice(0, 2), records]).combine_chunks().slice(2)
    expected = encode_segment(records, compression="zstd")
    assert encode_segment(pieces, compression="zstd") == expected
    assert encode_segment(longer, compression="zstd") == expected


def test_statistics_are_on_partition_offset_and_timestamp_only() -> None:
    """Spark skips row groups by these three; on keys and values they would only make the footer long and leak data."""
    segment = encode_segment(make_records({4: 5}, headers=True), compression="zstd")
    group = pq.read_metadata(io.BytesIO(segment.data)).row_group(0)
    columns = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
    assert {name for name, column in columns.items() if column.is_stats_set} == {"partition", "offset", "timestamp"}
    assert (columns["partition"].statistics.min, columns["partition"].statistics.max) == (4, 4)
    assert (columns["offset"].statistics.min, columns["offset"].statistics.max) == (4000, 4004)
    assert columns["timestamp"].statistics.max_raw == (START_MS + 4000) * 1000


def test_a_dictionary_of_keys_only_where_keys_repeat() -> None:
    """Repeated keys are stored once a row group; distinct ones are not stored twice."""
    for key, dictionary in ((b"always the same", True), (None, False)):
        segment = encode_segment(make_records({0: 200}, key=key), compression="zstd")
        group = pq.read_metadata(io.BytesIO(segment.data)).row_group(0)
        columns = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
        assert {name for name, column in columns.items() if column.has_dictionary_page} == (
            {"key"} if dictionary else set()
        )
        assert decode_all(segment).column("key").to_pylist() == [key or b"key-%d" % index for index in range(200)]


def test_any_parquet_and_delta_reader_opens_it(tmp_path: Path) -> None:
    """A segment is ordinary Parquet; a Delta table of segments reads without anything of ours."""
    records = make_records({0: 50, 1: 20}, headers=True)
    actions: list[dict[str, Any]] = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}]
    fields = msgspec.json.encode({"type": "struct", "fields": DELTA_FIELDS}).decode()
    actions.append(
        {
            "metaData": {
                "id": "1",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": fields,
                "partitionColumns": [],
                "configuration": {},
            }
        }
    )
    for compression in COMPRESSIONS:
        data = encode_segment(records, compression=compression).data
        assert pq.read_table(io.BytesIO(data)).replace_schema_metadata(None).equals(records)
        (tmp_path / f"{compression}.parquet").write_bytes(data)
        add = {
            "path": f"{compression}.parquet",
            "partitionValues": {},
            "size": len(data),
            "modificationTime": 0,
            "dataChange": True,
        }
        actions.append({"add": add})
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_bytes(b"\n".join(map(msgspec.json.encode, actions)))
    read = DeltaTable(tmp_path).to_pyarrow_table().cast(RECORD_SCHEMA)
    order = [("partition", "ascending"), ("offset", "ascending")]
    assert read.sort_by(order).equals(pa.concat_tables([records] * len(COMPRESSIONS)).sort_by(order))


def _delta_field(name: str, type_: object) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": True, "metadata": {}}


DELTA_FIELDS = [
    _delta_field("partition", "integer"),
    _delta_field("offset", "long"),
    _delta_field("timestamp", "timestamp"),
    _delta_field("key", "binary"),
    _delta_field("value", "binary"),
    _delta_field(
        "headers",
        {
            "type": "array",
            "containsNull": True,
            "elementType": {
                "type": "struct",
                "fields": [_delta_field("key", "string"), _delta_field("value", "binary")],
            },
        },
    ),
]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda records: records.slice(0, 0), "at least one record"),
        (lambda records: records.drop_columns(["headers"]), "RECORD_SCHEMA"),
        (lambda records: pa.concat_tables([records.slice(1), records.slice(0, 1)]), "sorted"),
        (lambda records: pa.concat_tables([records.slice(0, 1), records]), "sorted"),
        (
            lambda records: records.set_column(1, RECORD_SCHEMA.field("offset"), pa.nulls(len(records), pa.int64())),
            "has no partition, offset or timestamp",
        ),
        (
            lambda records: records.set_column(1, RECORD_SCHEMA.field("offset"), pa.array([-1, 5, 6, 2], pa.int64())),
            "negative",
        ),
    ],
)
def test_what_is_no_segment_is_refused(spoil: Callable[[bytes], bytes], message: str) -> None:
    """Records out of order, twice, without a place or none at all never reach the store."""
    with pytest.raises(ValueError, match=message):
        encode_segment(spoil(make_records({0: 3, 1: 1})), compression="zstd")


def test_an_unknown_compression_is_refused() -> None:
    """Only the names of ``compression.type`` are known."""
    with pytest.raises(ValueError, match="brotli"):
        encode_segment(make_records({0: 1}), compression="brotli")


def test_select_finds_the_row_groups_that_may_hold_offsets() -> None:
    """Half-open ranges of offsets find every row group that may hold one of them, and no other."""
    records = make_records({0: 30, 1: 30, 5: 30}, value_bytes=80)
    footer = footer_of(encode_segment(records, compression="zstd", row_group_bytes_max=1000))
    for partition in range(7):
        for start in range(990, 1035):
            for end in (start, start + 1, start + 7, 10_000):
                found = [
                    index
                    for index, group in enumerate(footer.row_groups)
                    if group.partition == partition and group.base_offset < end and group.end_offset > start
                ]
                assert list(footer.select(partition, start, end)) == found or (start == end and not found)
