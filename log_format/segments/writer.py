"""A writer of a segment of one partition that encodes row group by row group as records arrive.

For rewriting, where the decoded input may be much larger than memory allows. A row group is encoded as soon as it has
``ROW_GROUP_BYTES_MAX`` of records, so memory has the encoded object and the records of one row group. The object is a segment
like any other (``segment``), with a filter on the keys of each row group before the footer (``key_filters``). All columns that
can be compressed are, since later records are not known yet.
"""

from __future__ import annotations

import io
import zlib
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from log_format.limits import ROW_GROUP_BYTES_MAX
from log_format.records.left_out import left_out_bytes
from log_format.records.size import record_bytes
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypedColumns, with_typed_columns
from log_format.segments.column_statistics import ColumnStatistics, collect_statistics, merge_statistics
from log_format.segments.encoding_options import WRITES_KEY_FILTERS, streaming_options
from log_format.segments.footer import MAGIC, TRAILER_BYTES, row_groups_metadata
from log_format.segments.key_filters import KeyFilters
from log_format.segments.run import Run
from log_format.segments.segment import FIXED_RECORD_BYTES, EncodedSegment

_KEYS_SLACK: Final = 2
"""A later row group may have so many times the records of the first one, and its filter makes no more errors."""


class SegmentWriter:
    """A writer that takes the records of one partition, sorted by offset.

    Args:
        compression: as for ``encode_segment``.
        columns: typed columns of the segment; records without one have null there.
        row_group_bytes_max: as for ``encode_segment``.
    """

    def __init__(
        self,
        *,
        compression: str,
        columns: TypedColumns = NO_TYPED_COLUMNS,
        row_group_bytes_max: int = ROW_GROUP_BYTES_MAX,
    ) -> None:
        self._compression = compression
        self._columns = columns
        self._statistics: list[ColumnStatistics] = []
        self._row_group_bytes_max = row_group_bytes_max
        self._waiting: list[pa.Table] = []
        self.waiting_bytes = 0
        """Estimated bytes of records that are not encoded yet."""
        self._sink = io.BytesIO()
        self._writer: pq.ParquetWriter | None = None
        self._rows: list[tuple[int, ...]] = []
        self._left_out: list[int] = []
        self._nbytes = 0

    @property
    def size_bytes(self) -> int:
        """Encoded bytes so far."""
        return self._sink.tell()

    def add(self, records: pa.Table) -> None:
        """Add records (``RECORD_SCHEMA``, and any of the typed columns) that follow the earlier ones."""
        records = with_typed_columns(records, self._columns)
        fixed_bytes = FIXED_RECORD_BYTES + left_out_bytes(records) // max(1, records.num_rows)
        ends = np.cumsum(record_bytes(records) + fixed_bytes)
        start, bytes_before = 0, 0
        while start < records.num_rows:
            room = self._row_group_bytes_max - self.waiting_bytes
            # Up to and including the record that fills the row group.
            stop = min(int(np.searchsorted(ends, bytes_before + room)) + 1, records.num_rows)
            self._waiting.append(records.slice(start, stop - start))
            self.waiting_bytes += int(ends[stop - 1]) - bytes_before
            start, bytes_before = stop, int(ends[stop - 1])
            if self.waiting_bytes >= self._row_group_bytes_max:
                self.flush()

    def flush(self) -> None:
        """Encode the buffered records as a row group."""
        if not self._waiting:
            return
        records = pa.concat_tables(self._waiting).combine_chunks()
        waiting_bytes = max(1, self.waiting_bytes)
        self._waiting, self.waiting_bytes = [], 0
        self._nbytes += records.nbytes
        if self._writer is None:
            share = min(1.0, waiting_bytes / self._row_group_bytes_max)
            options = self._options(records, int(_KEYS_SLACK * records.num_rows / share))
            self._writer = pq.ParquetWriter(self._sink, records.schema, **options)
        start = max(self._sink.tell(), len(MAGIC))
        self._writer.write_table(records, row_group_size=records.num_rows)
        end = self._sink.tell()
        with self._sink.getbuffer() as view:
            crc32 = zlib.crc32(view[start:end])
        self._rows.append(self._row(start, end - start, crc32, records))
        self._left_out.append(left_out_bytes(records))
        self._statistics.append(collect_statistics(records))

    def _options(self, first: pa.Table, keys_max: int) -> dict[str, Any]:
        """Return the options of Parquet's writer. ``first``: the first records. ``keys_max``: as for ``streaming_options``."""
        return streaming_options(first, compression=self._compression, keys_max=keys_max)

    def _row(self, start: int, size_bytes: int, crc32: int, records: pa.Table) -> tuple[int, ...]:
        """Return the entry of a row group in the footer."""
        return (start, size_bytes, crc32, *_span(records))

    def finish(self) -> EncodedSegment | None:
        """Return the segment, None if there were no records. Nothing can be added afterwards."""
        self.flush()
        if self._writer is None:
            return None
        groups_end = self._sink.tell()
        partition, base_offset = self._rows[0][3:5]
        run = Run(
            partition=partition,
            base_offset=base_offset,
            end_offset=self._rows[-1][5],
            record_count=sum(row[6] for row in self._rows),
            size_bytes=groups_end - len(MAGIC),
            min_timestamp_ms=min(row[7] for row in self._rows),
            max_timestamp_ms=max(row[8] for row in self._rows),
        )
        counts = [row[6] for row in self._rows]
        return self._encoded(self._writer, row_groups_metadata(self._rows, self._left_out), counts, (run,))

    def _encoded(
        self, writer: pq.ParquetWriter, metadata: dict[bytes, bytes], counts: list[int], runs: tuple[Run, ...]
    ) -> EncodedSegment:
        """Return the file, whose footer gets this metadata. ``counts``: number of records of each row group."""
        filters_start = self._sink.tell()
        writer.add_key_value_metadata(metadata)
        writer.close()
        data = self._sink.getvalue()
        self._sink.close()
        footer_start = len(data) - TRAILER_BYTES - int.from_bytes(data[-TRAILER_BYTES:-4], "little")
        filters = KeyFilters(filters_start, zlib.crc32(memoryview(data)[filters_start:footer_start]))
        return EncodedSegment(
            data=data,
            runs=runs,
            footer_start=footer_start,
            footer_crc32=zlib.crc32(memoryview(data)[footer_start:]),
            nbytes=self._nbytes,
            statistics=merge_statistics(self._statistics, counts),
            filters=filters if WRITES_KEY_FILTERS else None,
        )


def _span(records: pa.Table) -> tuple[int, int, int, int, int, int]:
    """Return partition, base and end offset, count, smallest and largest timestamp in ms of sorted records."""
    offsets = records.column("offset")
    timestamps = pc.min_max(records.column("timestamp").cast(pa.int64()))
    return (
        records.column("partition")[0].as_py(),
        offsets[0].as_py(),
        offsets[-1].as_py() + 1,
        records.num_rows,
        timestamps["min"].as_py() // 1000,
        timestamps["max"].as_py() // 1000,
    )
