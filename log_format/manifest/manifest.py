"""The search for the segment with an offset of a partition, or with a timestamp.

Flat columns take some 50 bytes per segment (``segment_rows``) and 32 per run (``partition_runs``), since a topic may have
hundreds of thousands. Both searches are binary. Adding a segment costs O(1), amortized. Removing segments costs one pass over the
columns, however many are removed in one call.

Runs of one partition never overlap. Runs entirely below the partition's log start are dropped. A segment stays listed until a
``remove`` names it, even without runs. Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from log_format.errors import CorruptData
from log_format.manifest.partition_runs import PARTITION_BYTES, RUN_BYTES, PartitionRuns, RunColumns
from log_format.manifest.segment_rows import SegmentColumns, SegmentRows
from log_format.segments.run import Run, SegmentRef


@dataclass(frozen=True, slots=True)
class LocatedRun:
    """A run and its segment."""

    segment: SegmentRef
    base_offset: int
    end_offset: int
    journal: int | None = None
    """Journal whose object the segment is; None if the segment is the topic's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBatch:
    """Runs of any partitions, in any order, as columns of the same length. ``segments``: indices of the segments
    given with them."""

    partitions: npt.NDArray[np.int64]
    bases: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    max_timestamps: npt.NDArray[np.int64]
    segments: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]


class Manifest:
    """The manifest of one incarnation of a topic: partition -> runs -> segments."""

    __slots__ = ("_lock", "_partitions", "_run_count", "_segments")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._partitions: dict[int, PartitionRuns] = {}
        self._segments = SegmentRows()
        self._run_count = 0

    def add(
        self, segment: SegmentRef, runs: Iterable[Run], log_starts: Mapping[int, int] | np.ndarray | None = None
    ) -> None:
        """Add a segment and its runs, except those entirely below ``log_starts``. Raises ``CorruptData`` on overlap."""
        with self._lock:
            row = self._segments.append(segment)
            if row is None:
                raise CorruptData(f"The log adds segment {segment.path} twice.", segment=segment.path)
            for run in runs:
                of_partition = self._partitions.setdefault(run.partition, PartitionRuns())
                of_partition.note(run.end_offset, row)
                if log_starts is not None and run.end_offset <= int(log_starts[run.partition]):
                    continue
                if not of_partition.insert(run.base_offset, run.end_offset, run.max_timestamp_ms, row, run.size_bytes):
                    span = f"[{run.base_offset}, {run.end_offset})"
                    raise CorruptData(f"The log gives offsets {span} of partition {run.partition} twice.")
                self._run_count += 1

    def add_many(self, segments: SegmentColumns, runs: RunBatch, log_starts: npt.NDArray[np.int64]) -> None:
        """Add segments like ``add``, without an object for each. Raises ``CorruptData``; the manifest is then unusable."""
        with self._lock:
            first = self._segments.extend(segments)
            if first is None:
                raise CorruptData("The log adds a segment twice.")
            order = np.lexsort((runs.bases, runs.partitions))
            partitions = runs.partitions[order]
            starts = np.flatnonzero(np.diff(partitions, prepend=-1))
            for indices in np.split(order, starts[1:]) if len(order) else []:
                partition = int(runs.partitions[indices[0]])
                of_partition = self._partitions.setdefault(partition, PartitionRuns())
                last = indices[np.argmax(runs.ends[indices])]
                of_partition.note(int(runs.ends[last]), first + int(runs.segments[last]))
                listed = indices[runs.ends[indices] > log_starts[partition]]
                columns = RunColumns(
                    bases=runs.bases[listed],
                    ends=runs.ends[listed],
                    max_timestamps=runs.max_timestamps[listed],
                    segments=(runs.segments[listed] + first).astype(np.uint32),
                    sizes=runs.sizes[listed].astype(np.uint32),
                )
                if not of_partition.extend(columns):
                    raise CorruptData(f"The log gives offsets of partition {partition} twice.")
                self._run_count += len(listed)

    def remove(self, path: str) -> None:
        """Remove a segment and its runs, if it is listed."""
        self.remove_all([path])

    def remove_all(self, paths: Iterable[str]) -> None:
        """Remove these segments and their runs."""
        with self._lock:
            if not [path for path in paths if self._segments.remove(path) is not None]:
                return
            gone = self._segments.gone()
            for runs in self._partitions.values():
                before = len(runs)
                runs.forget(gone)
                self._run_count -= before - len(runs)
            del gone
            numbers = self._segments.renumber_if_crowded()
            if numbers is not None:
                for runs in self._partitions.values():
                    runs.renumber(numbers)

    def replace(
        self,
        removed: Iterable[str],
        added: Iterable[tuple[SegmentRef, Sequence[Run]]],
        log_starts: Mapping[int, int] | np.ndarray | None = None,
    ) -> None:
        """Remove segments, then add others, in one step for concurrent readers."""
        with self._lock:
            self.remove_all(removed)
            for segment, runs in added:
                self.add(segment, runs, log_starts)

    def trim(self, partition: int, log_start: int) -> None:
        """Drop the partition's runs that are entirely below ``log_start``."""
        with self._lock:
            runs = self._partitions.get(partition)
            count = runs.index_of(log_start) if runs is not None else 0
            if runs is not None and count:
                runs.drop_first(count)
                self._run_count -= count

    def find(self, partition: int, offset: int) -> LocatedRun | None:
        """Return the first run that ends after ``offset``: it has the offset, or the next one that exists. O(log n)."""
        with self._lock:
            runs = self._partitions.get(partition)
            return None if runs is None else self._located_run(runs, runs.index_of(offset))

    def runs_from(self, partition: int, offset: int, *, count_max: int, bytes_max: int) -> list[tuple[LocatedRun, int]]:
        """Return the runs from the first that ends after ``offset`` on, each with its stored bytes.

        At most ``count_max`` runs and ``bytes_max`` stored bytes, but at least one run if there is one.
        """
        with self._lock:
            runs = self._partitions.get(partition)
            if runs is None:
                return []
            first = runs.index_of(offset)
            sizes = np.asarray(runs.sizes[first : first + count_max])
            count = max(1, int(np.searchsorted(np.cumsum(sizes, dtype=np.int64), bytes_max, side="right")))
            found = ((self._located_run(runs, first + index), int(size)) for index, size in enumerate(sizes[:count]))
            return [(located, size) for located, size in found if located is not None]

    def find_timestamp(self, partition: int, offset: int, timestamp_ms: int) -> LocatedRun | None:
        """Return the first run that ends after ``offset`` and whose largest timestamp is at least ``timestamp_ms``.

        O(log n) from the log start; from a later offset, O(log n) plus the runs skipped.
        """
        with self._lock:
            runs = self._partitions.get(partition)
            if runs is None:
                return None
            return self._located_run(runs, runs.index_of_timestamp(timestamp_ms, runs.index_of(offset)))

    def newest_timestamp_ms(self, partition: int, offset: int) -> int | None:
        """Return the largest timestamp of the first run that ends after ``offset``; None without one. O(log n)."""
        with self._lock:
            runs = self._partitions.get(partition)
            index = 0 if runs is None else runs.index_of(offset)
            return None if runs is None or index == len(runs) else runs.max_timestamps[index]

    def ends_at(self, partition: int, times_ms: npt.NDArray[np.int64], start_offset: int) -> npt.NDArray[np.float64]:
        """Return about which end offset the partition had at each of these times, which ascend; ``start_offset`` without runs.

        Between the largest timestamps of two runs, offsets count as spread evenly. O(log n), plus the runs since the first time.
        """
        with self._lock:
            runs = self._partitions.get(partition)
            if runs is None or not len(runs):
                return np.full(len(times_ms), float(start_offset))
            first = max(0, runs.index_of_timestamp(int(times_ms[0])) - 1)
            late = np.maximum.accumulate(np.asarray(runs.max_timestamps)[first:])
            ends = np.asarray(runs.ends)[first:].astype(np.float64)
            return np.interp(times_ms, late, ends, left=float(runs.base(first)))

    def size_bytes(self, partition: int) -> int:
        """Return the stored bytes of the partition's runs."""
        with self._lock:
            runs = self._partitions.get(partition)
            return 0 if runs is None else int(np.asarray(runs.sizes).sum(dtype=np.int64))

    def retention_start(self, partition: int, *, oldest_ms: int | None, bytes_max: int | None) -> int:
        """Return the partition's start after dropping its oldest runs, whole ones only; 0 if none is dropped.

        A run is dropped if all its timestamps are before ``oldest_ms``, or if ``bytes_max`` stored bytes remain without it.
        """
        with self._lock:
            runs = self._partitions.get(partition)
            if runs is None or not len(runs):
                return 0
            count = 0 if oldest_ms is None else runs.index_of_timestamp(oldest_ms)
            if bytes_max is not None:
                count = max(count, runs.index_of_size(bytes_max))
            return runs.ends[count - 1] if count else 0

    def has_all(self, paths: Iterable[str]) -> bool:
        """Return whether each of these segments is listed."""
        with self._lock:
            return all(self._segments.find(path) is not None for path in paths)

    def paths_within(self, partition: int, start_offset: int, end_offset: int) -> set[str]:
        """Return the paths of segments that have listed runs with offsets in ``[start_offset, end_offset)``."""
        with self._lock:
            runs = self._partitions.get(partition)
            if runs is None:
                return set()
            return {self._segments.path(row) for row in runs.segments[runs.within(start_offset, end_offset)]}

    def runs(self, partition: int) -> list[LocatedRun]:
        """Return all runs of a partition, in order of offset."""
        with self._lock:
            runs = self._partitions.get(partition)
            if runs is None:
                return []
            return [
                LocatedRun(self._segments.segment(row), end - length, end)
                for end, length, row in zip(runs.ends, runs.lengths, runs.segments, strict=True)
            ]

    def segments(self) -> list[SegmentRef]:
        """Return every listed segment, in the order in which they joined."""
        with self._lock:
            return list(self._segments)

    def segment_count(self) -> int:
        """Return the number of listed segments."""
        return len(self._segments)

    @property
    def memory_bytes(self) -> int:
        """Estimated memory in bytes."""
        return self._segments.memory_bytes + RUN_BYTES * self._run_count + PARTITION_BYTES * len(self._partitions)

    def segments_below(self, log_starts: Mapping[int, int], *, count_max: int | None = None) -> Sequence[SegmentRef]:
        """Return segments that would have no readable records with these log starts, but never the newest of each partition.

        At most ``count_max``: those that joined first.
        """
        with self._lock:
            dead = ~self._segments.gone()
            for partition, runs in self._partitions.items():
                first = runs.index_of(log_starts[partition]) if partition in log_starts else 0
                dead[np.asarray(runs.segments)[first:]] = False
                if runs.newest is not None:
                    dead[runs.newest] = False
            return [self._segments.segment(row) for row in np.flatnonzero(dead)[:count_max].tolist()]

    def _located_run(self, runs: PartitionRuns, index: int) -> LocatedRun | None:
        if index >= len(runs):
            return None
        return LocatedRun(self._segments.segment(runs.segments[index]), runs.base(index), runs.ends[index])

    def __iter__(self) -> Iterator[SegmentRef]:
        return iter(self.segments())
