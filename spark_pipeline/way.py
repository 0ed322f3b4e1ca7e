"""The readers of a topic for a batch, and which of those that look when the query runs is faster: an estimate from the log.

``format("tidelog")`` begins at once and sends each record through Python. Delta's reader first plans by the table's log in Spark
jobs of its own, of which it lists all that is kept, then reads with the JVM's Parquet reader, and pays more for each file. So few
records, many small segments and a busy topic's log are the first one's, long ranges in large segments the other's. The costs are
those that ``python -m benchmarks spark`` prints, and for a commit of the log what a day of them adds to a query in
``python -m benchmarks maintenance``: 100-byte records, a warm JVM, two cores, a directory (a bucket lists slower). That both
readers gain alike by more cores is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Way(StrEnum):
    """A reader, by its format's name. ``PARQUET`` has the segments' names from the call, so a query has nothing to plan."""

    TIDELOG = "tidelog"
    DELTA = "delta"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one reader, in seconds of a core: of a query, of each commit that the log keeps, of each segment, of each record."""

    query: float
    commit: float
    segment: float
    record: float

    def of(self, commit_count: int, segment_count: int, record_count: int) -> float:
        """An estimate for one query of so much."""
        return self.query + commit_count * self.commit + segment_count * self.segment + record_count * self.record


COSTS: Final[Mapping[Way, Cost]] = MappingProxyType(
    {
        Way.TIDELOG: Cost(query=0.11, commit=0, segment=0.0016, record=0.51e-6),
        Way.DELTA: Cost(query=0.24, commit=40e-6, segment=0.0024, record=0.17e-6),
    }
)


def faster_way(*, commit_count: int, segment_count: int, record_count: int) -> Way:
    """The reader that is expected to take less for a batch of all columns; ``format("tidelog")`` of equals.

    Never ``PARQUET``: what it reads is not what is there when the query runs.
    """
    return min(COSTS, key=lambda way: COSTS[way].of(commit_count, segment_count, record_count))
