"""Prometheus metrics of the Kafka listener. Labels are the names of API keys; an unserved key is ``other``."""

from __future__ import annotations

from typing import Final, NamedTuple

from kio.schema.index import api_key_map
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gateway.telemetry.histograms import SECONDS_BUCKETS

OTHER: Final = "other"


class ApiMetrics(NamedTuple):
    """Metrics of one API key."""

    requests: Counter
    seconds: Histogram
    received_bytes: Counter
    sent_bytes: Counter


class KafkaMetrics:
    """Metrics of the listener. The label ``api`` is the request's name, such as ``produce``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter("tidelog_kafka_requests", "Kafka requests answered.", ("api",), registry=registry)
        self.seconds = Histogram(
            "tidelog_kafka_request_seconds",
            "Seconds from a Kafka request's last byte to its answer.",
            ("api",),
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.received_bytes = Counter(
            "tidelog_kafka_received_bytes", "Bytes of Kafka requests received.", ("api",), registry=registry
        )
        self.sent_bytes = Counter(
            "tidelog_kafka_sent_bytes", "Bytes of Kafka answers sent.", ("api",), registry=registry
        )
        self.refused = Counter(
            "tidelog_kafka_connections_refused",
            "Kafka connections closed because of invalid input or too many connections, by reason.",
            ("reason",),
            registry=registry,
        )
        self.connections = Gauge("tidelog_kafka_connections", "Open Kafka connections.", registry=registry)
        self._of: dict[int, ApiMetrics] = {}

    def of(self, key: int) -> ApiMetrics:
        """Return the metrics of a served API key, which are looked up by name only once."""
        found = self._of.get(key)
        if found is None:
            name = api_name(key, served=True)
            found = self._of[key] = ApiMetrics(
                self.requests.labels(name),
                self.seconds.labels(name),
                self.received_bytes.labels(name),
                self.sent_bytes.labels(name),
            )
        return found


def api_name(key: int, served: bool) -> str:
    """Return the label of an API key."""
    return api_key_map.get(key, OTHER) if served else OTHER
