"""Rewriting files of an archive in another order, in this process or in one of Spark's executors: an external sort by
distribution.

What fits into memory is sorted there. Otherwise the values of some row groups give the quantiles of the order. Then all records
are read once and spread over buckets, temporary files with adjacent ranges of the order. Then bucket after bucket is sorted and
written. A bucket that turned out too large is sorted in pieces, so it is in order only roughly.

Memory has a bucket (``BUCKET_BYTES`` decoded as a rule, ``PIECE_BYTES`` at most) and its sorted copy, and one encoded file. The
temporary files take the records' bytes, compressed, below ``$TMPDIR``. They have no names, so nothing of them remains after a
kill.
"""

from __future__ import annotations

import io
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from compaction.layout_order import LayoutOrder
from log_format.checkpoints.archive_rows import scan_file
from log_format.errors import BackOff, CorruptData, ObjectMissing
from log_format.ids import NewId
from log_format.layout import compacted_path, topic_root
from log_format.records.typed_columns import DATA, KEY_DATA, TypedColumns, with_typed_columns
from log_format.segments.footer import PARQUET_ERRORS, missing_text
from log_format.segments.laid_out import ROW_GROUP_BYTES, LaidOutWriter
from log_format.segments.run import SegmentRef
from log_format.segments.segment import EncodedSegment
from log_format.store import ObjectStore
from log_format.topic.live_segments import LiveSegment
from log_format.topic.rewrite import NewSegment
from log_format.topic.segment_tags import Layout, Rewritten

BUCKET_BYTES: Final = 64 * 1024 * 1024
"""Decoded bytes of a bucket, on average: eight row groups."""
PIECE_BYTES: Final = 4 * BUCKET_BYTES
"""Most decoded bytes that are sorted at once."""
BUCKETS_MAX: Final = 256
"""Most buckets, since each is an open file."""
SAMPLED_ROW_GROUPS: Final = 256
SAMPLED_RECORDS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutTask:
    """A rewrite. ``layout``: that of the new files, ``file_bytes``: their size."""

    topic: str
    sources: tuple[LiveSegment, ...]
    layout: Layout
    file_bytes: int
    compression: str
    columns: TypedColumns
    bucket_bytes: int = BUCKET_BYTES

    @property
    def record_count(self) -> int:
        """Number of records in the sources."""
        return sum(run.record_count for source in self.sources for run in source.runs)


def lay_out(store: ObjectStore, task: LayoutTask, new_id: NewId) -> list[NewSegment]:
    """Write the records of the sources in the wanted order; return the new files, which are in the store.

    Raises ``CorruptData`` if a source is missing or damaged, ``StoreUnavailable``; ``BackOff`` if there is no room for temporary
    files.
    """
    try:
        return _lay_out(store, task, new_id)
    except OSError as problem:
        said = (
            f"Files of topic {task.topic!r} can't be laid out: {problem}. TMPDIR names the directory that needs room."
        )
        raise BackOff(said, topic=task.topic) from problem


def _lay_out(store: ObjectStore, task: LayoutTask, new_id: NewId) -> list[NewSegment]:
    files = _NewFiles(store, task, new_id)
    footers = [_read_metadata(store, task.topic, source.segment) for source in task.sources]
    decoded_bytes = sum(
        footer.row_group(index).total_byte_size for footer in footers for index in range(_groups(footer))
    )
    bucket_count = min(BUCKETS_MAX, -(-decoded_bytes // task.bucket_bytes))
    if bucket_count <= 1:
        records = pa.concat_tables(_scan(store, task))
        order = LayoutOrder.of_sample(task.layout.columns, task.columns, [records])
        files.add(order.sort(records))
        return files.finish()
    sample = _sample(store, task, footers)
    order = LayoutOrder.of_sample(task.layout.columns, task.columns, sample)
    codes = np.sort(np.concatenate([order.codes(part) for part in sample]))
    bounds = codes[np.arange(1, bucket_count) * len(codes) // bucket_count]
    with _Buckets(bucket_count) as buckets:
        for records in _scan(store, task):
            buckets.add(records, np.searchsorted(bounds, order.codes(records), side="right"))
        for piece in buckets.pieces():
            files.add(order.sort(piece))
    return files.finish()


def _scan(store: ObjectStore, task: LayoutTask) -> Iterator[pa.Table]:
    """Yield all records with the table's typed columns. Raises ``CorruptData`` if their number differs from the log's."""
    for source in task.sources:
        count = 0
        for records in scan_file(store, task.topic, source):
            count += records.num_rows
            yield with_typed_columns(records, task.columns)
        if count != sum(run.record_count for run in source.runs):
            path = source.segment.path
            raise CorruptData(f"Segment {path} holds {count} records, not as many as the log says.", segment=path)


class _NewFiles:
    """The new files, put one by one when they have the wanted size."""

    def __init__(self, store: ObjectStore, task: LayoutTask, new_id: NewId) -> None:
        self._store, self._task, self._new_id = store, task, new_id
        self._writer = self._begin()
        self._added: list[NewSegment] = []
        self._record_count = 0

    def _begin(self) -> LaidOutWriter:
        return LaidOutWriter(
            compression=self._task.compression,
            columns=self._task.columns,
            row_group_bytes_max=min(ROW_GROUP_BYTES, self._task.file_bytes),
        )

    def add(self, records: pa.Table) -> None:
        """Add records that follow the earlier ones."""
        for batch in records.to_batches(max_chunksize=max(1, records.num_rows // 16)):
            self._writer.add(pa.Table.from_batches([batch]))
            self._record_count += batch.num_rows
            if self._writer.size_bytes >= self._task.file_bytes:
                self._put()

    def finish(self) -> list[NewSegment]:
        """Return the files. Raises ``CorruptData`` if not every record of the sources is in them."""
        self._put()
        if self._record_count != self._task.record_count:
            said = f"{self._record_count} records were written of {self._task.record_count}"
            raise CorruptData(f"Files of topic {self._task.topic!r} can't be laid out: {said}.", topic=self._task.topic)
        return self._added

    def _put(self) -> None:
        written = self._writer.finish()
        self._writer = self._begin()
        if written is not None:
            path = compacted_path(self._new_id())
            self._store.put(f"{topic_root(self._task.topic)}{path}", written.data)
            self._added.append(_new_segment(written, path, self._task))


def _new_segment(written: EncodedSegment, path: str, task: LayoutTask) -> NewSegment:
    judged = {DATA, KEY_DATA}.intersection(*(source.typed for source in task.sources), written.statistics.judged)
    first, *others = written.runs
    return NewSegment(
        segment=written.ref(path),
        run=first,
        modification_time_ms=max(source.modification_time_ms for source in task.sources),
        rewritten=Rewritten(max(1, *(source.rewritten.times for source in task.sources))),
        columns=replace(written.statistics, judged=tuple(sorted(judged))),
        other_runs=tuple(others),
        layout=task.layout,
        filters=written.filters,
    )


class _Buckets:
    """Temporary files of records. ``add`` appends to several of them; afterwards ``pieces`` reads one after another."""

    def __init__(self, count: int) -> None:
        self._files = [tempfile.TemporaryFile() for _ in range(count)]  # noqa: SIM115 (closed by __exit__)
        self._writers: list[pa.RecordBatchStreamWriter | None] = [None] * count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def add(self, records: pa.Table, buckets: np.ndarray[Any, np.dtype[np.intp]]) -> None:
        """Append each record to its bucket."""
        order = np.argsort(buckets, kind="stable")
        ordered = records.take(pa.array(order)).combine_chunks()
        named, starts = np.unique(buckets[order], return_index=True)
        ends = np.append(starts[1:], len(order))
        for bucket, start, end in zip(named.tolist(), starts.tolist(), ends.tolist(), strict=True):
            writer = self._writers[bucket]
            if writer is None:
                options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
                writer = pa.ipc.new_stream(self._files[bucket], ordered.schema, options=options)
                self._writers[bucket] = writer
            writer.write_table(ordered.slice(start, end - start))

    def pieces(self) -> Iterator[pa.Table]:
        """Yield the records of the buckets in turn, a bucket or ``PIECE_BYTES`` at a time."""
        for file, writer in zip(self._files, self._writers, strict=True):
            if writer is None:
                continue
            writer.close()
            file.seek(0)
            waiting: list[pa.RecordBatch] = []
            for batch in pa.ipc.open_stream(file):
                if waiting and sum(each.nbytes for each in waiting) + batch.nbytes > PIECE_BYTES:
                    yield pa.Table.from_batches(waiting)
                    waiting = []
                waiting.append(batch)
            yield pa.Table.from_batches(waiting)
            file.truncate(0)


def _sample(store: ObjectStore, task: LayoutTask, footers: Sequence[Any]) -> list[pa.Table]:
    """Return the ordering columns of some records of row groups that are spread evenly over the sources."""
    everywhere = [(source, index) for source, footer in enumerate(footers) for index in range(_groups(footer))]
    step = max(1, len(everywhere) / SAMPLED_ROW_GROUPS)
    chosen = [everywhere[int(at * step)] for at in range(min(len(everywhere), SAMPLED_ROW_GROUPS))]
    count = sum(footers[source].row_group(index).num_rows for source, index in chosen)
    every = max(1, count // SAMPLED_RECORDS)
    names = ["partition", "offset", *task.layout.columns]
    found = []
    for source, index in chosen:
        segment = task.sources[source].segment
        with _reading(store, task.topic, segment) as file:
            parquet = pq.ParquetFile(file, metadata=footers[source], pre_buffer=True)
            part = parquet.read_row_group(index, columns=names, use_threads=False)
        found.append(part.take(pa.array(np.arange(0, part.num_rows, every))))
    return found


def _groups(footer: Any) -> int:
    return int(footer.num_row_groups)


def _read_metadata(store: ObjectStore, topic: str, segment: SegmentRef) -> Any:
    """Return pyarrow's ``FileMetaData`` of a file. Raises ``CorruptData``, ``StoreUnavailable``."""
    try:
        data = store.get_range(f"{topic_root(topic)}{segment.path}", segment.footer_start, segment.size_bytes)
    except ObjectMissing:
        raise CorruptData(missing_text(segment), topic=topic, segment=segment.path) from None
    try:
        if zlib.crc32(data) != segment.footer_crc32:
            raise ValueError("its footer does not match the checksum in the log")
        return pq.read_metadata(pa.BufferReader(data))
    except PARQUET_ERRORS as problem:
        raise CorruptData(f"Segment {segment.path} is damaged: {problem}.", segment=segment.path) from problem


def _reading(store: ObjectStore, topic: str, segment: SegmentRef) -> pa.PythonFile:
    get = partial(store.get_range, f"{topic_root(topic)}{segment.path}")
    return pa.PythonFile(_Ranges(get, segment.size_bytes), mode="r")


class _Ranges(io.RawIOBase):
    """An object as a file whose every read is a range request."""

    def __init__(self, get: Callable[[int, int], bytes], size_bytes: int) -> None:
        self._get, self._size_bytes, self._position = get, size_bytes, 0

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def seekable(self) -> bool:
        """Return that it can be read anywhere."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move the position."""
        self._position = offset + (0, self._position, self._size_bytes)[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes; all that follow if it is negative."""
        end = self._size_bytes if size < 0 else min(self._size_bytes, self._position + size)
        data = self._get(self._position, end) if end > self._position else b""
        self._position += len(data)
        return data
