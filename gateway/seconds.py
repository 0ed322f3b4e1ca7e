"""Histograms of seconds in plain numbers, for what happens with each request.

The client library's would take a tenth of a small request's time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

SECONDS_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Seconds:
    """What was observed of one thing."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(SECONDS_BUCKETS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(SECONDS_BUCKETS, seconds)] += 1
        self._sum += seconds

    def add_to(self, family: HistogramMetricFamily, labels: Iterable[str] = ()) -> None:
        """Put it into a scrape."""
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*SECONDS_BUCKETS, inf), self._counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound == inf else str(bound), total))
        family.add_metric(tuple(labels), buckets, self._sum)


class SecondsOfMany(Seconds, Collector):
    """A histogram without labels, to be registered. Belongs to the event loop."""

    def __init__(self, name: str, documentation: str) -> None:
        super().__init__()
        self._name = name
        self._documentation = documentation

    def describe(self) -> Iterator[Metric]:
        """Its name, so that it can be read without the others."""
        yield HistogramMetricFamily(self._name, self._documentation)

    def collect(self) -> Iterator[Metric]:
        """It as it is now."""
        family = HistogramMetricFamily(self._name, self._documentation)
        self.add_to(family)
        yield family
