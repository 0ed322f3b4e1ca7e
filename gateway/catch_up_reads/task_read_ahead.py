"""Read-ahead between tasks: what remains of a decoded row group, and the next pieces for a client that reads on.

While a lone client receives an answer, its reader would be idle. Instead it decodes the next pieces, in a thread of its own.

1. Only after a task that began where the last one ended, whichever client sent it, or at the log's start: such a client most
   likely reads on. While tasks of several clients alternate, no thread is idle, and none reads ahead.
2. Only runs that the task names, as many records as its answer had, and while there is room for a piece as large as the largest
   so far. So reading ahead evicts nothing.
3. The next task stops reading ahead. A piece that is being decoded at that moment is waited for if the task needs it, and kept in
   any case.
4. Pieces that no task asks for are evicted first (``ReadAhead``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from gateway.catch_up_reads.task import PlannedRun, Task
from gateway.engine.read_ahead import DecodedPiece, ReadAhead

AHEAD_BYTES_MAX: Final = 8 * 1024 * 1024
PIECES_MAX: Final = 6
"""Most pieces read ahead for one task: ``ReadAhead`` keeps eight of a partition."""

ReadPiece = Callable[[Task, PlannedRun, int], DecodedPiece]
"""Function that reads the records of a run from an offset on. Raises ``CorruptData``, ``StoreUnavailable``."""


class TaskReadAhead:
    """Read-ahead of one process. Thread-safe."""

    def __init__(self, read: ReadPiece) -> None:
        self._read = read
        self._pieces = ReadAhead(AHEAD_BYTES_MAX)
        self._changed = threading.Condition()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._tasks_begun = 0
        self._last_end: tuple[str, int, int] | None = None
        self._under_way: tuple[str, int, int] | None = None
        """The piece that is being decoded: path, partition, first offset."""

    def begin(self, task: Task) -> int | None:
        """Begin a task, and stop reading ahead. Return the value for ``end``; None if the task's client does not seem to read
        on."""
        with self._changed:
            self._tasks_begun += 1
            start_offset = task.runs[0].start_offset
            goes_on = (task.topic_id, task.partition, start_offset) == self._last_end
            return self._tasks_begun if goes_on or start_offset == task.log_start_offset else None

    def end(self, task: Task, begun: int | None, next_offset: int, record_count: int, piece_bytes: int) -> None:
        """End a task, and perhaps start to read ahead.

        Args:
            task: The task.
            begun: Result of ``begin``.
            next_offset: Offset after the task's last record.
            record_count: Of the task's records.
            piece_bytes: Memory of the task's largest piece.
        """
        with self._changed:
            self._last_end = (task.topic_id, task.partition, next_offset)
            if begun == self._tasks_begun and record_count:
                self._executor.submit(self._read_on, task, begun, next_offset, record_count, piece_bytes)

    def find(self, task: Task, run: PlannedRun, offset: int) -> DecodedPiece | None:
        """Return the piece of the run that covers the offset, or None; wait if it is being decoded."""
        with self._changed:
            while self._under_way == (run.path, task.partition, offset):
                self._changed.wait()
            return self._found(task, run, offset)

    def keep(self, task: Task, piece: DecodedPiece) -> None:
        """Keep a piece for the next task."""
        with self._changed:
            self._pieces.add(task.topic_id, task.partition, piece)

    def _found(self, task: Task, run: PlannedRun, offset: int) -> DecodedPiece | None:
        piece = self._pieces.find(task.topic_id, task.partition, offset)
        # Key compaction may have removed records of a segment that the plan no longer names.
        return piece if piece is not None and piece.path == run.path else None

    def _read_on(self, task: Task, begun: int, offset: int, records_left: int, piece_bytes: int) -> None:
        kept_bytes = piece_count = 0
        for run in task.runs:
            while offset < run.end_offset:
                with self._changed:
                    piece = self._found(task, run, offset)
                    if self._tasks_begun != begun or records_left <= 0 or piece_count == PIECES_MAX:
                        return
                    if piece is None and kept_bytes + piece_bytes > AHEAD_BYTES_MAX:
                        return
                    self._under_way = (run.path, task.partition, offset) if piece is None else None
                if piece is None:
                    piece = self._decoded(task, run, offset)
                records_left -= len(piece.offsets) - piece.row_of(offset)
                offset = piece.end_offset
                kept_bytes += piece.memory_bytes
                piece_bytes = max(piece_bytes, piece.memory_bytes)
                piece_count += 1

    def _decoded(self, task: Task, run: PlannedRun, offset: int) -> DecodedPiece:
        """Decode and keep a piece. An error silently ends reading ahead: the next task reports it, if its own try fails, too."""
        piece: DecodedPiece | None = None
        try:
            piece = self._read(task, run, offset)
            return piece
        finally:
            with self._changed:
                if piece is not None:
                    self._pieces.add(task.topic_id, task.partition, piece)
                self._under_way = None
                self._changed.notify_all()
