"""One reading of the metrics: the few numbers that an hour's plots are made of."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from prometheus_client import CollectorRegistry

PRODUCED_RECORDS: Final = "tidelog_appended_records_total"
PRODUCED_BYTES: Final = "tidelog_flush_bytes_sum"
FETCHED_RECORDS: Final = "tidelog_read_records_total"
SENT_BYTES: Final = "tidelog_http_sent_bytes_total"
COMMIT_BUCKETS: Final = "tidelog_commit_seconds_bucket"
ACKNOWLEDGEMENT_BUCKETS: Final = "tidelog_acknowledgement_seconds_bucket"

_READ: Final = (
    PRODUCED_RECORDS,
    PRODUCED_BYTES,
    FETCHED_RECORDS,
    SENT_BYTES,
    COMMIT_BUCKETS,
    ACKNOWLEDGEMENT_BUCKETS,
)

Buckets = tuple[tuple[float, float], ...]
"""Upper bounds in seconds, and the number of observations up to each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsReading:
    """Numbers at ``at_ms``. ``totals``: sums over labels."""

    at_ms: int
    totals: dict[str, float]
    buckets: dict[str, Buckets]

    def total(self, name: str) -> float:
        """Return the number; 0 if no metric has it."""
        return self.totals.get(name, 0.0)


def read(registry: CollectorRegistry, at_ms: int) -> MetricsReading:
    """Return the numbers in the registry; other metrics are not asked for theirs."""
    totals: dict[str, float] = {}
    buckets: dict[str, list[tuple[float, float]]] = {}
    for metric in registry.restricted_registry(_READ).collect():
        for sample in metric.samples:
            if sample.name.endswith("_bucket"):
                buckets.setdefault(sample.name, []).append((float(sample.labels["le"]), sample.value))
                continue
            totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    return MetricsReading(at_ms=at_ms, totals=totals, buckets={name: tuple(found) for name, found in buckets.items()})


def quantile_ms(before: Buckets, after: Buckets, share: float) -> float | None:
    """Return the quantile of the observations between two readings, in milliseconds; None if there were none.

    Within a bucket observations are taken to be evenly distributed, as Prometheus does; beyond the last bound it is that
    bound.
    """
    earlier = dict(before)
    counts = [(bound, count - earlier.get(bound, 0.0)) for bound, count in after]
    total = counts[-1][1] if counts else 0.0
    if total <= 0:
        return None
    wanted = share * total
    for (lower, below), (upper, until) in pairwise([(0.0, 0.0), *counts]):
        if until >= wanted:
            if upper == float("inf"):
                return lower * 1000
            return (lower + (upper - lower) * (wanted - below) / max(until - below, 1.0)) * 1000
    return None
