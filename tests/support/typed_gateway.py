"""A gateway whose topics have schemas, and what its users do: HTTP, a Kafka client, a Delta reader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from confluent_kafka import KafkaError, Producer
from deltalake import DeltaTable

from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.registry import Registry


class TypedGateway:
    """A gateway with a registry and a listener for Kafka's clients."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self.gateway = gateway
        self.http = httpx.Client(base_url=gateway.url, timeout=60, trust_env=False)
        self.registry = Registry(f"{gateway.url}/registry")

    def create(self, topic: str, **config: str) -> None:
        """Create a topic with these settings; names have underscores for dots."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        answer = self.http.post("/v1/topics", json={"name": topic, "config": settings})
        assert answer.status_code == 201, answer.text

    def produce(self, topic: str, *values: Any) -> httpx.Response:
        """Append JSON values in one request."""
        return self.http.post(f"/v1/topics/{topic}/records", json={"records": [{"value": value} for value in values]})

    def sent(self, topic: str, *values: bytes | None) -> list[KafkaError | None]:
        """Send each value by a Kafka client, one after the other; the error of each."""
        producer = Producer({"bootstrap.servers": self.gateway.kafka})
        found: list[KafkaError | None] = []
        for value in values:
            producer.produce(topic, value, on_delivery=lambda error, _: found.append(error))
            assert producer.flush(30) == 0
        return found

    def table(self, topic: str) -> pa.Table:
        """The topic's table as a Delta reader reads it, by offset."""
        return DeltaTable(f"{self.gateway.store}/topics/{topic}").to_pyarrow_table().sort_by("offset")

    def close(self) -> None:
        """Close the connections."""
        self.http.close()
        self.registry.close()


@contextmanager
def typed_gateway(folder: Path) -> Iterator[TypedGateway]:
    """Run a gateway on a directory; each test takes its own topic and subject."""
    with kafka_gateway(folder / "store", folder / "log") as gateway:
        made = TypedGateway(gateway)
        yield made
        made.close()
