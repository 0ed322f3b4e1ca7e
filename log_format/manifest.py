"""Which segment holds an offset of a partition, and which one a timestamp.

Each partition keeps its runs in order of offset, in flat arrays (40 bytes a run), so that both questions are a binary search:
by offset over the runs' ends, by timestamp over the running maximum of their largest timestamps (timestamps need not be in
order; the running maximum is).

Invariants: runs of one partition never overlap; runs wholly below the partition's log start are dropped; a segment stays
listed until a ``remove`` names it, also when all its runs were dropped. Safe from any thread.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from log_format.errors import CorruptData
from log_format.run import Run, SegmentRef

RUN_BYTES: Final = 44
"""Six numbers, and what the arrays have in reserve for the next ones."""
SEGMENT_BYTES: Final = 480
"""Its reference with a path of usual length, and its place in three dictionaries: measured."""


@dataclass(frozen=True, slots=True)
class Located:
    """A run and the segment that holds it."""

    segment: SegmentRef
    base_offset: int
    end_offset: int


class _PartitionRuns:
    """The runs of one partition in flat arrays."""

    __slots__ = ("bases", "ends", "max_timestamps", "newest", "newest_end", "running_max", "segments", "sizes")

    def __init__(self) -> None:
        self.bases = array("q")
        self.ends = array("q")
        self.max_timestamps = array("q")
        self.running_max = array("q")
        self.segments = array("I")
        self.sizes = array("I")
        self.newest: int | None = None
        """The segment of the run that ends last, also when that run was dropped."""
        self.newest_end = 0

    def note(self, run: Run, segment: int) -> None:
        """Take notice of a run, whether it is listed or not."""
        if run.end_offset > self.newest_end:
            self.newest, self.newest_end = segment, run.end_offset

    def forget(self, segments: set[int]) -> None:
        """Drop the runs of segments that left."""
        if not segments.isdisjoint(self.segments):
            self.keep(~np.isin(np.asarray(self.segments), list(segments)))
        if self.newest in segments:
            self.newest = self.segments[-1] if self.segments else None
            self.newest_end = self.ends[-1] if self.ends else 0

    def insert(self, run: Run, segment: int) -> None:
        """Put the run in its place; almost always the end."""
        index = bisect_left(self.bases, run.base_offset)
        overlaps_before = index > 0 and self.ends[index - 1] > run.base_offset
        overlaps_behind = index < len(self.bases) and self.bases[index] < run.end_offset
        if overlaps_before or overlaps_behind:
            raise CorruptData(
                f"The log gives offsets [{run.base_offset}, {run.end_offset}) of partition {run.partition} twice."
            )
        self.bases.insert(index, run.base_offset)
        self.ends.insert(index, run.end_offset)
        self.max_timestamps.insert(index, run.max_timestamp_ms)
        self.segments.insert(index, segment)
        self.sizes.insert(index, run.size_bytes)
        self.running_max.insert(index, 0)
        self._accumulate(index)

    def keep(self, mask: np.ndarray) -> None:
        """Drop the runs where ``mask`` is false."""
        for name in ("bases", "ends", "max_timestamps", "segments", "sizes"):
            old: array[int] = getattr(self, name)
            kept = array(old.typecode)
            kept.frombytes(np.asarray(old)[mask].tobytes())
            setattr(self, name, kept)
        self.running_max = array("q", bytes(8 * len(self.bases)))
        self._accumulate(0)

    def _accumulate(self, start: int) -> None:
        if start == len(self.bases) - 1:
            before = self.running_max[start - 1] if start else self.max_timestamps[start]
            self.running_max[start] = max(before, self.max_timestamps[start])
        elif self.bases:
            self.running_max = array("q", np.maximum.accumulate(np.asarray(self.max_timestamps)).tobytes())


class Manifest:
    """Partition -> runs -> segments, for one incarnation of a topic."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._partitions: dict[int, _PartitionRuns] = {}
        self._segments: dict[int, SegmentRef] = {}
        self._live_runs: dict[int, int] = {}
        self._ids: dict[str, int] = {}
        self._next_id = 0
        self._run_count = 0

    def add(
        self, segment: SegmentRef, runs: Iterable[Run], log_starts: Mapping[int, int] | np.ndarray | None = None
    ) -> None:
        """A segment joins; of its runs those wholly below ``log_starts`` are not listed. Raises ``CorruptData`` on overlap."""
        with self._lock:
            if segment.path in self._ids:
                raise CorruptData(f"The log adds segment {segment.path} twice.", segment=segment.path)
            identity = self._next_id
            self._next_id += 1
            self._ids[segment.path] = identity
            self._segments[identity] = segment
            live = 0
            for run in runs:
                of_partition = self._partitions.setdefault(run.partition, _PartitionRuns())
                of_partition.note(run, identity)
                if log_starts is None or run.end_offset > int(log_starts[run.partition]):
                    of_partition.insert(run, identity)
                    live += 1
            self._live_runs[identity] = live
            self._run_count += live

    def remove(self, path: str) -> None:
        """A segment leaves, with its runs. Nothing happens when it is not listed."""
        self.remove_all([path])

    def remove_all(self, paths: Iterable[str]) -> None:
        """Segments leave, with their runs."""
        with self._lock:
            identities = {identity for path in paths if (identity := self._ids.pop(path, None)) is not None}
            if not identities:
                return
            for identity in identities:
                del self._segments[identity]
                del self._live_runs[identity]
            for runs in self._partitions.values():
                before = len(runs.ends)
                runs.forget(identities)
                self._run_count -= before - len(runs.ends)

    def replace(
        self,
        removed: Iterable[str],
        added: Iterable[tuple[SegmentRef, Sequence[Run]]],
        log_starts: Mapping[int, int] | np.ndarray | None = None,
    ) -> None:
        """Segments leave and others join, at once for whoever looks meanwhile. As ``remove_all``, then ``add`` of each."""
        with self._lock:
            self.remove_all(removed)
            for segment, runs in added:
                self.add(segment, runs, log_starts)

    def trim(self, partition: int, log_start: int) -> None:
        """Drop the partition's runs that lie wholly below ``log_start``."""
        with self._lock:
            runs = self._partitions.get(partition)
            count = bisect_right(runs.ends, log_start) if runs is not None else 0
            if runs is None or count == 0:
                return
            for identity in runs.segments[:count]:
                self._live_runs[identity] -= 1
            runs.keep(np.arange(len(runs.ends)) >= count)
            self._run_count -= count

    def find(self, partition: int, offset: int) -> Located | None:
        """The first run that ends behind ``offset``: it holds the offset, or the next one that exists. O(log n)."""
        with self._lock:
            runs = self._partitions.get(partition)
            return None if runs is None else self._located(runs, bisect_right(runs.ends, offset))

    def find_timestamp(self, partition: int, offset: int, timestamp_ms: int) -> Located | None:
        """The first run that ends behind ``offset`` and whose largest timestamp is at least ``timestamp_ms``. O(log n)
        from the log start; further on, O(log n) plus the runs passed over."""
        with self._lock:
            runs = self._partitions.get(partition)
            if runs is None:
                return None
            first = bisect_right(runs.ends, offset)
            index = max(first, bisect_left(runs.running_max, timestamp_ms))
            while index < len(runs.ends) and runs.max_timestamps[index] < timestamp_ms:
                index += 1
            return self._located(runs, index)

    def newest_timestamp_ms(self, partition: int, offset: int) -> int | None:
        """The largest timestamp of the first run that ends behind ``offset``; None without one. O(log n)."""
        with self._lock:
            runs = self._partitions.get(partition)
            index = 0 if runs is None else bisect_right(runs.ends, offset)
            return None if runs is None or index == len(runs.ends) else runs.max_timestamps[index]

    def size_bytes(self, partition: int) -> int:
        """Stored bytes of the partition's runs."""
        with self._lock:
            runs = self._partitions.get(partition)
            return 0 if runs is None else int(np.asarray(runs.sizes).sum(dtype=np.int64))

    def retained_from(self, partition: int, *, oldest_ms: int | None, bytes_max: int | None) -> int:
        """Where the partition begins once the oldest runs are let go, whole ones only; 0 when none is.

        Those go that have no timestamp from ``oldest_ms`` on, and those without which ``bytes_max`` stored bytes are left.
        """
        with self._lock:
            runs = self._partitions.get(partition)
            if runs is None or not runs.ends:
                return 0
            count = 0 if oldest_ms is None else bisect_left(runs.running_max, oldest_ms)
            if bytes_max is not None:
                sizes = np.cumsum(np.asarray(runs.sizes), dtype=np.int64)
                count = max(count, int(np.searchsorted(sizes, sizes[-1] - bytes_max, side="right")))
            return runs.ends[count - 1] if count else 0

    def has_all(self, paths: Iterable[str]) -> bool:
        """Whether each of these segments is listed."""
        with self._lock:
            return all(path in self._ids for path in paths)

    def paths_within(self, partition: int, start_offset: int, end_offset: int) -> set[str]:
        """The segments that hold listed runs of ``[start_offset, end_offset)``."""
        with self._lock:
            runs = self._partitions.get(partition)
            if runs is None:
                return set()
            span = slice(bisect_right(runs.ends, start_offset), bisect_left(runs.bases, end_offset))
            return {self._segments[identity].path for identity in runs.segments[span]}

    def runs(self, partition: int) -> list[Located]:
        """All runs of a partition, in order of offset."""
        with self._lock:
            runs = self._partitions.get(partition)
            if runs is None:
                return []
            return [
                Located(self._segments[identity], base, end)
                for base, end, identity in zip(runs.bases, runs.ends, runs.segments, strict=True)
            ]

    def segments(self) -> list[SegmentRef]:
        """Every listed segment, in the order in which they joined."""
        with self._lock:
            return list(self._segments.values())

    def segment_count(self) -> int:
        """How many segments are listed."""
        return len(self._segments)

    @property
    def memory_bytes(self) -> int:
        """About how much memory this takes: ``RUN_BYTES`` for each listed run, ``SEGMENT_BYTES`` for each segment."""
        return SEGMENT_BYTES * len(self._segments) + RUN_BYTES * self._run_count

    def segments_below(self, log_starts: Mapping[int, int]) -> Sequence[SegmentRef]:
        """The segments that would hold nothing readable if the log started there, but for the newest of each partition."""
        with self._lock:
            dead: dict[int, int] = {}
            newest = {runs.newest for runs in self._partitions.values()}
            for partition, log_start in log_starts.items():
                runs = self._partitions.get(partition)
                if runs is not None:
                    for identity in runs.segments[: bisect_right(runs.ends, log_start)]:
                        dead[identity] = dead.get(identity, 0) + 1
            return [
                segment
                for identity, segment in self._segments.items()
                if self._live_runs[identity] - dead.get(identity, 0) == 0 and identity not in newest
            ]

    def _located(self, runs: _PartitionRuns, index: int) -> Located | None:
        if index >= len(runs.ends):
            return None
        return Located(self._segments[runs.segments[index]], runs.bases[index], runs.ends[index])

    def __iter__(self) -> Iterator[SegmentRef]:
        return iter(self.segments())
