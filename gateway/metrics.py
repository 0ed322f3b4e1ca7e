"""Prometheus metrics, with bounded labels: methods of HTTP, route templates, statuses; never a path, topic or client.

The registry is the gateway's own, so that two in one process (tests) do not meet. The engine registers its own metrics in
``Metrics.registry``.
"""

from __future__ import annotations

import contextlib
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
UNMATCHED: Final = "unmatched"
"""The route label of requests that no route took."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The gateway's metrics of HTTP, and the registry that the engine adds its own to."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        # A second registration in one process would fail on some platforms only; the collector is a nicety.
        with contextlib.suppress(ValueError):
            GCCollector(registry=self.registry)
        labels = ("method", "route", "status")
        self._requests = Counter("tidelog_http_requests", "Requests answered.", labels, registry=self.registry)
        self._seconds = Histogram(
            "tidelog_http_request_seconds",
            "From the request's headers to the last byte handed to the connection.",
            ("method", "route"),
            buckets=_SECONDS_BUCKETS,
            registry=self.registry,
        )
        self._received = Counter("tidelog_http_received_bytes", "Request bodies, as received.", registry=self.registry)
        self._sent = Counter("tidelog_http_sent_bytes", "Answer bodies, as sent.", registry=self.registry)
        self.in_flight = Gauge("tidelog_http_requests_in_flight", "Requests not yet answered.", registry=self.registry)
        self.connections = Gauge("tidelog_http_connections", "Open client connections.", registry=self.registry)
        self.request_memory = Gauge(
            "tidelog_request_memory_bytes", "Reserved for request bodies.", registry=self.registry
        )
        self.answer_memory = Gauge("tidelog_answer_memory_bytes", "Reserved for answers.", registry=self.registry)
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def observe(
        self, *, method: str, route: str | None, status: int, seconds: float, received_bytes: int, sent_bytes: int
    ) -> None:
        """Count one answered request. ``route`` is a template; None: no route took it."""
        key = (method, route or UNMATCHED, status)
        children = self._children.get(key)
        if children is None:
            name = method if method in _METHODS else "other"
            children = (
                self._requests.labels(name, key[1], str(status)),
                self._seconds.labels(name, key[1]),
            )
            self._children[key] = children
        children[0].inc()
        children[1].observe(seconds)
        if received_bytes:
            self._received.inc(received_bytes)
        if sent_bytes:
            self._sent.inc(sent_bytes)

    def exposition(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)
