"""One topic's runs that are only in its journal, and the search for the run with an offset.

Runs come in order of offset, each beginning where the previous one ended. They are numbers in flat columns, some 45 bytes per
run, since a journal may have hundreds of thousands. Dropping runs means making a new object of the others, so that a reader of
the old object still finds everything in it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from log_format.manifest.manifest import LocatedRun
from log_format.segments.run import Run, SegmentRef
from log_format.topic.partition_offsets import Offsets

TOPIC_BYTES: Final = 600
"""Memory in bytes of a topic without its runs, and of its state as readers see it (``view``): measured, rounded up."""
PARTITION_BYTES: Final = 250
RUN_BYTES: Final = 48
"""Memory of a run in bytes: 40 in the columns, and their spare capacity."""

_WIDTH: Final = 4
_END, _NEWEST, _COUNT_AND_SIZE, _PART = range(_WIDTH)
_SIZE_BITS: Final = 32
"""Bits that hold a run's share of an object (``object_tags``). The number of its records takes fewer than the rest."""


class UndrainedRun(NamedTuple):
    """The records ``[base_offset, end_offset)`` of one partition."""

    partition: int
    base_offset: int
    end_offset: int
    size_bytes: int
    """Share of the object's stored bytes."""
    max_timestamp_ms: int

    @property
    def record_count(self) -> int:
        """Number of records, since runs have no gaps."""
        return self.end_offset - self.base_offset


class ObjectRuns(NamedTuple):
    """The topic's runs in one object."""

    ref: SegmentRef
    runs: Sequence[UndrainedRun]


class _Runs:
    """The runs of one partition: for each run ``_WIDTH`` numbers in ``numbers``, and its object in ``refs``."""

    __slots__ = ("numbers", "partition", "refs")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.numbers = array("q")
        self.refs: list[SegmentRef] = []
        """Objects of the runs. This list grows last, so a run that a reader counts is complete."""

    def end(self, index: int) -> int:
        return self.numbers[index * _WIDTH + _END]

    def run(self, index: int) -> UndrainedRun:
        first = index * _WIDTH
        end, newest_ms, packed, _ = self.numbers[first : first + _WIDTH]
        count, size_bytes = packed >> _SIZE_BITS, packed & (1 << _SIZE_BITS) - 1
        return UndrainedRun(self.partition, end - count, end, size_bytes, newest_ms)


_PARTITION: Final = attrgetter("partition")


class Undrained:
    """A topic's undrained runs. ``drained``: below these offsets runs may be missing. One thread may add while others read."""

    __slots__ = ("_part_count", "_partitions", "drained", "record_count", "run_count", "size_bytes")

    def __init__(self, drained: Offsets, parts: Iterable[ObjectRuns] = ()) -> None:
        self.drained = drained
        self.size_bytes = 0
        """Stored bytes of the runs."""
        self.record_count = 0
        self.run_count = 0
        self._part_count = 0
        self._partitions: tuple[_Runs, ...] = ()
        """Runs by partition. Most topics here have one partition, and a dictionary for it would take half of the memory."""
        for part in parts:
            self.add(*part)

    @property
    def memory_bytes(self) -> int:
        """Estimated memory in bytes."""
        return TOPIC_BYTES + PARTITION_BYTES * len(self._partitions) + RUN_BYTES * self.run_count

    def add(self, ref: SegmentRef, runs: Iterable[Run | UndrainedRun]) -> int:
        """Add runs of one object, which follow the present ones. Return by how many bytes the memory grew."""
        added_bytes = 0
        for run in runs:
            of_partition = self._of(run.partition)
            if of_partition is None:
                of_partition = self._begun(run.partition)
                added_bytes += PARTITION_BYTES
            added_bytes += RUN_BYTES
            count = run.end_offset - run.base_offset
            packed = count << _SIZE_BITS | run.size_bytes
            of_partition.numbers.extend((run.end_offset, run.max_timestamp_ms, packed, self._part_count))
            of_partition.refs.append(ref)
            self.size_bytes += run.size_bytes
            self.record_count += count
            self.run_count += 1
        self._part_count += 1
        return added_bytes

    def parts(self) -> Iterator[ObjectRuns]:
        """Yield all runs by object, oldest first."""
        partitions = self._partitions
        places = sorted(
            (of_partition.numbers[index * _WIDTH + _PART], place, index)
            for place, of_partition in enumerate(partitions)
            for index in range(len(of_partition.refs))
        )
        for _, of_part in groupby(places, key=itemgetter(0)):
            found = [(partitions[place], index) for _, place, index in of_part]
            first, at = found[0]
            yield ObjectRuns(first.refs[at], [of_partition.run(index) for of_partition, index in found])

    def find(self, partition: int, offset: int) -> LocatedRun | None:
        """Return the first run that ends after ``offset``."""
        return next(self.runs(partition, offset), None)

    def find_timestamp(self, partition: int, offset: int, timestamp_ms: int) -> LocatedRun | None:
        """Return the first run that ends after ``offset`` and whose largest timestamp is at least ``timestamp_ms``."""
        late = (run for run, _ in self._from(partition, offset) if run.max_timestamp_ms >= timestamp_ms)
        run = next(late, None)
        return None if run is None else self.find(partition, run.base_offset)

    def newest_timestamp_ms(self, partition: int, offset: int) -> int | None:
        """Return the largest timestamp of the first run that ends after ``offset``; None without one."""
        found = next(self._from(partition, offset), None)
        return None if found is None else found[0].max_timestamp_ms

    def runs(self, partition: int, offset: int) -> Iterator[LocatedRun]:
        """Return the runs that end after ``offset``, in order."""
        return (LocatedRun(ref, run.base_offset, run.end_offset) for run, ref in self._from(partition, offset))

    def ends(self, partition: int, offset: int) -> Iterator[tuple[int, int]]:
        """Return the largest timestamp (ms) and end offset of each run that ends after ``offset``, in order of offsets."""
        return ((run.max_timestamp_ms, run.end_offset) for run, _ in self._from(partition, offset))

    def stored_bytes(self, partition: int, offset: int) -> int:
        """Return the stored bytes of the runs that end after ``offset``."""
        return sum(run.size_bytes for run, _ in self._from(partition, offset))

    def _of(self, partition: int) -> _Runs | None:
        partitions = self._partitions
        place = bisect_left(partitions, partition, key=_PARTITION)
        found = place < len(partitions) and partitions[place].partition == partition
        return partitions[place] if found else None

    def _begun(self, partition: int) -> _Runs:
        before, runs = self._partitions, _Runs(partition)
        place = bisect_left(before, partition, key=_PARTITION)
        self._partitions = (*before[:place], runs, *before[place:])
        return runs

    def _from(self, partition: int, offset: int) -> Iterator[tuple[UndrainedRun, SegmentRef]]:
        runs = self._of(partition)
        if runs is None:
            return
        refs = runs.refs
        for index in range(bisect_right(range(len(refs)), offset, key=runs.end), len(refs)):
            yield runs.run(index), refs[index]
