"""Histograms in plain numbers show what the client library's would."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from gateway.telemetry.histograms import SECONDS_BUCKETS, RegisteredHistogram

OBSERVED = (256.0, 1e9, 0.0, 0.001, 0.0011, 0.5, 59.9, 60.0, 61.0)


@pytest.mark.parametrize(
    "bounds", [SECONDS_BUCKETS, (1.0, 60.0), tuple(float(1 << power) for power in range(8, 27, 2))]
)
def test_a_scrape_is_the_same_as_the_librarys(bounds: tuple[float, ...]) -> None:
    """Buckets, bounds that are met exactly, count and sum; of seconds, of numbers, of bytes."""
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    plain = RegisteredHistogram("a_seconds", "What it is.", bounds)
    ours.register(plain)
    library = Histogram("a_seconds", "What it is.", buckets=bounds, registry=theirs)
    for seconds in OBSERVED:
        plain.observe(seconds)
        library.observe(seconds)
    expected = [line for line in generate_latest(theirs).decode().splitlines() if "_created" not in line]
    assert generate_latest(ours).decode().splitlines() == expected


def test_it_is_read_by_name() -> None:
    """The console reads some metrics without collecting the others."""
    registry = CollectorRegistry()
    registry.register(RegisteredHistogram("a_seconds", "What it is."))
    found = registry.restricted_registry(["a_seconds_bucket"]).collect()
    assert [sample.name for metric in found for sample in metric.samples] == ["a_seconds_bucket"] * 16
