"""The runs of one partition in order of offset, as flat columns: 28 bytes each, whatever their content.

A search by offset is binary, over the runs' ends. A search by timestamp is binary over the largest timestamp up to the end of
each block of runs, and then linear in one block. (Timestamps may be in any order; these maxima never fall.)

Invariant: runs never overlap. Not thread-safe. A segment is the number of its row (``segment_rows``).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from log_format.manifest.segment_rows import Rows, select_rows

RUN_BYTES: Final = 32
"""Memory of a run in bytes: 28 in the columns, and spare capacity of columns and allocator (``benchmarks manifests``)."""
PARTITION_BYTES: Final = 800
"""Memory in bytes of a partition's columns without runs: measured."""
_BLOCK: Final = 64
"""Number of runs in a block. Searching a block takes a microsecond, and its maximum costs an eighth of a byte per run."""
_NO_BLOCKS: Final = array("q")
_UINT32_MAX: Final = 2**32 - 1
_COLUMNS: Final = ("ends", "lengths", "max_timestamps", "segments", "sizes")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunColumns:
    """Runs of one partition, in order of offset, as columns of the same length."""

    bases: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    max_timestamps: npt.NDArray[np.int64]
    segments: Rows
    sizes: npt.NDArray[np.uint32]


class PartitionRuns:
    """The columns. ``newest``: segment of the run that ends last, even if that run is not listed any more."""

    __slots__ = ("_block_maxima", "ends", "lengths", "max_timestamps", "newest", "newest_end", "segments", "sizes")

    def __init__(self) -> None:
        self.ends = array("q")
        self.lengths = array("I")
        self.max_timestamps = array("q")
        self.segments = array("I")
        self.sizes = array("I")
        self._block_maxima = _NO_BLOCKS
        """Largest timestamp up to the end of each block; empty while there is only one block."""
        self.newest: int | None = None
        self.newest_end = 0

    def __len__(self) -> int:
        return len(self.ends)

    def base(self, index: int) -> int:
        """Return the first offset of a run."""
        return self.ends[index] - self.lengths[index]

    def note(self, end_offset: int, segment: int) -> None:
        """Note a run's end and segment, whether it is listed or not."""
        if end_offset > self.newest_end:
            self.newest, self.newest_end = segment, end_offset

    def insert(self, base_offset: int, end_offset: int, max_timestamp_ms: int, segment: int, size_bytes: int) -> bool:
        """Insert a run in order, almost always at the end; return False if it overlaps another one."""
        index = bisect_right(self.ends, base_offset)
        if index < len(self.ends) and self.base(index) < end_offset:
            return False
        length = end_offset - base_offset
        if length > _UINT32_MAX:
            self.lengths = array("Q", self.lengths)
        for name, value in zip(_COLUMNS, (end_offset, length, max_timestamp_ms, segment, size_bytes), strict=True):
            getattr(self, name).insert(index, value)
        if index < len(self.ends) - 1 or index == _BLOCK:
            self._accumulate()
        elif index > _BLOCK and index % _BLOCK:
            self._block_maxima[-1] = max(self._block_maxima[-1], max_timestamp_ms)
        elif index > _BLOCK:
            self._block_maxima.append(max(self._block_maxima[-1], max_timestamp_ms))
        return True

    def extend(self, runs: RunColumns) -> bool:
        """Insert many runs in order; return False if some overlap, after which this object is unusable."""
        bases, ends = runs.bases, runs.ends
        added: tuple[npt.NDArray[Any], ...] = (
            runs.ends, ends - bases, runs.max_timestamps, runs.segments, runs.sizes,
        )  # fmt: skip
        order: npt.NDArray[np.int64] | None = None
        if self.ends and len(bases) and bases[0] < self.ends[-1]:
            ends = np.concatenate([np.asarray(self.ends), ends])
            bases = np.concatenate([np.asarray(self.ends) - np.asarray(self.lengths).astype(np.int64), bases])
            order = np.argsort(bases, kind="stable")
            bases, ends = bases[order], ends[order]
        if np.any(bases[1:] < ends[:-1]):
            return False
        if (added[1] > _UINT32_MAX).any():
            self.lengths = array("Q", self.lengths)
        for name, values in zip(_COLUMNS, added, strict=True):
            column: array[int] = getattr(self, name)
            column.frombytes(values.astype(column.typecode).tobytes())
            if order is not None:
                setattr(self, name, select_rows(column, order))
        self._accumulate()
        return True

    def forget(self, gone: npt.NDArray[np.bool_]) -> None:
        """Drop the runs of removed segments."""
        mask = gone[np.asarray(self.segments)]
        if mask.any():
            self.keep(~mask)
        if self.newest is not None and gone[self.newest]:
            self.newest = self.segments[-1] if self.segments else None
            self.newest_end = self.ends[-1] if self.ends else 0

    def renumber(self, numbers: Rows) -> None:
        """Replace the segments' row numbers by new ones."""
        rows = array("I")
        rows.frombytes(numbers[np.asarray(self.segments)].tobytes())
        self.segments = rows
        if self.newest is not None:
            self.newest = int(numbers[self.newest])

    def drop_first(self, count: int) -> None:
        """Drop the first ``count`` runs."""
        self.keep(np.arange(len(self.ends)) >= count)

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Drop the runs where ``mask`` is false."""
        for name in _COLUMNS:
            setattr(self, name, select_rows(getattr(self, name), mask))
        self._accumulate()

    def index_of(self, offset: int) -> int:
        """Return the index of the first run that ends after the offset. O(log n)."""
        return bisect_right(self.ends, offset)

    def index_of_timestamp(self, timestamp_ms: int, first: int = 0) -> int:
        """Return the index of the first run, from ``first`` on, whose largest timestamp is at least ``timestamp_ms``.

        Without one, return the number of runs. O(log n) from 0 on, otherwise O(log n) plus the runs skipped.
        """
        start = max(first, bisect_left(self._block_maxima, timestamp_ms) * _BLOCK)
        late = np.asarray(self.max_timestamps)
        while start < len(late):
            block = late[start : start + _BLOCK] >= timestamp_ms
            if block.any():
                return start + int(block.argmax())
            start += _BLOCK
        return len(late)

    def index_of_size(self, bytes_max: int) -> int:
        """Return how many of the oldest runs can be dropped so that at least ``bytes_max`` stored bytes are left."""
        sizes = np.cumsum(np.asarray(self.sizes), dtype=np.int64)
        return int(np.searchsorted(sizes, sizes[-1] - bytes_max, side="right"))

    def within(self, start_offset: int, end_offset: int) -> slice:
        """Return the slice of runs that have offsets in ``[start_offset, end_offset)``."""
        stop = bisect_left(self.ends, end_offset)
        if stop < len(self.ends) and self.base(stop) < end_offset:
            stop += 1
        return slice(bisect_right(self.ends, start_offset), stop)

    def _accumulate(self) -> None:
        late = np.asarray(self.max_timestamps)
        self._block_maxima = _NO_BLOCKS
        if len(late) > _BLOCK:
            self._block_maxima = array("q")
            blocks = np.maximum.reduceat(late, np.arange(0, len(late), _BLOCK))
            self._block_maxima.frombytes(np.maximum.accumulate(blocks).tobytes())
