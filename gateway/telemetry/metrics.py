"""Prometheus metrics with bounded labels: HTTP methods, route templates, statuses; never a path or a client.

Topics and groups are labels only for the groups with the largest lag (``gateway.groups.offsets.lag_watch``). The registry is
the gateway's own, so that two gateways in one process (tests) do not meet. The engine registers its metrics in
``Metrics.registry``. Requests are counted in plain numbers, which a scrape turns into metrics: the client library's counters
would take a tenth of a small request's time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from gateway.telemetry.histograms import PlainHistogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
UNMATCHED: Final = "unmatched"
"""Route label of requests that matched no route."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class _Requests(Collector):
    """Observations of requests."""

    def __init__(self) -> None:
        self.answered: dict[tuple[str, str, int], int] = {}
        self.seconds: dict[tuple[str, str], PlainHistogram] = {}
        self.received_bytes = 0
        self.sent_bytes = 0
        self.in_flight_count = 0

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics by name, so that some can be read without the others."""
        yield CounterMetricFamily("tidelog_http_sent_bytes", "Bytes of HTTP answer bodies, as sent.")

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        answered = CounterMetricFamily(
            "tidelog_http_requests", "HTTP requests answered.", labels=("method", "route", "status")
        )
        for (method, route, status), count in self.answered.items():
            answered.add_metric((method, route, str(status)), count)
        yield answered
        seconds = HistogramMetricFamily(
            "tidelog_http_request_seconds",
            "Seconds from a request's head to the last byte passed to the connection.",
            labels=("method", "route"),
        )
        for key, observed in self.seconds.items():
            observed.add_to(seconds, key)
        yield seconds
        yield CounterMetricFamily(
            "tidelog_http_received_bytes", "Bytes of HTTP request bodies, as received.", self.received_bytes
        )
        yield CounterMetricFamily("tidelog_http_sent_bytes", "Bytes of HTTP answer bodies, as sent.", self.sent_bytes)
        yield GaugeMetricFamily(
            "tidelog_http_requests_in_flight", "HTTP requests not yet answered.", self.in_flight_count
        )
        yield GaugeMetricFamily(
            "tidelog_arrow_bytes", "Bytes of memory allocated by Arrow.", pa.total_allocated_bytes()
        )


class Metrics:
    """The gateway's metrics of HTTP, and the registry to which the engine adds its own metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        # Interpreters other than CPython have no such collector.
        with contextlib.suppress(ValueError):
            GCCollector(registry=self.registry)
        self._requests = _Requests()
        self.registry.register(self._requests)
        self.connections = Gauge("tidelog_http_connections", "Open client connections.", registry=self.registry)
        self.request_memory = Gauge(
            "tidelog_request_memory_bytes", "Bytes of memory reserved for request bodies.", registry=self.registry
        )
        self.answer_memory = Gauge(
            "tidelog_answer_memory_bytes", "Bytes of memory reserved for answers.", registry=self.registry
        )

    def begin_request(self) -> None:
        """Count a request as in flight."""
        self._requests.in_flight_count += 1

    def end_request(
        self, *, method: str, route: str | None, status: int, seconds: float, received_bytes: int, sent_bytes: int
    ) -> None:
        """Count a request as answered. ``route`` is a template; None: it matched no route."""
        requests = self._requests
        requests.in_flight_count -= 1
        key = (method if method in _METHODS else "other", route or UNMATCHED)
        answered = (*key, status)
        requests.answered[answered] = requests.answered.get(answered, 0) + 1
        observed = requests.seconds.get(key)
        if observed is None:
            observed = requests.seconds[key] = PlainHistogram()
        observed.observe(seconds)
        requests.received_bytes += received_bytes
        requests.sent_bytes += sent_bytes

    def exposition(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        return generate_latest(self.registry)
