"""Every damage to a segment raises ``CorruptData`` that names it, whatever a checksum says."""

from __future__ import annotations

import dataclasses
import io
import zlib
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from log_format.errors import CorruptData, ErrorCode
from log_format.records.schema import RECORD_SCHEMA
from log_format.segments.footer import Footer
from log_format.segments.run import SegmentRef
from log_format.segments.segment import EncodedSegment, decode_footer, decode_row_group, encode_segment
from tests.support.segments import PATH, START_MS, footer_of, make_records, row_group_bytes


class TestDamage:
    """Every damage raises ``CorruptData`` that names the segment, whatever a checksum says."""

    def segment(self) -> EncodedSegment:
        return encode_segment(make_records({0: 20, 1: 20}), compression="zstd")

    def test_each_bit_of_a_row_group_counts(self) -> None:
        """A flipped bit anywhere in a row group is found when that row group is read, and only then."""
        segment = self.segment()
        footer = footer_of(segment)
        data = bytearray(row_group_bytes(segment, footer, 0))
        for position in range(0, len(data), 11):
            data[position] ^= 1 << position % 8
            with pytest.raises(CorruptData, match="checksum") as caught:
                decode_row_group(footer, 0, bytes(data))
            assert caught.value.code is ErrorCode.CORRUPT_SEGMENT
            assert caught.value.fields["segment"] == PATH
            data[position] ^= 1 << position % 8
        assert decode_row_group(footer, 1, row_group_bytes(segment, footer, 1)).num_rows == 20

    def test_each_bit_of_the_footer_counts(self) -> None:
        """A flipped bit anywhere in the footer is found before anything in it is believed."""
        segment = self.segment()
        data = bytearray(segment.data[segment.footer_start :])
        for position in range(0, len(data), 11):
            data[position] ^= 1 << position % 8
            with pytest.raises(CorruptData, match="checksum"):
                decode_footer(bytes(data), segment.ref(PATH))
            data[position] ^= 1 << position % 8

    def test_a_footer_of_another_length(self) -> None:
        """A footer cut short or followed by something is not the one that the log names."""
        segment = self.segment()
        data = segment.data[segment.footer_start :]
        for wrong in (b"", data[:-1], data[1:], data + b"\0"):
            with pytest.raises(CorruptData, match="bytes, not"):
                decode_footer(wrong, segment.ref(PATH))

    def test_row_groups_exchanged(self) -> None:
        """The bytes of another row group, though whole, are not this row group's."""
        segment = self.segment()
        footer = footer_of(segment)
        with pytest.raises(CorruptData):
            decode_row_group(footer, 0, row_group_bytes(segment, footer, 1))

    def test_a_foreign_parquet_file(self) -> None:
        """A Parquet file that is no segment is refused although the log has its checksum."""
        for table, message in (
            (pa.table({"a": [1]}), "columns"),
            (make_records({0: 2}), "no list of row groups"),
        ):
            sink = io.BytesIO()
            pq.write_table(table, sink, store_schema=False)
            data = sink.getvalue()
            footer_start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
            ref = dataclasses.replace(
                self.segment().ref(PATH),
                size_bytes=len(data),
                footer_start=footer_start,
                footer_crc32=zlib.crc32(data[footer_start:]),
            )
            with pytest.raises(CorruptData, match=message):
                decode_footer(data[footer_start:], ref)

    @pytest.mark.parametrize(
        "change",
        [
            {"partition": 1},
            {"base_offset": 1},
            {"end_offset": 21},
            {"record_count": 19},
            {"min_timestamp_ms": 0},
            {"max_timestamp_ms": START_MS},
        ],
    )
    def test_records_that_are_not_where_the_footer_says(self, change: dict[str, int]) -> None:
        """A row group with right checksums and wrong places would make a consumer skip records: it is refused."""
        segment = self.segment()
        footer = footer_of(segment)
        groups = (dataclasses.replace(footer.row_groups[0], **change), *footer.row_groups[1:])
        with pytest.raises(CorruptData):
            decode_row_group(dataclasses.replace(footer, row_groups=groups), 0, row_group_bytes(segment, footer, 0))

    @pytest.mark.parametrize(
        "change",
        [
            {"start": 5},
            {"size_bytes": 0},
            {"size_bytes": 1},
            {"partition": -1},
            {"base_offset": 1},
            {"base_offset": -1},
            {"record_count": 0},
            {"record_count": 2},
            {"min_timestamp_ms": START_MS + 1},
        ],
    )
    def test_footers_that_contradict_themselves(self, change: dict[str, int]) -> None:
        """A list of row groups with gaps, impossible ranges or too many records is refused; unchanged it is not."""
        _decode_with_row_groups([{}])
        with pytest.raises(CorruptData, match=r"contradicts itself|row groups end at"):
            _decode_with_row_groups([change])

    def test_footers_that_list_other_row_groups_than_there_are(self) -> None:
        """One entry for each row group, no more and no fewer."""
        lists: tuple[list[dict[str, Any]], ...] = ([], [{}, {}])
        for changes in lists:
            with pytest.raises(CorruptData, match="lists"):
                _decode_with_row_groups(changes)

    def test_row_groups_out_of_order_or_over_one_another(self) -> None:
        """Each begins where the one before it ends, and comes behind it by partition and offset."""
        half = {"size_bytes": 50}
        rest = {"start": 54, "base_offset": 1, "end_offset": 2}
        _decode_with_row_groups([half, rest], row_groups=2)
        for wrong in (
            {"start": 53},
            {"start": 55},
            {"base_offset": 0, "end_offset": 1},
        ):
            with pytest.raises(CorruptData, match="contradicts itself"):
                _decode_with_row_groups([half, rest | wrong], row_groups=2)
        with pytest.raises(CorruptData, match="contradicts itself"):
            _decode_with_row_groups([half | {"partition": 1}, rest], row_groups=2)


def _decode_with_row_groups(changes: list[dict[str, int]], *, row_groups: int = 1) -> Footer:
    """The footer of a segment with one record a row group, whose row groups were listed as the truth with these changes."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, RECORD_SCHEMA, store_schema=False) as writer:
        writer.write_table(make_records({0: row_groups}), row_group_size=1)
        footer_start = sink.tell()
        truth = {
            "start": 4,
            "size_bytes": footer_start - 4,
            "crc32": zlib.crc32(sink.getvalue()[4:]),
            "partition": 0,
            "base_offset": 0,
            "end_offset": 1,
            "record_count": 1,
            "min_timestamp_ms": START_MS,
            "max_timestamp_ms": START_MS,
        }
        rows = []
        for change in changes:
            row = truth | change
            if row["start"] != truth["start"]:
                row["size_bytes"] = footer_start - row["start"]
            rows.append([row[name] for name in truth])
        writer.add_key_value_metadata({"tidelog.row_groups": msgspec.json.encode(rows)})
    data = sink.getvalue()
    return decode_footer(
        data[footer_start:], SegmentRef(PATH, len(data), footer_start, zlib.crc32(data[footer_start:]))
    )
