"""Prometheus metrics of the Kafka listener. Labels are the names of API keys; an unserved key is ``other``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kio.schema.index import api_key_map
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.telemetry.histograms import PlainHistogram

OTHER: Final = "other"
_API: Final = ("api",)


class ApiMetrics:
    """What is counted of one API key: plain numbers, as of HTTP's requests."""

    __slots__ = ("received_bytes", "requests", "seconds", "sent_bytes")

    def __init__(self) -> None:
        self.requests = self.received_bytes = self.sent_bytes = 0
        self.seconds = PlainHistogram()


class _Requests(Collector):
    """The metrics of all API keys that were asked for."""

    def __init__(self) -> None:
        self.of_key: dict[int, ApiMetrics] = {}

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics by name, so that others can be read without them."""
        yield from _families()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        requests, received, sent, seconds = _families()
        for key, found in self.of_key.items():
            labels = (api_name(key, served=True),)
            requests.add_metric(labels, found.requests)
            received.add_metric(labels, found.received_bytes)
            sent.add_metric(labels, found.sent_bytes)
            found.seconds.add_to(seconds, labels)
        yield from (requests, received, sent, seconds)


def _families() -> tuple[CounterMetricFamily, CounterMetricFamily, CounterMetricFamily, HistogramMetricFamily]:
    return (
        CounterMetricFamily("tidelog_kafka_requests", "Kafka requests answered.", labels=_API),
        CounterMetricFamily("tidelog_kafka_received_bytes", "Bytes of Kafka requests received.", labels=_API),
        CounterMetricFamily("tidelog_kafka_sent_bytes", "Bytes of Kafka answers sent.", labels=_API),
        HistogramMetricFamily(
            "tidelog_kafka_request_seconds", "Seconds from a Kafka request's last byte to its answer.", labels=_API
        ),
    )


class KafkaMetrics:
    """Metrics of the listener. The label ``api`` is the request's name, such as ``produce``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = _Requests()
        registry.register(self._requests)
        self.refused = Counter(
            "tidelog_kafka_connections_refused",
            "Kafka connections closed because of invalid input or too many connections, by reason.",
            ("reason",),
            registry=registry,
        )
        self.connections = Gauge("tidelog_kafka_connections", "Open Kafka connections.", registry=registry)

    def of(self, key: int) -> ApiMetrics:
        """Return the metrics of a served API key."""
        found = self._requests.of_key.get(key)
        if found is None:
            found = self._requests.of_key[key] = ApiMetrics()
        return found


def api_name(key: int, served: bool) -> str:
    """Return the label of an API key."""
    return api_key_map.get(key, OTHER) if served else OTHER
