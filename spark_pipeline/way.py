"""Readers of a topic for a batch, and an estimate from the log of the faster of the two that look at the log when the query
runs.

``format("tidelog")`` starts immediately and sends each record through Python. Delta's reader first plans in Spark jobs of its
own, for which it lists the whole retained table log. It then reads with the JVM's Parquet reader, at a higher cost per file. So
``format("tidelog")`` is faster for few records, many small segments and a busy topic's log, Delta's reader for long ranges in
large segments. The costs are those that ``python -m benchmarks spark`` prints. The cost of a commit of the log is what a day of
commits adds to a query in ``python -m benchmarks maintenance``. Both were measured with 100-byte records, a warm JVM, two
cores, and a directory (a bucket lists slower). The estimate assumes that both readers benefit equally from more cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Way(StrEnum):
    """Reader, by its format's name. ``PARQUET`` gets the segments' names at the call, so a query has nothing to plan."""

    TIDELOG = "tidelog"
    DELTA = "delta"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Costs of one reader in seconds of a core: per query, per commit that the log keeps, per segment, per record."""

    query: float
    commit: float
    segment: float
    record: float

    def of(self, commit_count: int, segment_count: int, record_count: int) -> float:
        """Return the estimated cost of one query."""
        return self.query + commit_count * self.commit + segment_count * self.segment + record_count * self.record


COSTS: Final[Mapping[Way, Cost]] = MappingProxyType(
    {
        Way.TIDELOG: Cost(query=0.11, commit=0, segment=0.0016, record=0.51e-6),
        Way.DELTA: Cost(query=0.24, commit=40e-6, segment=0.0024, record=0.17e-6),
    }
)


def faster_way(*, commit_count: int, segment_count: int, record_count: int, leaves_out_values: bool = False) -> Way:
    """Return the reader expected to be faster for a batch of all columns; ``format("tidelog")`` if they are equal.

    With ``leaves_out_values`` (``value.keep=false``) it is always ``format("tidelog")``, which alone makes values of the columns.

    Never ``PARQUET``: it does not read the state at the query's time.
    """
    if leaves_out_values:
        return Way.TIDELOG
    return min(COSTS, key=lambda way: COSTS[way].of(commit_count, segment_count, record_count))
