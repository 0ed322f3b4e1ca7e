"""A segment's footer: the position, content and checksum of each row group.

The bytes are Parquet's own footer, so any Parquet reader opens the segment. Tidelog adds one key, ``tidelog.row_groups``: what a
reader needs to choose, fetch and verify each row group. (Parquet's statistics are for other readers. Tidelog does not read them:
pyarrow is slower at that, and damaged ones crash its process.)

A segment of a typed topic may leave values out (``log_format/records/left_out.py``). Then the key ``tidelog.left_out`` has an
upper bound of their bytes for each row group, and readers make them of the columns.

A footer is checked against the CRC-32 in the log before anything in it is used, and then for contradictions. Row groups follow
each other without a gap from byte 4 to the footer, or to filters that the footer names (``key_filters``). Each has records of one
partition. They are sorted by partition and offset.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NoReturn

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from log_format.errors import DECODE_ERRORS, CorruptData
from log_format.records.schema import RECORD_SCHEMA
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypedColumns, record_schema, typed_columns
from log_format.segments.run import SegmentRef

MAGIC: Final = b"PAR1"
ROW_GROUPS_KEY: Final = b"tidelog.row_groups"
LEFT_OUT_KEY: Final = b"tidelog.left_out"
_KEY_COLUMN: Final = RECORD_SCHEMA.get_field_index("key")
TRAILER_BYTES: Final = 8
"""Size of the object's last bytes: the length of the metadata, 4 bytes little-endian, and the magic."""

PARQUET_ERRORS: Final = (pa.ArrowException, OSError, ValueError)
"""Errors that pyarrow raises for bytes that are not Parquet: its own root, and the built-in errors of its file layer."""


_Row = tuple[int, int, int, int, int, int, int, int, int]
"""A row group in ``tidelog.row_groups``: the fields of ``RowGroup`` in order, except the last."""
_decode_rows: Final = msgspec.json.Decoder(list[_Row]).decode
_decode_sizes: Final = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=0)]]).decode


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Records of one partition that are encoded together."""

    start: int
    """Position of the first byte in the object."""
    size_bytes: int
    crc32: int
    """CRC-32 (zlib) of ``[start, end)``."""
    partition: int
    base_offset: int
    """Offset of the first record."""
    end_offset: int
    """Offset of the last record, plus one."""
    record_count: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    uncompressed_bytes: int
    """Size after encoding, before compression; with an upper bound of the values that are left out."""

    @property
    def end(self) -> int:
        """Position after the last byte in the object."""
        return self.start + self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """A segment's footer: its row groups, sorted by partition and offset, without gaps between their bytes."""

    segment: SegmentRef
    row_groups: tuple[RowGroup, ...]
    metadata: Any
    """pyarrow's ``FileMetaData``, which decoding needs together with the row groups' bytes."""
    typed_columns: TypedColumns = NO_TYPED_COLUMNS
    """Typed columns that the segment has."""
    has_left_out: bool = False
    """Whether values are left out, so that they are made of the column ``data`` (``log_format/records/left_out.py``)."""

    @property
    def memory_bytes(self) -> int:
        """Estimated memory in bytes (measured: four times the metadata's encoded size, and the row groups)."""
        return 1024 + 4 * int(self.metadata.serialized_size) + 400 * len(self.row_groups)

    def select(self, partition: int, start_offset: int, end_offset: int) -> range:
        """Return the indices of row groups that may have records of ``partition`` with offsets in ``[start_offset,
        end_offset)``."""
        first = bisect_right(
            self.row_groups, (partition, start_offset), key=lambda group: (group.partition, group.end_offset)
        )
        end = bisect_left(
            self.row_groups, (partition, end_offset), lo=first, key=lambda group: (group.partition, group.base_offset)
        )
        return range(first, end)


def decode_footer(footer_bytes: bytes | memoryview, ref: SegmentRef) -> Footer:
    """Decode a footer from its bytes, ``[ref.footer_start, ref.size_bytes)`` of the object. Raises ``CorruptData``."""
    if len(footer_bytes) != ref.size_bytes - ref.footer_start:
        raise_corrupt(ref, f"its footer has {len(footer_bytes)} bytes, not {ref.size_bytes - ref.footer_start}")
    if zlib.crc32(footer_bytes) != ref.footer_crc32:
        raise_corrupt(ref, "its footer does not match the checksum in the log")
    length = int.from_bytes(footer_bytes[-TRAILER_BYTES:-4], "little")
    if footer_bytes[-4:] != MAGIC or length + TRAILER_BYTES != len(footer_bytes):
        raise_corrupt(ref, "its footer has no Parquet trailer")
    try:
        metadata = pq.read_metadata(pa.BufferReader(footer_bytes))
        schema = metadata.schema.to_arrow_schema()
        columns = typed_columns(schema)
        if not schema.equals(record_schema(columns)):
            raise_corrupt(ref, "its columns are not those of a topic")
        left_out = _left_out(metadata, ref)
        row_groups = _row_groups(metadata, ref, left_out)
    except PARQUET_ERRORS as problem:
        raise corrupt_error(ref, f"its footer can't be decoded: {problem}") from problem
    return Footer(
        segment=ref, row_groups=row_groups, metadata=metadata, typed_columns=columns, has_left_out=any(left_out)
    )


def row_groups_metadata(rows: Sequence[Sequence[int]], left_out: Sequence[int]) -> dict[bytes, bytes]:
    """Return what a footer says besides Parquet's own metadata.

    Args:
        rows: the fields of each ``RowGroup`` in order, except the last.
        left_out: an upper bound of the bytes of each row group's values that are left out.
    """
    found = {ROW_GROUPS_KEY: msgspec.json.encode(rows)}
    return found | {LEFT_OUT_KEY: msgspec.json.encode(left_out)} if any(left_out) else found


def filter_ranges(metadata: Any) -> list[tuple[int, int]] | None:
    """Return where the filter on ``key`` of each row group is, as ``[start, end)``; None if one has none, or pyarrow is too old
    to tell."""
    found = []
    for index in range(metadata.num_row_groups):
        column = metadata.row_group(index).column(_KEY_COLUMN)
        start, length = (getattr(column, f"bloom_filter_{name}", None) for name in ("offset", "length"))
        if start is None or length is None:
            return None
        found.append((start, start + length))
    return found


def check_magic(head: bytes | memoryview, ref: SegmentRef) -> None:
    """Check the first four bytes of the object. Raises ``CorruptData``."""
    if head[: len(MAGIC)] != MAGIC:
        raise_corrupt(ref, "it does not begin as Parquet")


def corrupt_error(ref: SegmentRef, what: str) -> CorruptData:
    """Return the error about a damaged segment; ``what`` names the damage."""
    return CorruptData(f"Segment {ref.path} is damaged: {what}.", segment=ref.path)


def missing_text(segment: SegmentRef) -> str:
    """Return what to say of a segment that is not in the store."""
    return (
        f"Segment {segment.path} is missing. If it left the table, retention, a rewrite or an erasure took it: read the table's "
        "newest version."
    )


def raise_corrupt(ref: SegmentRef, what: str) -> NoReturn:
    """Raise ``CorruptData`` about a damaged segment; ``what`` names the damage."""
    raise corrupt_error(ref, what)


def _left_out(metadata: Any, ref: SegmentRef) -> list[int]:
    """Return an upper bound of the bytes of each row group's values that are left out."""
    encoded = (metadata.metadata or {}).get(LEFT_OUT_KEY)
    try:
        sizes = [0] * metadata.num_row_groups if encoded is None else _decode_sizes(encoded)
    except DECODE_ERRORS as problem:
        raise corrupt_error(ref, f"its footer has no sizes of values that are left out: {problem}") from problem
    if len(sizes) != metadata.num_row_groups:
        raise_corrupt(ref, f"its footer has {metadata.num_row_groups} row groups and {len(sizes)} sizes of values")
    return sizes


def _row_groups(metadata: Any, ref: SegmentRef, left_out: Sequence[int]) -> tuple[RowGroup, ...]:
    try:
        rows = _decode_rows((metadata.metadata or {}).get(ROW_GROUPS_KEY, b""))
    except DECODE_ERRORS as problem:
        raise corrupt_error(ref, f"its footer has no list of row groups: {problem}") from problem
    if len(rows) != metadata.num_row_groups or not rows:
        raise_corrupt(ref, f"its footer has {metadata.num_row_groups} row groups and lists {len(rows)}")
    groups = []
    position, before = len(MAGIC), (-1, 0)
    for index, row in enumerate(rows):
        group = RowGroup(*row, uncompressed_bytes=metadata.row_group(index).total_byte_size + left_out[index])
        if not _is_plausible(group) or group.start != position or (group.partition, group.base_offset) < before:
            raise_corrupt(ref, f"its footer contradicts itself in row group {index}")
        position, before = group.end, (group.partition, group.end_offset)
        groups.append(group)
    if position != ref.footer_start and not _are_filters(metadata, position, ref.footer_start):
        raise_corrupt(ref, f"its row groups end at {position}, its footer starts at {ref.footer_start}")
    return tuple(groups)


def _are_filters(metadata: Any, start: int, end: int) -> bool:
    """Return whether the filters that the footer names fill ``[start, end)``, in order."""
    ranges = filter_ranges(metadata)
    if ranges is None:
        return start < end and not hasattr(metadata.row_group(0).column(_KEY_COLUMN), "bloom_filter_offset")
    return [start, *(each[1] for each in ranges)] == [*(each[0] for each in ranges), end]


def _is_plausible(group: RowGroup) -> bool:
    return (
        group.size_bytes > 0
        and group.partition >= 0
        and group.base_offset >= 0
        and 0 < group.record_count <= group.end_offset - group.base_offset
        and group.min_timestamp_ms <= group.max_timestamp_ms
    )
