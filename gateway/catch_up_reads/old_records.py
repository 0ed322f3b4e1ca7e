"""A task's records, read from the store, and the answer made from them.

Limits are exact and count whole records; the first record is returned whatever its size. A row group is decoded as a whole, so
the records that a task leaves of it are kept for the next task (``TaskReadAhead``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from gateway.catch_up_reads.task import PlannedRun, Task
from gateway.catch_up_reads.task_read_ahead import TaskReadAhead
from gateway.codec.answer_compression import compress_piece, is_worthwhile, new_compressor
from gateway.codec.arrow_answer import arrow_pieces
from gateway.codec.json_answer import Positions, json_pieces, ndjson_pieces
from gateway.codec.media_type import ARROW_STREAM, JSON, NDJSON
from gateway.engine.bounds import READ_AHEAD_PIECE_BYTES, READ_AHEAD_RECORDS
from gateway.engine.read_ahead import DecodedPiece, decoded_piece, end_of_fitting
from log_format.clock import Clock
from log_format.errors import CorruptData, StoreUnavailable
from log_format.records.schema import RECORD_SCHEMA
from log_format.segments.reader import SegmentReader
from log_format.segments.run import SegmentRef

SENT_BYTES_MIN: Final = 64 * 1024
"""Size below which pieces of a body are joined before they are sent."""
READ_MS_MAX: Final = 2_000
"""Time during which a task that already has records goes on to further runs."""


@dataclass(slots=True)
class FoundRecords:
    """Records that were read: tables of ``RECORD_SCHEMA``, in order of offset."""

    next_offset: int
    tables: list[pa.Table] = field(default_factory=list)
    record_count: int = 0
    size_bytes: int = 0
    piece_bytes: int = 0
    """Memory of the largest piece from which records were taken."""

    @property
    def table(self) -> pa.Table:
        """All records as one table."""
        return pa.concat_tables(self.tables) if self.tables else RECORD_SCHEMA.empty_table()


class OldRecords:
    """Reader of tasks, several concurrently. Thread-safe."""

    def __init__(self, reader: SegmentReader, *, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._reading_on = TaskReadAhead(self._read)

    def read(self, task: Task) -> FoundRecords:
        """Return the task's records, up to its limits.

        Raises ``CorruptData`` and ``StoreUnavailable``, unless there are records to answer.
        """
        found = FoundRecords(task.runs[0].start_offset)
        begun = self._reading_on.begin(task)
        try:
            self._take_all(task, found)
        finally:
            self._reading_on.end(task, begun, found.next_offset, found.record_count, found.piece_bytes)
        return found

    def _take_all(self, task: Task, found: FoundRecords) -> None:
        until_ms = self._clock.monotonic_ms() + READ_MS_MAX
        for run in task.runs:
            while found.next_offset < run.end_offset:
                if found.record_count and self._clock.monotonic_ms() > until_ms:
                    return
                try:
                    is_full = self._take(task, run, found)
                except (CorruptData, StoreUnavailable):
                    if found.record_count:
                        return
                    raise
                if is_full:
                    return

    def _take(self, task: Task, run: PlannedRun, found: FoundRecords) -> bool:
        """Take the records of a run's next piece that fit; return True if a limit is reached."""
        kept = self._reading_on.find(task, run, found.next_offset)
        piece = kept or self._read(task, run, found.next_offset, found.size_bytes, found.record_count)
        found.piece_bytes = max(found.piece_bytes, piece.memory_bytes)
        first = piece.row_of(found.next_offset)
        stop = end_of_fitting(
            piece.size_sums,
            range(first, len(piece.offsets)),
            records_max=task.records_max - found.record_count,
            bytes_max=task.bytes_max - found.size_bytes,
            at_least_one=not found.record_count,
        )
        if stop > first:
            found.tables.append(piece.table.slice(first, stop - first))
            found.record_count += stop - first
            found.size_bytes += int(piece.size_sums[stop] - piece.size_sums[first])
        if stop == len(piece.offsets):
            found.next_offset = piece.end_offset
            return found.record_count >= task.records_max or found.size_bytes >= task.bytes_max
        if stop > first:
            found.next_offset = int(piece.offsets[stop - 1]) + 1
        if kept is None:
            self._reading_on.keep(task, piece)
        return True

    def _read(
        self, task: Task, run: PlannedRun, offset: int, size_bytes: int = 0, record_count: int = 0
    ) -> DecodedPiece:
        """Read the next piece of a run. ``size_bytes`` and ``record_count``: what the task already has."""
        table = self._reader.read(
            task.topic,
            SegmentRef(run.path, run.size_bytes, run.footer_start, run.footer_crc32),
            task.partition,
            offset,
            bytes_max=max(task.bytes_max - size_bytes, READ_AHEAD_PIECE_BYTES),
            records_max=max(task.records_max - record_count, READ_AHEAD_RECORDS),
            end_offset=run.end_offset,
        )
        return decoded_piece(table, offset, run.end_offset, run.path)


def body(task: Task, found: FoundRecords) -> tuple[str | None, Iterator[bytes | memoryview]]:
    """Return the content encoding, and the body in pieces."""
    positions = Positions(
        next_offset=found.next_offset, high_watermark=task.high_watermark, log_start_offset=task.log_start_offset
    )
    table = found.table
    makers: dict[str, Callable[[], Iterator[bytes | memoryview]]] = {
        JSON: lambda: json_pieces(task.topic, task.partition, table, positions, topic_id=task.topic_id),
        NDJSON: lambda: ndjson_pieces(table),
        ARROW_STREAM: lambda: arrow_pieces(table),
    }
    pieces = _joined(makers[task.kind]())
    first = next(pieces)
    if task.encoding is None or not is_worthwhile(task.encoding, first):
        return None, _behind(first, pieces)
    return task.encoding, _compressed(task.encoding, _behind(first, pieces))


def _behind(first: bytes | memoryview, pieces: Iterator[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    yield first
    yield from pieces


def _joined(pieces: Iterator[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    chunks: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        chunks.append(piece)
        size += len(piece)
        if size >= SENT_BYTES_MIN:
            yield b"".join(chunks) if len(chunks) > 1 else piece
            chunks, size = [], 0
    if chunks:
        yield b"".join(chunks)


def _compressed(encoding: str, pieces: Iterator[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    compressor = new_compressor(encoding)
    for piece in pieces:
        if data := compress_piece(compressor, piece, last=False):
            yield data
    yield compressor.flush()
