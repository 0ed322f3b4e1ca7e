"""A gateway whose topics have schemas, and what its users do: HTTP, a Kafka client, a Delta reader."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from confluent_kafka import KafkaError, Producer
from deltalake import DeltaTable

from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.registry import Registry

ARROW = "application/vnd.apache.arrow.stream"


class TypedGateway:
    """A gateway with a registry and a listener for Kafka's clients."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self.gateway = gateway
        self.http = httpx.Client(base_url=gateway.url, timeout=60, trust_env=False)
        self.registry = Registry(f"{gateway.url}/registry")

    def create(self, topic: str, *, partition_count: int = 1, **config: Any) -> None:
        """Create a topic with these settings; names have underscores for dots."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        body = {"name": topic, "partition_count": partition_count, "config": settings}
        answer = self.http.post("/v1/topics", json=body)
        assert answer.status_code == 201, answer.text

    def produce(self, topic: str, *values: Any) -> httpx.Response:
        """Append JSON values in one request."""
        return self.http.post(f"/v1/topics/{topic}/records", json={"records": [{"value": value} for value in values]})

    def produce_bytes(self, topic: str, values: Sequence[bytes]) -> None:
        """Append values as they are, in one request."""
        body = {"records": [{"value_base64": base64.b64encode(value).decode()} for value in values]}
        answer = self.http.post(f"/v1/topics/{topic}/records", json=body)
        assert answer.status_code == 200, answer.text

    def columns(self, topic: str, columns: Mapping[str, Any] | pa.Table, **headers: str) -> httpx.Response:
        """Append an Arrow table, whose column ``data`` has the members of the values."""
        table = columns if isinstance(columns, pa.Table) else pa.table(dict(columns))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        body = sink.getvalue().to_pybytes()
        return self.http.post(f"/v1/topics/{topic}/records", content=body, headers={"Content-Type": ARROW, **headers})

    def values(self, topic: str, **query: Any) -> list[str | None]:
        """The values of the topic's records by HTTP, which are texts."""
        answer = self.http.get(f"/v1/topics/{topic}/partitions/0/records", params={"offset": 0} | query)
        assert answer.status_code == 200, answer.text
        return [one["value"] for one in answer.json()["records"]]

    def documents(self, topic: str) -> list[Any]:
        """The values of the topic's records by HTTP, as JSON has them."""
        return [None if text is None else json.loads(text) for text in self.values(topic)]

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
        return self._delta(topic).to_pyarrow_table().sort_by("offset")

    def files(self, topic: str) -> list[str]:
        """The files of the topic's table."""
        return self._delta(topic).file_uris()

    def _delta(self, topic: str) -> DeltaTable:
        return DeltaTable(f"{self.gateway.store}/topics/{topic}")

    def close(self) -> None:
        """Close the connections."""
        self.http.close()
        self.registry.close()


@contextmanager
def typed_on(gateway: KafkaGateway) -> Iterator[TypedGateway]:
    """What its users do on a gateway that runs."""
    made = TypedGateway(gateway)
    yield made
    made.close()


@contextmanager
def typed_gateway(folder: Path) -> Iterator[TypedGateway]:
    """Run a gateway on a directory; each test takes its own topic and subject."""
    with kafka_gateway(folder / "store", folder / "log") as gateway, typed_on(gateway) as made:
        yield made
