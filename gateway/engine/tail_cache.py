"""Cache of the newest flushes, for readers of recent records.

1. A flush enters when it is committed, and leaves as a whole. Its table counts once, however many runs it has.
2. The oldest flush leaves first. Records read from the store do not enter, so reading old records never evicts new ones.
3. Runs are found by the topic's incarnation, so a re-created topic never shows the old one's records.
4. A flush stays as it was committed: below a log start, or where keys were compacted or records erased, the reader must ask the
   table (``partition_reader``). What may have been erased is dropped as soon as the gateway knows.
5. In addition to its records a flush may have some of them as their producers encoded them. These bytes count, and leave with
   the flush.

Not thread-safe: used on the event loop only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from log_format.records.document_schemas import SchemaRows
from log_format.records.left_out import with_values
from log_format.records.single import RecordAtOffset
from log_format.records.size import record_bytes
from log_format.records.typed_columns import DATA
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.state import TopicState

_FLUSH_OVERHEAD_BYTES = 2048
"""Bytes of memory of a flush besides its records: table, columns and buffers as Python objects."""
_RUN_OVERHEAD_BYTES = 320
"""Bytes of memory of a run besides its records."""
_ORIGINAL_OVERHEAD_BYTES = 200
"""Bytes of memory of an ``Original`` besides its data."""


class Original(NamedTuple):
    """The records ``[base_offset, end_offset)`` as their producer encoded them."""

    base_offset: int
    end_offset: int
    data: bytes | memoryview


Originals = Mapping[int, Sequence[Original]]
"""Originals by partition, in order of offset."""
_NONE: Originals = MappingProxyType({})


@dataclass(slots=True, eq=False)
class CachedFlush:
    """One flush: its records (``RECORD_SCHEMA``, run by run). A single record becomes a table when a reader asks for it; values
    that are left out are made before (``complete``)."""

    _records: pa.Table | RecordAtOffset
    size_bytes: int
    partitions: tuple[tuple[str, int], ...]
    """Topic id and partition of each run."""
    schemas: SchemaRows | None = None
    """Schemas by which the records at a journal were judged, for their drain; None: they were not."""
    _size_sums: npt.NDArray[np.int64] | None = None

    @property
    def records(self) -> pa.Table:
        """Records of the flush as a table of ``RECORD_SCHEMA``, run by run."""
        if isinstance(self._records, RecordAtOffset):
            self._records = self._records.table()
        assert self.is_complete
        return self._records

    @property
    def is_complete(self) -> bool:
        """Whether no value is left out."""
        return isinstance(self._records, RecordAtOffset) or DATA not in self._records.column_names

    def complete(self) -> None:
        """Make the values that are left out, which may take some milliseconds. Called in any thread."""
        if isinstance(self._records, pa.Table):
            self._records = with_values(self._records)

    def size_sums(self) -> npt.NDArray[np.int64]:
        """Return the bytes of all records before row i, for i from 0 to the number of rows: keys, values and headers."""
        if self._size_sums is None:
            sums = np.zeros(self.records.num_rows + 1, np.int64)
            np.cumsum(record_bytes(self.records), out=sums[1:])
            self._size_sums = sums
        return self._size_sums


@dataclass(frozen=True, slots=True)
class TailRun:
    """A run inside a cached flush: offsets ``[base_offset, end_offset)`` are the rows from ``first_row`` on, without gaps."""

    flush: CachedFlush
    base_offset: int
    end_offset: int
    first_row: int
    originals: Sequence[Original] = ()


@dataclass(slots=True)
class _PartitionTail:
    """The cached runs of one partition, oldest first; those before ``head`` were evicted."""

    bases: list[int] = field(default_factory=list)
    runs: list[TailRun | None] = field(default_factory=list)
    head: int = 0

    def drop_oldest(self) -> None:
        self.runs[self.head] = None
        self.head += 1
        if self.head > 64 and self.head * 2 > len(self.runs):
            del self.bases[: self.head]
            del self.runs[: self.head]
            self.head = 0


class TailCache:
    """The newest flushes of all topics, at most ``bytes_max`` bytes."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.size_bytes = 0
        self._flushes: deque[CachedFlush] = deque()
        self._partitions: dict[tuple[str, int], _PartitionTail] = {}

    def add(
        self,
        topic_id: str,
        records: pa.Table | RecordAtOffset,
        runs: Sequence[AppendedRange],
        nbytes: int,
        originals: Originals = _NONE,
    ) -> None:
        """Add a committed flush of one topic, newer than all before it.

        Args:
            records: records of the flush, run by run, with ``data`` if values are left out; not slices of something larger.
            runs: where each run's records are, in the order of ``records``.
            nbytes: bytes of memory that ``records`` take.
            originals: records as their producers encoded them.
        """
        self.add_shared(records, [(topic_id, run) for run in runs], nbytes, originals)

    def add_shared(
        self,
        records: pa.Table | RecordAtOffset,
        runs: Sequence[tuple[str, AppendedRange]],
        nbytes: int,
        originals: Originals = _NONE,
        schemas: SchemaRows | None = None,
    ) -> None:
        """Add a committed flush of several topics, as ``add`` does: each run with its topic's id, in the order of the records.
        Only a flush of one topic has ``originals``, and only one at a journal ``schemas``."""
        rows = 1 if isinstance(records, RecordAtOffset) else records.num_rows
        # 8 bytes a row for the sums of sizes, which are made on first use.
        size = nbytes + rows * 8 + _FLUSH_OVERHEAD_BYTES + _RUN_OVERHEAD_BYTES * len(runs)
        size += 0 if schemas is None else schemas.nbytes
        size += sum(len(one.data) + _ORIGINAL_OVERHEAD_BYTES for some in originals.values() for one in some)
        if size > self.bytes_max:
            return
        flush = CachedFlush(records, size, tuple((topic_id, run.partition) for topic_id, run in runs), schemas)
        row = 0
        for topic_id, run in runs:
            tail = self._partitions.setdefault((topic_id, run.partition), _PartitionTail())
            tail.bases.append(run.base_offset)
            end_offset = run.base_offset + run.count
            tail.runs.append(TailRun(flush, run.base_offset, end_offset, row, originals.get(run.partition, ())))
            row += run.count
        assert row == rows
        self._flushes.append(flush)
        self.size_bytes += size
        while self.size_bytes > self.bytes_max:
            self._evict()

    def find(self, topic_id: str, partition: int, offset: int) -> TailRun | None:
        """Return the cached run that holds the offset; None if there is none."""
        tail = self._partitions.get((topic_id, partition))
        if tail is None:
            return None
        index = bisect_right(tail.bases, offset, lo=tail.head) - 1
        run = tail.runs[index] if index >= tail.head else None
        return run if run is not None and offset < run.end_offset else None

    def begins_by(self, topic_id: str, partition: int, offset: int) -> bool:
        """Return whether the partition's oldest cached run is not above the offset. A flush that was just committed may not be
        cached yet."""
        tail = self._partitions.get((topic_id, partition))
        return tail is not None and tail.bases[tail.head] <= offset

    def originals(self, topic_id: str, partition: int, start: int, end: int) -> list[Original]:
        """Return the cached originals of ``[start, end)``, in order; the first and last may reach beyond."""
        found: list[Original] = []
        while start < end and (run := self.find(topic_id, partition, start)) is not None:
            found += [one for one in run.originals if one.end_offset > start and one.base_offset < end]
            start = run.end_offset
        return found

    def drop_erased(self, before: TopicState, state: TopicState) -> None:
        """Drop the flushes with records that erasures between these two states of a topic may have changed."""
        if state.topic_id is None or state.erased_ends is before.erased_ends:
            return
        for (topic_id, partition), tail in list(self._partitions.items()):
            if topic_id == state.topic_id and partition < state.partition_count:
                end = int(state.erased_ends[partition])
                for run in [run for run in tail.runs[tail.head :] if run is not None and run.base_offset < end]:
                    self._drop(run.flush)

    def _drop(self, flush: CachedFlush) -> None:
        if flush not in self._flushes:
            return  # dropped for another of its partitions
        self._flushes.remove(flush)
        self.size_bytes -= flush.size_bytes
        for place in set(flush.partitions):
            tail = self._partitions[place]
            kept = [run for run in tail.runs[tail.head :] if run is not None and run.flush is not flush]
            if kept:
                self._partitions[place] = _PartitionTail([run.base_offset for run in kept], [*kept])
            else:
                del self._partitions[place]

    def _evict(self) -> None:
        flush = self._flushes.popleft()
        self.size_bytes -= flush.size_bytes
        for place in flush.partitions:
            tail = self._partitions[place]
            tail.drop_oldest()
            if tail.head == len(tail.runs):
                del self._partitions[place]
