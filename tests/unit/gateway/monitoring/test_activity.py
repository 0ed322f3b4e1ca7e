"""The hour's points are rates of what the metrics counted."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from gateway.engine.metrics import EngineMetrics
from gateway.monitoring.activity import POINTS_MAX, Activity
from gateway.monitoring.metrics_reading import quantile_ms
from gateway.telemetry.metrics import Metrics
from tests.support.clocks import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_points_are_rates(clock: ManualClock) -> None:
    """Of the time between two points, whatever was counted before the first."""
    registry = CollectorRegistry()
    metrics = EngineMetrics(registry)
    metrics.appended_records.inc(1_000_000)
    activity = Activity(registry, clock)
    metrics.appended_records.inc(500)
    metrics.flush_bytes.observe(2_000)
    metrics.read_records.labels("memory").inc(30)
    metrics.read_records.labels("store").inc(20)
    clock.pass_ms(10_000)
    activity.take_point()
    clock.pass_ms(20_000)
    activity.take_point()
    first, second = activity.points
    assert (first.produced_records, first.produced_bytes, first.fetched_records) == (50, 200, 5)
    assert (second.produced_records, second.produced_bytes, second.fetched_records) == (0, 0, 0)
    assert second.at_ms - first.at_ms == 20_000


def test_the_bytes_sent_are_those_of_http(clock: ManualClock) -> None:
    """They are counted beside the engine's metrics."""
    metrics = Metrics()
    activity = Activity(metrics.registry, clock)
    metrics.begin_request()
    metrics.end_request(method="GET", route="/", status=200, seconds=0.1, received_bytes=1, sent_bytes=7_000)
    clock.pass_ms(10_000)
    activity.take_point()
    assert activity.points[0].sent_bytes == 700


def test_latencies_are_of_the_time_between(clock: ManualClock) -> None:
    """A slow hour before does not show in a point, and a point without commits has none."""
    registry = CollectorRegistry()
    metrics = EngineMetrics(registry)
    for _ in range(1_000):
        metrics.commit_seconds.observe(20)
    activity = Activity(registry, clock)
    for _ in range(100):
        metrics.commit_seconds.observe(0.02)
    clock.pass_ms(10_000)
    activity.take_point()
    clock.pass_ms(10_000)
    activity.take_point()
    busy, idle = activity.points
    assert busy.commit_p50_ms is not None
    assert 10 <= busy.commit_p50_ms <= 25
    assert busy.commit_p99_ms is not None
    assert busy.commit_p99_ms <= 25
    assert (idle.commit_p50_ms, idle.commit_p99_ms) == (None, None)


def test_it_keeps_an_hour(clock: ManualClock) -> None:
    """However long the gateway runs; and a clock that goes back makes no point."""
    activity = Activity(CollectorRegistry(), clock)
    for _ in range(POINTS_MAX + 50):
        clock.pass_ms(10_000)
        activity.take_point()
    assert len(activity.points) == POINTS_MAX
    newest = activity.points[-1]
    clock.pass_ms(-3_600_000)
    activity.take_point()
    assert activity.points[-1] == newest


@pytest.mark.parametrize(
    ("counts", "share", "expected_ms"),
    [
        ([(0.1, 0.0), (0.5, 0.0), (float("inf"), 0.0)], 0.5, None),
        ([(0.1, 10.0), (0.5, 10.0), (float("inf"), 10.0)], 0.5, 50),
        ([(0.1, 0.0), (0.5, 4.0), (float("inf"), 4.0)], 0.5, 300),
        ([(0.1, 0.0), (0.5, 0.0), (float("inf"), 3.0)], 0.99, 500),
        ([], 0.5, None),
    ],
)
def test_quantiles(counts: list[tuple[float, float]], share: float, expected_ms: float | None) -> None:
    """Within a bucket observations lie evenly; what is beyond the last bound counts as that bound."""
    found = quantile_ms((), tuple(counts), share)
    assert found == (None if expected_ms is None else pytest.approx(expected_ms))
