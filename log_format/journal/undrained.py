"""One topic's runs that are only in its journal, and which of them holds an offset.

Runs come in order of offset, each where the one before it ended. They are forgotten by making a new object of what is left: a
reader that has the old one still finds everything in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from log_format.manifest.manifest import Located
from log_format.segments.run import Run, SegmentRef
from log_format.topic.state import Offsets

_PART_BYTES: Final = 400
_RUN_BYTES: Final = 350
"""Of a run with its place in the lists: measured, rounded up."""


class Part(NamedTuple):
    """What one commit has of the topic."""

    ref: SegmentRef
    runs: Sequence[Run]


class Undrained:
    """``drained``: below these offsets runs may be missing. One thread adds at a time; others may read meanwhile."""

    def __init__(self, drained: Offsets, parts: Iterable[Part] = ()) -> None:
        self.drained = drained
        self.size_bytes = 0
        """Stored bytes of the runs."""
        self.record_count = 0
        self.parts: list[Part] = []
        """By commit, oldest first."""
        self._by_partition: dict[int, list[tuple[Run, SegmentRef]]] = {}
        for part in parts:
            self.add(part)

    @property
    def memory_bytes(self) -> int:
        """About how much memory it takes."""
        return 1_000 + _PART_BYTES * len(self.parts) + _RUN_BYTES * sum(map(len, list(self._by_partition.values())))

    def add(self, part: Part) -> None:
        """Records came in, behind those that are here."""
        for run in part.runs:
            self._by_partition.setdefault(run.partition, []).append((run, part.ref))
            self.size_bytes += run.size_bytes
            self.record_count += run.record_count
        self.parts.append(part)

    def find(self, partition: int, offset: int) -> Located | None:
        """The first run that ends after ``offset``."""
        return next(self.runs(partition, offset), None)

    def find_timestamp(self, partition: int, offset: int, timestamp_ms: int) -> Located | None:
        """The first run that ends after ``offset`` and whose largest timestamp is at least ``timestamp_ms``."""
        late = (run for run, _ in self._from(partition, offset) if run.max_timestamp_ms >= timestamp_ms)
        run = next(late, None)
        return None if run is None else self.find(partition, run.base_offset)

    def newest_timestamp_ms(self, partition: int, offset: int) -> int | None:
        """The largest timestamp of the first run that ends after ``offset``; None without one."""
        found = next(self._from(partition, offset), None)
        return None if found is None else found[0].max_timestamp_ms

    def runs(self, partition: int, offset: int) -> Iterator[Located]:
        """The runs that end after ``offset``, in order."""
        return (Located(ref, run.base_offset, run.end_offset) for run, ref in self._from(partition, offset))

    def stored_bytes(self, partition: int, offset: int) -> int:
        """Of the runs that end after ``offset``."""
        return sum(run.size_bytes for run, _ in self._from(partition, offset))

    def _from(self, partition: int, offset: int) -> Iterator[tuple[Run, SegmentRef]]:
        runs = self._by_partition.get(partition, [])
        for index in range(bisect_right(runs, offset, key=lambda one: one[0].end_offset), len(runs)):
            yield runs[index]
