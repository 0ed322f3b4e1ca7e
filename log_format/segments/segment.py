"""Records <-> one Parquet object: what a flush writes, and what readers read by ranges.

Layout (``docs/format.md`` section 4 is normative)::

    [0, 4)                          "PAR1"
    [4, footer_start)               row groups, one directly after another
    [footer_start, size_bytes)      Parquet's FileMetaData (Thrift), its length, "PAR1"

1. Records are sorted by (partition, offset). A run, the records of one partition, fills one row group or more of its own.
2. The footer's key ``tidelog.row_groups`` is a JSON array with each row group's position, checksum, partition, offsets and
   timestamps. So a reader can choose any row group, fetch it alone and verify it. The CRC-32 in the commit (``SegmentRef``)
   verifies the footer itself.
3. Partition, offset and timestamp have exact statistics; other columns have none.
4. Decoding returns the records that were encoded, or raises ``CorruptData`` with the field ``segment``: nothing else.

Encodings and compression per column were chosen by measurement: docs/decisions/002-segment-encoding.md. I/O is in ``reader``, and
what a commit says about the segment in ``log_format/topic/segment_tags.py``.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from log_format.limits import ROW_GROUP_BYTES_MAX
from log_format.records.left_out import left_out_bytes_within, with_values
from log_format.records.schema import RECORD_SCHEMA
from log_format.records.size import record_bytes
from log_format.records.typed_columns import DATA, conform, leaves_of, members_to_read, record_schema, typed_columns
from log_format.segments.column_statistics import (
    NO_STATISTICS,
    ColumnStatistics,
    collect_statistics,
    struct_members,
    with_text_bounds,
)
from log_format.segments.encoding_options import (
    CODECS,
    has_headers,
    is_small_segment,
    typed_leaves,
    writer_options,
)
from log_format.segments.footer import (
    MAGIC,
    PARQUET_ERRORS,
    Footer,
    RowGroup,
    corrupt_error,
    decode_footer,
    raise_corrupt,
    row_groups_metadata,
)
from log_format.segments.key_filters import KeyFilters
from log_format.segments.run import Run, SegmentRef

__all__ = [
    "EncodedSegment",
    "Footer",
    "RowGroup",
    "decode_footer",
    "decode_row_group",
    "decode_row_groups",
    "encode_segment",
]

_STATISTICS: Final = ("partition", "offset", "timestamp")
FIXED_RECORD_BYTES: Final = 20
"""Size of partition, offset and timestamp of one record."""

_ZEROS_PER_BYTE_MAX: Final = 8
_HEAP_BYTES_MAX: Final = 8 * 1024 * 1024
"""Size up to which zeroed heap memory is cheaper than fresh pages: 26 to 290 µs against 25 to 780 µs."""

_CHUNK_RECORDS_MIN: Final = 256
"""Average chunk length below which columns are first copied into one chunk: each chunk costs the encoder about 20 µs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedSegment:
    """A segment to be written: its bytes, and what its commit will say about it."""

    data: bytes
    runs: tuple[Run, ...]
    footer_start: int
    footer_crc32: int
    nbytes: int
    """Size of the records as an Arrow table, in bytes; with an upper bound of the values that are left out."""
    statistics: ColumnStatistics = NO_STATISTICS
    """Statistics of the typed columns."""
    filters: KeyFilters | None = None

    def ref(self, path: str) -> SegmentRef:
        """Return the reference to this segment stored at ``path``, relative to the topic's table."""
        return SegmentRef(path, len(self.data), self.footer_start, self.footer_crc32)


def encode_segment(
    records: pa.Table, *, compression: str, row_group_bytes_max: int = ROW_GROUP_BYTES_MAX
) -> EncodedSegment:
    """Encode ``records`` as one segment. The same records and the same version of Arrow give the same bytes.

    ``records`` has ``RECORD_SCHEMA``, at least one row, no null partition, offset or timestamp, and is strictly sorted by
    (partition, offset). ``compression`` is a value of ``compression.type``. ``row_group_bytes_max`` (at least 1) limits a row
    group: at most that many uncompressed bytes of records, plus one record. Raises ``ValueError`` for any other ``records`` or
    ``compression``.
    """
    if compression not in CODECS:
        raise ValueError(f"compression is {compression!r}, not one of {', '.join(CODECS)}")
    if not records.schema.equals(record_schema(typed_columns(records.schema))):
        raise ValueError("records do not have RECORD_SCHEMA")
    places = _record_positions(records)
    if records.column("value").num_chunks * _CHUNK_RECORDS_MIN > records.num_rows:
        records = records.combine_chunks()
    run_starts = places.run_starts
    left_out = left_out_bytes_within(records, run_starts)
    left_out_total = int(left_out.sum())
    nbytes = records.nbytes + left_out_total
    group_starts = _row_group_starts(
        records, nbytes, run_starts, row_group_bytes_max, FIXED_RECORD_BYTES + left_out_total // records.num_rows
    )
    run_spans = places.spans(run_starts)
    group_spans = run_spans if group_starts is run_starts else places.spans(group_starts)
    members = struct_members(records)
    is_small = is_small_segment(records.num_rows, run_starts)
    statistics = collect_statistics(records, members, has_texts=is_small)
    options = writer_options(records, run_starts, compression, statistics, members)
    if group_starts is not run_starts:
        left_out = left_out_bytes_within(records, group_starts)
    data, positions, metadata = _write(records, left_out.tolist(), nbytes, group_spans, options)
    if not is_small:
        statistics = with_text_bounds(statistics, members, metadata)
    footer_start = positions[-1]
    if group_starts is not run_starts:
        first_groups = np.searchsorted(group_starts, np.append(run_starts, records.num_rows))
        positions = [positions[index] for index in first_groups.tolist()]
    runs = tuple(
        Run(partition, base_offset, end_offset, record_count, end - start, min_timestamp_ms, max_timestamp_ms)
        for (partition, base_offset, end_offset, record_count, min_timestamp_ms, max_timestamp_ms), (start, end) in zip(
            run_spans, pairwise(positions), strict=True
        )
    )
    return EncodedSegment(
        data=data,
        runs=runs,
        footer_start=footer_start,
        footer_crc32=zlib.crc32(memoryview(data)[footer_start:]),
        nbytes=nbytes,
        statistics=statistics,
    )


def decode_row_group(footer: Footer, index: int, data: bytes | memoryview) -> pa.Table:
    """Decode the records of row group ``index``: ``RECORD_SCHEMA``, sorted by offset. Raises ``CorruptData``."""
    return decode_row_groups(footer, range(index, index + 1), data)


def decode_row_groups(
    footer: Footer,
    indices: range,
    data: bytes | memoryview,
    *,
    columns: Sequence[str] | None = None,
    typed: Sequence[pa.Field] = (),
    with_typed: bool = False,
) -> pa.Table:
    """Decode the records of adjacent row groups: ``RECORD_SCHEMA``, sorted by partition and offset. Raises ``CorruptData``.

    ``indices`` has at least one, with step 1. ``data`` is ``[start of the first, end of the last)`` of the object, or ``[0, end
    of the last)``, which saves a copy. ``columns`` are those to decode in addition to ``partition``, ``offset`` and
    ``timestamp``; None for all. ``typed``: typed columns to decode, too, with these types, of which only the members are decoded;
    null where the segment has none. ``with_typed``: the typed columns of the segment, as they are, and values only as far as they
    are stored.
    """
    ref = footer.segment
    groups = footer.row_groups[indices.start : indices.stop]
    file = verified_file(footer, indices, data)
    schema = RECORD_SCHEMA if columns is None else _parquet_columns(columns)
    if with_typed:
        schema = record_schema(footer.typed_columns)
    stored = _parts_to_read(footer, typed)
    makes_values = not with_typed and makes_values_of(footer, schema)
    try:
        source = pq.ParquetFile(file, metadata=footer.metadata)
        names = [*schema.names, *(path for path, _ in leaves_of(stored)), *([DATA] if makes_values else [])]
        decoded = source.read_row_groups(list(indices), columns=names, use_threads=False)
        table = pa.Table.from_arrays(decoded.columns[: len(schema)], schema=schema)
        if makes_values:
            table = with_values(table.append_column(DATA, decoded.column(DATA)))
        if "headers" in schema.names:
            table.column("headers").validate(full=True)
    except PARQUET_ERRORS as problem:
        where = f"bytes [{groups[0].start}, {groups[-1].end}) of it"
        raise corrupt_error(ref, f"{where} can't be decoded: {problem}") from problem
    _check_positions(ref, groups, table)
    for field in typed:
        has_it = field.name in decoded.schema.names
        values = conform(decoded.column(field.name), field.type) if has_it else pa.nulls(table.num_rows, field.type)
        table = table.append_column(field, values)
    return table


def verified_file(footer: Footer, indices: range, data: bytes | memoryview) -> pa.BufferReader:
    """Return a file with the row groups at their positions, after verifying checksums. Arguments, errors as
    ``decode_row_groups``."""
    ref = footer.segment
    groups = footer.row_groups[indices.start : indices.stop]
    start, end = groups[0].start, groups[-1].end
    origin = 0 if len(data) == end else start
    if len(data) != end - origin:
        raise_corrupt(ref, f"bytes [{start}, {end}) of it are not all there")
    view = memoryview(data)
    for group in groups:
        if zlib.crc32(view[group.start - origin : group.end - origin]) != group.crc32:
            raise_corrupt(ref, f"bytes [{group.start}, {group.end}) of it do not match their checksum")
    return sparse_file(view, start) if origin else pa.BufferReader(data)


def makes_values_of(footer: Footer, schema: pa.Schema) -> bool:
    """Return whether the column ``data`` has to be read for the columns of ``schema``, since values are left out."""
    return footer.has_left_out and "value" in schema.names and footer.typed_columns.data is not None


def _parts_to_read(footer: Footer, typed: Sequence[pa.Field]) -> list[pa.Field]:
    """Return what the segment has of the wanted typed columns. Raises ``TypeConflict``."""
    wanted = {field.name: field.type for field in typed}
    return [
        pa.field(field.name, members_to_read(field.type, wanted[field.name], field.name))
        for field in footer.typed_columns.fields()
        if field.name in wanted
    ]


def _parquet_columns(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([field for field in RECORD_SCHEMA if field.name in columns or field.name in _STATISTICS])


_Span = tuple[int, int, int, int, int, int]
"""Consecutive records of one partition: partition, base and end offset, count, smallest and largest timestamp in ms."""


@dataclass(frozen=True, slots=True)
class _RecordPositions:
    """Partition, offset and timestamp (microseconds) of each record, and the index at which each run starts."""

    partitions: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.int64]
    run_starts: npt.NDArray[np.intp]

    def spans(self, starts: npt.NDArray[np.intp]) -> list[_Span]:
        """Return the span from each of ``starts`` to the next one or the end. No span may cross partitions."""
        if len(starts) == 1:  # a small flush, for which each call of numpy would cost as much as the work
            first, offsets, timestamps = int(starts[0]), self.offsets, self.timestamps[starts[0] :]
            return [
                (
                    int(self.partitions[first]),
                    int(offsets[first]),
                    int(offsets[-1]) + 1,
                    len(offsets) - first,
                    int(timestamps.min()) // 1000,
                    int(timestamps.max()) // 1000,
                )
            ]
        last = np.append(starts[1:], len(self.offsets)) - 1
        return list(
            zip(
                self.partitions[starts].tolist(),
                self.offsets[starts].tolist(),
                (self.offsets[last] + 1).tolist(),
                (last - starts + 1).tolist(),
                (np.minimum.reduceat(self.timestamps, starts) // 1000).tolist(),
                (np.maximum.reduceat(self.timestamps, starts) // 1000).tolist(),
                strict=True,
            )
        )


def _record_positions(records: pa.Table) -> _RecordPositions:
    """Return the places of the records. Raises ``ValueError`` if the records can't form a segment."""
    if records.num_rows == 0:
        raise ValueError("a segment has at least one record")
    if any(records.column(name).null_count for name in ("partition", "offset", "timestamp")):
        raise ValueError("a record has no partition, offset or timestamp")
    partitions = records.column("partition").to_numpy()
    offsets = records.column("offset").to_numpy()
    timestamps = records.column("timestamp").to_numpy().view(np.int64)
    # Few numpy calls over all records, since each may release the interpreter's lock and wait for it.
    run_starts = np.zeros(1, np.intp)
    if partitions[0] != partitions[-1] or (partitions[1:] != partitions[:-1]).any():
        run_starts = np.append(run_starts, np.flatnonzero(np.diff(partitions)) + 1)
    if partitions[0] < 0 or int(offsets[run_starts].min()) < 0:
        raise ValueError("a partition or an offset is negative")
    if len(partitions) > 1:
        steps = offsets[1:] - offsets[:-1]
        steps[run_starts[1:] - 1] = 1
        if (len(run_starts) > 1 and (np.diff(partitions[run_starts]) < 0).any()) or int(steps.min()) <= 0:
            raise ValueError("records are not strictly sorted by partition and offset")
    return _RecordPositions(partitions, offsets, timestamps, run_starts)


def _row_group_starts(
    records: pa.Table, nbytes: int, run_starts: npt.NDArray[np.intp], row_group_bytes_max: int, fixed_bytes: int
) -> npt.NDArray[np.intp]:
    """Return the index of each row group's first record: each run's start, and where the row group before is full.

    ``fixed_bytes``: bytes of a record besides its key, value and headers.
    """
    if nbytes <= row_group_bytes_max:
        return run_starts
    run_lengths = np.diff(run_starts, append=records.num_rows)
    if _largest_run_bytes(records, run_starts, run_lengths, fixed_bytes) <= row_group_bytes_max:
        return run_starts
    ends = np.cumsum(record_bytes(records) + fixed_bytes)
    bytes_before_run = np.where(run_starts > 0, ends[run_starts - 1], 0)
    groups_in_run = (ends - 1 - np.repeat(bytes_before_run, run_lengths)) // row_group_bytes_max
    changes = np.diff(groups_in_run, prepend=-1) != 0
    changes[run_starts] = True
    return np.flatnonzero(changes)


def _largest_run_bytes(
    records: pa.Table, run_starts: npt.NDArray[np.intp], run_lengths: npt.NDArray[np.intp], fixed_bytes: int
) -> float:
    """Return an upper bound of the largest run's bytes without reading each record; infinity without a cheap one."""
    columns = [records.column(name) for name in ("key", "value")]
    if has_headers(records) or any(column.num_chunks != 1 for column in columns):
        return float("inf")
    sizes = run_lengths * fixed_bytes
    for chunk in (column.chunk(0) for column in columns):
        ends = np.frombuffer(chunk.buffers()[1], dtype=np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        sizes += ends[run_starts + run_lengths] - ends[run_starts]
    return float(sizes.max())


def _write(
    records: pa.Table, left_out: Sequence[int], nbytes: int, spans: Sequence[_Span], options: Mapping[str, Any]
) -> tuple[bytes, list[int], Any]:
    """Return the object, the positions of its row groups and, last, of its footer, and pyarrow's ``FileMetaData``.

    ``left_out``: as for ``row_groups_metadata``; ``nbytes``: size of the records in Arrow.
    """
    # Untouched memory costs nothing, so the bound is generous: no codec or encoding doubles its input, and a row group's page
    # headers and metadata take about 1 KiB. A native sink needs the interpreter's lock less often than one that Python writes
    # page by page, and a busy gateway's event loop would give the lock back late.
    leaf_count = len(typed_leaves(records.schema))
    buffer = pa.allocate_buffer(2 * nbytes + 64 * 1024 + (8 * 1024 + 1024 * leaf_count) * len(spans))
    sink = pa.FixedSizeBufferWriter(buffer)
    view = memoryview(buffer)
    positions = [len(MAGIC)]
    rows: list[tuple[int, ...]] = []
    with pq.ParquetWriter(sink, records.schema, **options) as writer:
        first = 0
        for span in spans:
            record_count, position = span[3], positions[-1]
            group = records if len(spans) == 1 else records.slice(first, record_count)
            writer.write_table(group, row_group_size=record_count)
            end = sink.tell()
            rows.append((position, end - position, zlib.crc32(view[position:end]), *span))
            positions.append(end)
            first += record_count
        writer.add_key_value_metadata(row_groups_metadata(rows, left_out))
    return view[: sink.tell()].tobytes(), positions, writer.writer.metadata


def sparse_file(data: memoryview, start: int) -> pa.BufferReader:
    """Return a file with ``data`` at ``start`` and zeros before it, since Parquet's positions count from the object's start."""
    end = start + len(data)
    if start <= _ZEROS_PER_BYTE_MAX * len(data) and end <= _HEAP_BYTES_MAX:
        return pa.BufferReader(bytes(start) + data)
    # Far inside an object the zeros are pages that are never touched. They cost address space, but neither time nor memory.
    pages = mmap.mmap(-1, end)
    pages[start:] = data
    return pa.BufferReader(pa.py_buffer(pages))


def _check_positions(ref: SegmentRef, groups: Sequence[RowGroup], records: pa.Table) -> None:
    """Raise ``CorruptData`` if the records are not those that the footer describes."""
    if records.num_rows != sum(group.record_count for group in groups):
        raise_corrupt(ref, "its row groups have another number of records than the footer says")
    try:
        places = _record_positions(records)
        starts = np.cumsum([0, *(group.record_count for group in groups[:-1])])
        spans = places.spans(starts)
    except (ValueError, IndexError) as problem:
        raise corrupt_error(ref, f"its records are not in order: {problem}") from problem
    for group, span in zip(groups, spans, strict=True):
        said = (group.partition, group.base_offset, group.end_offset, group.record_count)
        if span != (*said, group.min_timestamp_ms, group.max_timestamp_ms):
            raise_corrupt(ref, f"the records in bytes [{group.start}, {group.end}) are not those that the footer names")
