"""Files of the archive whose records are in another order than that of offsets (docs/format/segments.md, section 4.7).

Only Delta readers query such a file, so it is made for them: larger row groups, statistics of keys, and Parquet's page index. A
row group has records of any partitions. The key ``tidelog.laid_out`` of the footer's metadata has the position, size, CRC-32 and
record count of each, so whatever rewrites or verifies the file sees damage.

Layout::

    [0, 4)                        "PAR1"
    […, …)                        row groups, one directly after another from byte 4 on
    […, …)                        filters on keys (``key_filters``), one for each row group
    […, footer_start)             page index
    [footer_start, size_bytes)    Parquet's FileMetaData, its length, "PAR1"
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from log_format.errors import DECODE_ERRORS, CorruptData, ObjectMissing
from log_format.layout import topic_root
from log_format.limits import FOOTER_BYTES_MAX, READ_SPAN_BYTES_MAX
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypedColumns, record_schema, typed_columns
from log_format.segments.encoding_options import streaming_options
from log_format.segments.footer import LEFT_OUT_KEY, MAGIC, PARQUET_ERRORS, TRAILER_BYTES, corrupt_error, missing_text
from log_format.segments.run import Run, SegmentRef
from log_format.segments.segment import EncodedSegment, sparse_file
from log_format.segments.writer import SegmentWriter
from log_format.store import ObjectStore

LAID_OUT_KEY: Final = b"tidelog.laid_out"
ROW_GROUP_BYTES: Final = 8 * 1024 * 1024
"""Uncompressed bytes of records in a row group: what readers without a page index read of a file for one value. Twice a
segment's, since whole files are read more often than single records."""
PAGE_BYTES: Final = 32 * 1024
"""Encoded bytes of a page, the unit that readers with a page index read."""


class _RowGroup(NamedTuple):
    """The place of a row group in the object."""

    start: int
    size_bytes: int
    crc32: int
    record_count: int

    @property
    def end(self) -> int:
        """Position after the last byte in the object."""
        return self.start + self.size_bytes


_decode_groups: Final = msgspec.json.Decoder(list[_RowGroup]).decode


class LaidOutWriter(SegmentWriter):
    """A writer of records in the order in which they are given, which is any."""

    def __init__(
        self,
        *,
        compression: str,
        columns: TypedColumns = NO_TYPED_COLUMNS,
        row_group_bytes_max: int = ROW_GROUP_BYTES,
    ) -> None:
        super().__init__(compression=compression, columns=columns, row_group_bytes_max=row_group_bytes_max)
        self._runs: dict[int, tuple[int, int, int, int, int]] = {}

    def _options(self, first: pa.Table, keys_max: int) -> dict[str, Any]:
        found = streaming_options(first, compression=self._compression, keys_max=keys_max)
        found["write_statistics"] = [*found["write_statistics"], "key"]
        return {**found, "write_page_index": True, "data_page_size": PAGE_BYTES}

    def _row(self, start: int, size_bytes: int, crc32: int, records: pa.Table) -> tuple[int, ...]:
        """Return the row group's entry in the footer, and count its records by partition."""
        partitions, offsets = (records.column(name).to_numpy() for name in ("partition", "offset"))
        times = records.column("timestamp").cast(pa.int64()).to_numpy() // 1000
        order = np.argsort(partitions, kind="stable")
        named, starts, counts = np.unique(partitions[order], return_index=True, return_counts=True)
        bounds = [np.minimum.reduceat(offsets[order], starts), np.maximum.reduceat(offsets[order], starts)]
        bounds += [np.minimum.reduceat(times[order], starts), np.maximum.reduceat(times[order], starts)]
        for partition, count, low, high, oldest, newest in zip(
            named.tolist(), counts.tolist(), *(bound.tolist() for bound in bounds), strict=True
        ):
            known = self._runs.get(partition, (low, high, 0, oldest, newest))
            self._runs[partition] = (
                min(known[0], low),
                max(known[1], high),
                known[2] + count,
                min(known[3], oldest),
                max(known[4], newest),
            )
        return (start, size_bytes, crc32, records.num_rows)

    def finish(self) -> EncodedSegment | None:
        """Return the file, None if there were no records. Nothing can be added afterwards."""
        self.flush()
        if self._writer is None:
            return None
        counts = [row[3] for row in self._rows]
        metadata = {LAID_OUT_KEY: msgspec.json.encode(self._rows)}
        if any(self._left_out):
            metadata[LEFT_OUT_KEY] = msgspec.json.encode(self._left_out)
        stored_bytes = self._sink.tell() - len(MAGIC)
        runs = tuple(self._run(partition, stored_bytes, sum(counts)) for partition in sorted(self._runs))
        return self._encoded(self._writer, metadata, counts, runs)

    def _run(self, partition: int, stored_bytes: int, record_count: int) -> Run:
        """Return a partition's records as a run: not all offsets between its ends are in the file. Its bytes are a share."""
        low, high, count, oldest, newest = self._runs[partition]
        return Run(partition, low, high + 1, count, max(1, stored_bytes * count // record_count), oldest, newest)


def runs_of(tables: Iterable[pa.Table]) -> dict[int, tuple[int, int, int]]:
    """Return lowest offset, end offset and number of the records of each partition."""
    found: dict[int, tuple[int, int, int]] = {}
    for table in tables:
        grouped = table.group_by("partition").aggregate([("offset", "min"), ("offset", "max"), ("offset", "count")])
        columns = (
            grouped.column(name).to_pylist() for name in ("partition", "offset_min", "offset_max", "offset_count")
        )
        for partition, low, high, count in zip(*columns, strict=True):
            known = found.get(partition, (low, high + 1, 0))
            found[partition] = (min(known[0], low), max(known[1], high + 1), known[2] + count)
    return found


def scan_laid_out(
    store: ObjectStore, topic: str, file: SegmentRef, *, row_groups: Sequence[int] | None = None
) -> Iterator[pa.Table]:
    """Yield the records of a laid out file, a row group at a time, in its order: ``RECORD_SCHEMA``, and its typed columns.

    ``row_groups``: indices of those to read, ascending; None for all. Values that are left out stay so. Raises ``CorruptData``
    (also if the file is missing), ``StoreUnavailable``.
    """
    key = f"{topic_root(topic)}{file.path}"
    try:
        metadata, groups = _read_footer(store, key, file)
        schema = record_schema(typed_columns(metadata.schema.to_arrow_schema()))
        chosen = range(len(groups)) if row_groups is None else row_groups
        fetched = _fetch(store, key, [groups[index] for index in chosen])
        for index, (group, data) in zip(chosen, fetched, strict=True):
            if zlib.crc32(data) != group.crc32:
                _raise(file, f"bytes [{group.start}, {group.end}) of it do not match their checksum")
            try:
                source = pq.ParquetFile(sparse_file(data, group.start), metadata=metadata)
                table = source.read_row_groups([index], use_threads=False)
                records = pa.Table.from_arrays(table.columns, schema=schema)
                records.column("headers").validate(full=True)
            except PARQUET_ERRORS as problem:
                raise corrupt_error(file, f"row group {index} of it can't be decoded: {problem}") from problem
            if records.num_rows != group.record_count or any(
                records.column(name).null_count for name in ("partition", "offset", "timestamp")
            ):
                _raise(file, f"row group {index} of it has not the records that its footer names")
            yield records
    except ObjectMissing:
        raise CorruptData(missing_text(file), topic=topic, segment=file.path) from None


def _fetch(store: ObjectStore, key: str, groups: Sequence[_RowGroup]) -> Iterator[tuple[_RowGroup, memoryview]]:
    """Yield the row groups with their bytes, of which a request gets as many adjacent ones as ``READ_SPAN_BYTES_MAX`` allows."""
    end_index, data = 0, memoryview(b"")
    for index, group in enumerate(groups):
        if index == end_index:
            end_index, end = index + 1, group.end
            for other in groups[index + 1 :]:
                if other.start != end or other.end - group.start > READ_SPAN_BYTES_MAX:
                    break
                end_index, end = end_index + 1, other.end
            data, start = memoryview(store.get_range(key, group.start, end)), group.start
        yield group, data[group.start - start : group.end - start]


class LaidOutFooter(NamedTuple):
    """The footer of a laid out file. ``metadata``: pyarrow's ``FileMetaData``."""

    metadata: Any
    row_groups: Sequence[_RowGroup]


def _read_footer(store: ObjectStore, key: str, file: SegmentRef) -> LaidOutFooter:
    """Return the footer. Raises ``CorruptData``, ``ObjectMissing``, ``StoreUnavailable``."""
    if not TRAILER_BYTES < file.size_bytes - file.footer_start <= FOOTER_BYTES_MAX:
        _raise(file, f"by the log its footer begins at {file.footer_start} of {file.size_bytes} bytes")
    return decode_laid_out_footer(store.get_range(key, file.footer_start, file.size_bytes), file)


def decode_laid_out_footer(footer: bytes | memoryview, file: SegmentRef) -> LaidOutFooter:
    """Decode a footer from its bytes, ``[file.footer_start, file.size_bytes)`` of the object. Raises ``CorruptData``."""
    if len(footer) != file.size_bytes - file.footer_start or zlib.crc32(footer) != file.footer_crc32:
        _raise(file, "its footer does not match the checksum in the log")
    try:
        metadata = pq.read_metadata(pa.BufferReader(footer))
        groups = _decode_groups((metadata.metadata or {}).get(LAID_OUT_KEY, b""))
    except (*DECODE_ERRORS, *PARQUET_ERRORS) as problem:
        raise corrupt_error(file, f"its footer can't be decoded: {problem}") from problem
    ends = [len(MAGIC), *(group.end for group in groups)]
    if [group.start for group in groups] != ends[:-1] or ends[-1] > file.footer_start or not groups:
        _raise(file, "its footer contradicts itself")
    if len(groups) != metadata.num_row_groups:
        _raise(file, f"its footer has {metadata.num_row_groups} row groups and lists {len(groups)}")
    return LaidOutFooter(metadata, groups)


def _raise(file: SegmentRef, what: str) -> NoReturn:
    raise corrupt_error(file, what)
