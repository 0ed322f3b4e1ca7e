"""What one gateway counted in a span of time: the value of a record of ``__metrics``.

Intervals are made to be added up: counts are sums, latencies are counts by bucket, everything else is a maximum. So an hour is
exactly the sum of its minutes, and a percentile over a cluster and a week is that of all observations.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from gateway.monitoring.samples import Labels, Samples

LAGS_MAX: Final = 10
"""Number of pairs of group and topic in an interval: those with the largest lag."""
FETCH_ROUTE: Final = "/v1/topics/{topic}/partitions/{partition}/records"

COUNTS: Final[Mapping[str, tuple[str, Labels]]] = {
    "produced_records": ("tidelog_appended_records_total", {}),
    "produced_bytes": ("tidelog_flush_bytes_sum", {}),
    "fetched_records": ("tidelog_read_records_total", {}),
    "sent_bytes": ("tidelog_http_sent_bytes_total", {}),
    "requests": ("tidelog_http_requests_total", {}),
    "refused_requests": ("tidelog_http_requests_total", {"status": "503"}),
    "commits": ("tidelog_commit_seconds_count", {}),
    "failed_flushes": ("tidelog_flush_failures_total", {}),
    "store_errors": ("tidelog_store_errors_total", {}),
    "store_puts": ("tidelog_store_requests_total", {"kind": "PUT"}),
    "store_gets": ("tidelog_store_requests_total", {"kind": "GET"}),
    "store_lists": ("tidelog_store_requests_total", {"kind": "LIST"}),
    "store_heads": ("tidelog_store_requests_total", {"kind": "HEAD"}),
}
"""Metric and labels of each count."""
LATENCIES: Final[Mapping[str, tuple[str, Labels]]] = {
    "acknowledgement": ("tidelog_acknowledgement_seconds", {}),
    "commit": ("tidelog_commit_seconds", {}),
    "fetch": ("tidelog_http_request_seconds", {"method": "GET", "route": FETCH_ROUTE}),
}
"""Metric and labels of each latency."""
LEVELS: Final[Mapping[str, str]] = {"memory_bytes": "process_resident_memory_bytes"}
"""Metric of each level, of which an interval keeps the largest value."""
LOOP_DELAY: Final = "event_loop_delay_ms"
STORED: Final = "stored_bytes"
LAG_RECORDS: Final = "tidelog_group_lag_records"
LAG_SECONDS: Final = "tidelog_group_lag_seconds"
SAMPLED: Final = frozenset(
    {name for name, _ in COUNTS.values()}
    | {f"{name}_bucket" for name, _ in LATENCIES.values()}
    | {*LEVELS.values(), LAG_RECORDS, LAG_SECONDS}
)
"""Names of the samples that an interval is made of."""


class Lag(msgspec.Struct, frozen=True, array_like=True):
    """A group's lag in a topic: records, and the age of the oldest one in seconds (0 if unknown)."""

    group: str
    topic: str
    record_count: float
    age_seconds: float


class Interval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One gateway's ``[start, end)``, in milliseconds since the epoch. ``run``: when its process started.

    ``latencies``: for each latency the number of observations by the upper bound of their bucket in seconds. What is 0 is left
    out.
    """

    gateway: str
    run: int
    start: int
    end: int
    counts: dict[str, float] = msgspec.field(default_factory=dict)
    latencies: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    levels: dict[str, float] = msgspec.field(default_factory=dict)
    lags: list[Lag] = msgspec.field(default_factory=list)


encode_interval: Final = msgspec.json.Encoder().encode
decode_interval: Final = msgspec.json.Decoder(Interval).decode


def interval_between(before: Samples, now: Samples, *, gateway: str, run: int) -> Interval:
    """Return what was counted between two moments, with the levels and lags of the second."""
    counts: dict[str, float] = {}
    for count, (name, where) in COUNTS.items():
        if grown := now.total(name, where) - before.total(name, where):
            counts[count] = grown
    return Interval(
        gateway=gateway,
        run=run,
        start=before.at_ms,
        end=now.at_ms,
        counts=counts,
        latencies={
            latency: observed
            for latency, (name, where) in LATENCIES.items()
            if (observed := _observed(before.buckets(name, where), now.buckets(name, where)))
        },
        levels={level: now.total(name) for level, name in LEVELS.items()},
        lags=_lags(now),
    )


def added(first: Interval, second: Interval) -> Interval:
    """Return the sum of two intervals of one process, the earlier one first."""
    return msgspec.structs.replace(
        second,
        start=first.start,
        counts=_summed(first.counts, second.counts),
        latencies={
            name: _summed(first.latencies.get(name, {}), second.latencies.get(name, {}))
            for name in first.latencies.keys() | second.latencies.keys()
        },
        levels={
            name: max(first.levels.get(name, 0.0), second.levels.get(name, 0.0))
            for name in first.levels.keys() | second.levels.keys()
        },
        lags=largest_lags((*first.lags, *second.lags)),
    )


def largest_lags(lags: Iterable[Lag]) -> list[Lag]:
    """Return the largest lag of each group and topic, at most ``LAGS_MAX``, the largest first."""
    highest: dict[tuple[str, str], Lag] = {}
    for lag in lags:
        known = highest.get((lag.group, lag.topic))
        if known is not None:
            ages = max(known.age_seconds, lag.age_seconds)
            lag = Lag(lag.group, lag.topic, max(known.record_count, lag.record_count), ages)  # noqa: PLW2901
        highest[lag.group, lag.topic] = lag
    return heapq.nlargest(LAGS_MAX, highest.values(), key=lambda lag: (lag.record_count, lag.age_seconds))


def _observed(before: Mapping[float, float], now: Mapping[float, float]) -> dict[str, int]:
    """Return the observations by bucket, from those up to each bound."""
    observed: dict[str, int] = {}
    below = 0.0
    for bound, count in now.items():
        up_to = count - before.get(bound, 0.0)
        if up_to > below:
            observed[f"{bound:g}"] = int(up_to - below)
        below = up_to
    return observed


def _lags(now: Samples) -> list[Lag]:
    ages = {(labels["group"], labels["topic"]): value for labels, value in now.of(LAG_SECONDS)}
    found = (
        Lag(labels["group"], labels["topic"], value, round(ages.get((labels["group"], labels["topic"]), 0.0), 1))
        for labels, value in now.of(LAG_RECORDS)
        if value
    )
    return largest_lags(found)


def _summed(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in first.keys() | second.keys()}
