"""Records of many topics <-> one Parquet object of a journal.

Columns: ``topic`` and ``topic_id``, then those of a topic's table; ``offset`` is null, since the commit gives the offsets.
Records are sorted by (topic id, partition, arrival). A row group has about ``ROW_GROUP_BYTES_MAX`` of records, of any topics.

The footer's key ``tidelog.journal`` is JSON ``[row groups, runs]``. A row group is its first byte, length, CRC-32 and number of
records. A run is topic id, partition and number of records, in the order of the records. So one run can be found and verified
without the commit. The CRC-32 of the footer is in the commit.

The footer's key ``tidelog.documents`` is there if records are of typed topics. It is JSON ``[[records, id, id], …]`` in their
order: the schemas by which JSON documents among them were judged (``document_schemas``).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from log_format.limits import ROW_GROUP_BYTES_MAX
from log_format.records.document_schemas import DocumentSchemas, SchemaRows
from log_format.records.schema import BATCH_SCHEMA, RECORD_SCHEMA
from log_format.records.size import record_bytes
from log_format.segments.footer import MAGIC, PARQUET_ERRORS, TRAILER_BYTES, corrupt_error, raise_corrupt
from log_format.segments.run import SegmentRef
from log_format.segments.segment import FIXED_RECORD_BYTES, sparse_file

JOURNAL_SCHEMA: Final = pa.schema([pa.field("topic", pa.string()), pa.field("topic_id", pa.string()), *RECORD_SCHEMA])
_INDEX_KEY: Final = b"tidelog.journal"
_DOCUMENTS_KEY: Final = b"tidelog.documents"
_INTEGERS: Final = ("partition", "offset", "timestamp")
_BYTES: Final = ("key", "value", "headers.list.element.key", "headers.list.element.value")
_OPTIONS: Final[dict[str, Any]] = {
    "compression": dict.fromkeys(("timestamp", *_BYTES), "zstd"),
    "compression_level": dict.fromkeys(("timestamp", *_BYTES), 1),
    "use_dictionary": ["topic", "topic_id"],
    "column_encoding": dict.fromkeys(_INTEGERS, "DELTA_BINARY_PACKED") | dict.fromkeys(_BYTES, "PLAIN"),
    "write_statistics": ["topic", "topic_id", "partition", "timestamp"],
    "store_schema": False,
    "version": "2.6",
    "data_page_version": "1.0",
}
_DECODER: Final = msgspec.json.Decoder(tuple[list[tuple[int, int, int, int]], list[tuple[str, int, int]]])
_DOCUMENTS_DECODER: Final = msgspec.json.Decoder(list[tuple[int, int, int]])


class JournalRun(NamedTuple):
    """The records of one topic's partition in an object: rows ``[first_row, first_row + record_count)``."""

    topic_id: str
    partition: int
    first_row: int
    record_count: int
    size_bytes: int
    """Share of the object's stored bytes."""
    min_timestamp_ms: int
    max_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedObject:
    """An object to be written. ``records`` has ``BATCH_SCHEMA``, in the object's order; ``partitions`` has the same length."""

    data: bytes
    runs: tuple[JournalRun, ...]
    footer_start: int
    footer_crc32: int
    records: pa.Table
    partitions: npt.NDArray[np.int32]
    schemas: SchemaRows | None = None
    """Schemas by which the records that are JSON documents were judged; None: none was."""

    def ref(self, path: str) -> SegmentRef:
        """Return the reference to this object stored at ``path``, relative to the journal's table."""
        return SegmentRef(path, len(self.data), self.footer_start, self.footer_crc32)


class TopicRecords(NamedTuple):
    """Records of one topic: ``BATCH_SCHEMA`` without null timestamps, the partition of each record, and the schemas by which they
    were judged; None: they were not."""

    topic: str
    topic_id: str
    records: pa.Table
    partitions: npt.NDArray[np.int32]
    schemas: SchemaRows | None = None


def encode_object(parts: Sequence[TopicRecords], *, row_group_bytes_max: int = ROW_GROUP_BYTES_MAX) -> EncodedObject:
    """Encode records of any topics, in order of arrival; at least one record. The same records give the same bytes."""
    names = {part.topic_id: part.topic for part in parts}
    topic_ids = sorted(names)
    ranks = {topic_id: rank for rank, topic_id in enumerate(topic_ids)}
    records = pa.concat_tables([part.records for part in parts]).combine_chunks()
    partitions = np.concatenate([part.partitions for part in parts]).astype(np.int32)
    topics = np.repeat(
        np.array([ranks[part.topic_id] for part in parts], np.int32), [len(part.partitions) for part in parts]
    )
    schemas = _schemas_of(parts)
    order = np.lexsort((partitions, topics))  # stable: keeps the order of arrival
    if (np.diff(order) != 1).any():
        records, partitions, topics = records.take(pa.array(order)), partitions[order], topics[order]
        schemas = None if schemas is None else schemas[order]
    starts = np.append(0, np.flatnonzero((np.diff(topics) != 0) | (np.diff(partitions) != 0)) + 1)
    counts = np.diff(starts, append=len(partitions)).tolist()
    index = list(
        zip([topic_ids[rank] for rank in topics[starts].tolist()], partitions[starts].tolist(), counts, strict=True)
    )
    ranked = pa.array(topics)
    columns = [
        pa.DictionaryArray.from_arrays(ranked, pa.array([names[topic_id] for topic_id in topic_ids])),
        pa.DictionaryArray.from_arrays(ranked, pa.array(topic_ids)),
        pa.array(partitions),
        pa.nulls(len(partitions), pa.int64()),
        *(records.column(name) for name in BATCH_SCHEMA.names),
    ]
    table = pa.table(columns, names=JOURNAL_SCHEMA.names)
    judged = [] if schemas is None else _run_lengths(schemas)
    data, footer_start = _write(table, _group_starts(records, row_group_bytes_max), index, judged)
    timestamps = records.column("timestamp").to_numpy().view(np.int64) // 1000
    shares = np.maximum(1, np.array(counts) * footer_start // len(partitions)).tolist()
    runs = zip(
        index,
        starts.tolist(),
        shares,
        np.minimum.reduceat(timestamps, starts).tolist(),
        np.maximum.reduceat(timestamps, starts).tolist(),
        strict=True,
    )
    return EncodedObject(
        data=data,
        runs=tuple(JournalRun(one, partition, first, count, *rest) for (one, partition, count), first, *rest in runs),
        footer_start=footer_start,
        footer_crc32=zlib.crc32(memoryview(data)[footer_start:]),
        records=records,
        partitions=partitions,
        schemas=schemas,
    )


def _schemas_of(parts: Sequence[TopicRecords]) -> SchemaRows | None:
    if all(part.schemas is None for part in parts):
        return None
    none = DocumentSchemas()
    return np.concatenate([none.rows(len(part.partitions)) if part.schemas is None else part.schemas for part in parts])


def _run_lengths(schemas: SchemaRows) -> list[tuple[int, int, int]]:
    """Return the number of records of each run of records with the same schemas, and these."""
    starts = np.append(0, np.flatnonzero((np.diff(schemas, axis=0) != 0).any(axis=1)) + 1)
    counts = np.diff(starts, append=len(schemas)).tolist()
    return [(count, value, key) for count, (value, key) in zip(counts, schemas[starts].tolist(), strict=True)]


def _group_starts(records: pa.Table, row_group_bytes_max: int) -> list[int]:
    """Return the first row of each row group."""
    if records.nbytes <= row_group_bytes_max:
        return [0]
    groups = np.cumsum(record_bytes(records) + FIXED_RECORD_BYTES) // row_group_bytes_max
    return [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist()]


def _write(
    table: pa.Table,
    group_starts: list[int],
    index: Sequence[tuple[str, int, int]],
    judged: Sequence[tuple[int, int, int]],
) -> tuple[bytes, int]:
    """Return the object, and the position of its footer."""
    footer_bytes = 8 * 1024 * len(group_starts) + 200 * len(index) + 100 * len(judged)
    buffer = pa.allocate_buffer(2 * table.nbytes + 64 * 1024 + footer_bytes)
    sink = pa.FixedSizeBufferWriter(buffer)
    view = memoryview(buffer)
    groups: list[tuple[int, int, int, int]] = []
    with pq.ParquetWriter(sink, table.schema, **_OPTIONS) as writer:
        position = len(MAGIC)
        for first, stop in pairwise([*group_starts, table.num_rows]):
            writer.write_table(table.slice(first, stop - first), row_group_size=stop - first)
            end = sink.tell()
            groups.append((position, end - position, zlib.crc32(view[position:end]), stop - first))
            position = end
        noted = {_DOCUMENTS_KEY: msgspec.json.encode(judged)} if judged else {}
        writer.add_key_value_metadata({_INDEX_KEY: msgspec.json.encode((groups, index)), **noted})
    return view[: sink.tell()].tobytes(), position


class RowGroup(NamedTuple):
    """Bytes ``[start, start + size_bytes)`` of the object, with rows ``[first_row, first_row + record_count)``."""

    start: int
    size_bytes: int
    crc32: int
    first_row: int
    record_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectIndex:
    """The decoded footer of a journal's object."""

    ref: SegmentRef
    groups: tuple[RowGroup, ...]
    runs: dict[tuple[str, int], tuple[int, int]]
    """(topic id, partition) -> first row, number of records."""
    metadata: Any
    """pyarrow's ``FileMetaData``."""
    documents: Sequence[tuple[int, int, int]] = ()
    """Number of records, and the schemas by which JSON documents among them were judged; empty: none was."""

    @property
    def memory_bytes(self) -> int:
        """Estimated memory in bytes."""
        return 1024 + 4 * int(self.metadata.serialized_size) + 250 * len(self.runs) + 150 * len(self.documents)

    def schemas_of(self, first_row: int, record_count: int) -> SchemaRows | None:
        """Return the schemas by which these records were judged; None: they were not."""
        if not self.documents:
            return None
        counts, *ids = np.array(self.documents, np.int64).T
        rows = np.repeat(np.stack(ids, axis=1), counts, axis=0)
        return rows[first_row : first_row + record_count]

    def groups_of(self, first_row: int, record_count: int) -> range:
        """Return the row groups that have these rows."""
        touched = [
            number
            for number, group in enumerate(self.groups)
            if group.first_row < first_row + record_count and first_row < group.first_row + group.record_count
        ]
        return range(touched[0], touched[-1] + 1)


def decode_index(footer: bytes | memoryview, ref: SegmentRef) -> ObjectIndex:
    """Decode a footer from bytes ``[ref.footer_start, ref.size_bytes)`` of the object. Raises ``CorruptData``."""
    if len(footer) != ref.size_bytes - ref.footer_start or zlib.crc32(footer) != ref.footer_crc32:
        raise_corrupt(ref, "its footer does not match the checksum in the log")
    if footer[-4:] != MAGIC or int.from_bytes(footer[-TRAILER_BYTES:-4], "little") + TRAILER_BYTES != len(footer):
        raise_corrupt(ref, "its footer has no Parquet trailer")
    try:
        metadata = pq.read_metadata(pa.BufferReader(footer))
        if not metadata.schema.to_arrow_schema().equals(JOURNAL_SCHEMA):
            raise_corrupt(ref, "its columns are not those of a journal")
        noted = metadata.metadata or {}
        rows, index = _DECODER.decode(noted.get(_INDEX_KEY, b""))
        documents = _DOCUMENTS_DECODER.decode(noted[_DOCUMENTS_KEY]) if _DOCUMENTS_KEY in noted else []
    except PARQUET_ERRORS as problem:
        raise corrupt_error(ref, f"its footer can't be decoded: {problem}") from problem
    groups, runs = [], {}
    position, first_row = len(MAGIC), 0
    for start, size_bytes, crc32, count in rows:
        if start != position or size_bytes <= 0 or count <= 0:
            raise_corrupt(ref, "its footer contradicts itself")
        groups.append(RowGroup(start, size_bytes, crc32, first_row, count))
        position, first_row = start + size_bytes, first_row + count
    row = 0
    for topic_id, partition, count in index:
        if count <= 0:
            raise_corrupt(ref, "its footer contradicts itself")
        runs[topic_id, partition] = (row, count)
        row += count
    if documents and (sum(one[0] for one in documents) != row or min(documents)[0] <= 0):
        raise_corrupt(ref, "its footer contradicts itself")
    is_whole = (position, first_row, len(rows)) == (ref.footer_start, row, metadata.num_row_groups)
    if not is_whole or len(runs) != len(index):
        raise_corrupt(ref, "its footer contradicts itself")
    return ObjectIndex(ref=ref, groups=tuple(groups), runs=runs, metadata=metadata, documents=documents)


def decode_group(index: ObjectIndex, number: int, data: bytes | memoryview) -> pa.Table:
    """Decode the records of one row group: ``JOURNAL_SCHEMA``. Raises ``CorruptData``."""
    ref, group = index.ref, index.groups[number]
    if len(data) != group.size_bytes or zlib.crc32(data) != group.crc32:
        raise_corrupt(ref, f"bytes [{group.start}, {group.start + group.size_bytes}) of it do not match their checksum")
    try:
        source = pq.ParquetFile(sparse_file(memoryview(data), group.start), metadata=index.metadata)
        table = source.read_row_groups([number], use_threads=False)
        table = pa.Table.from_arrays(table.columns, schema=JOURNAL_SCHEMA)
        table.column("headers").validate(full=True)
    except PARQUET_ERRORS as problem:
        raise corrupt_error(ref, f"row group {number} of it can't be decoded: {problem}") from problem
    if table.num_rows != group.record_count:
        raise_corrupt(ref, "a row group has another number of records than the footer says")
    return table


def assign_run_offsets(records: pa.Table, partition: int, base_offset: int) -> pa.Table:
    """Return records of one partition with their offsets: ``RECORD_SCHEMA``. ``records`` has the columns of ``BATCH_SCHEMA``."""
    count = records.num_rows
    columns = [
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        pa.array(np.arange(base_offset, base_offset + count, dtype=np.int64)),
        *(records.column(name) for name in BATCH_SCHEMA.names),
    ]
    return pa.table(columns, schema=RECORD_SCHEMA)
