"""Topics with value.keep=false: values that their columns say are not stored, and every reader gets them all the same."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import Producer as KafkaProducer
from deltalake import DeltaTable

from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.registry import Registry, record
from tidelog import Consumer

ARROW = "application/vnd.apache.arrow.stream"
ORDER = record("Order", id="long", amount="double", note=(["null", "string"], None))
OPEN = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}, "n": {"type": ["null", "number"]}}})


class Kept:
    """A gateway, and topics that leave values out."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self.gateway = gateway
        self.http = httpx.Client(base_url=gateway.url, timeout=60, trust_env=False)
        self.registry = Registry(f"{gateway.url}/registry")

    def create(self, topic: str, schema: str, **config: str) -> None:
        """Create a topic of a schema that leaves values out."""
        self.registry.register(f"{topic}-value", schema, schemaType="AVRO" if '"fields"' in schema else "JSON")
        settings = {"value.schema": f"{topic}-value", "value.keep": "false"}
        settings |= {name.replace("_", "."): one for name, one in config.items()}
        body = {"name": topic, "partition_count": 1, "config": settings}
        answer = self.http.post("/v1/topics", json=body)
        assert answer.status_code == 201, answer.text

    def send(self, topic: str, rows: list[Any], keys: list[str] | None = None) -> None:
        """Append rows as columns."""
        columns: dict[str, Any] = {"data": pa.array(rows)} | ({} if keys is None else {"key": keys})
        table = pa.table(columns)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        answer = self.http.post(
            f"/v1/topics/{topic}/records", content=sink.getvalue().to_pybytes(), headers={"Content-Type": ARROW}
        )
        assert answer.status_code == 200, answer.text

    def produce(self, topic: str, *documents: str) -> None:
        """Append JSON documents as they are written."""
        records = ",".join(f'{{"value":{document}}}' for document in documents)
        answer = self.http.post(
            f"/v1/topics/{topic}/records",
            content=f'{{"records":[{records}]}}',
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code == 200, answer.text

    def values(self, topic: str, **query: Any) -> list[str | None]:
        """The values of the topic's records by HTTP."""
        answer = self.http.get(f"/v1/topics/{topic}/partitions/0/records", params={"offset": 0} | query)
        assert answer.status_code == 200, answer.text
        return [one["value"] for one in answer.json()["records"]]

    def kafka_values(self, topic: str, count: int) -> list[bytes | None]:
        """The values that a Kafka client gets."""
        settings = {"bootstrap.servers": self.gateway.kafka, "group.id": topic, "auto.offset.reset": "earliest"}
        consumer = KafkaConsumer(settings)
        consumer.subscribe([topic])
        found: list[bytes | None] = []
        until = time.monotonic() + 60
        while len(found) < count and time.monotonic() < until:
            message = consumer.poll(1)
            if message is not None:
                assert message.error() is None
                found.append(message.value())
        consumer.close()
        return found

    def stored(self, topic: str) -> list[bytes | None]:
        """What the topic's table has as values."""
        table = DeltaTable(f"{self.gateway.store}/topics/{topic}").to_pyarrow_table().sort_by("offset")
        found: list[bytes | None] = table.column("value").to_pylist()
        return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """One gateway for all tests here; each has its own topic and subject."""
    folder = tmp_path_factory.mktemp("kept")
    with kafka_gateway(folder / "store", folder / "log") as gateway:
        made = Kept(gateway)
        yield made
        made.http.close()
        made.registry.close()


def test_columns_stand_for_values(kept: Kept) -> None:
    """By HTTP, from memory and from segments, by Kafka's protocol and by the SDK each value is the same document."""
    kept.create("columns", ORDER)
    kept.send("columns", [{"id": 1, "amount": 1.5, "note": "a"}, {"id": 2, "amount": 2.0, "note": None}, None])
    wanted = ['{"id":1,"amount":1.5,"note":"a"}', '{"id":2,"amount":2}', None]
    assert kept.stored("columns") == [None, None, None]
    assert kept.values("columns") == wanted
    assert kept.kafka_values("columns", 3) == [None if value is None else value.encode() for value in wanted]
    with Consumer("columns", bootstrap_servers=kept.gateway.url, consumer_timeout_ms=2_000) as consumer:
        assert [record.value for record in consumer] == [None if one is None else one.encode() for one in wanted]
    statement = 'select value, data.id from columns order by "offset"'
    rows = kept.http.post("/v1/sql", json={"sql": statement}).text
    assert wanted[0] is not None
    assert json.dumps(wanted[0])[1:-1] in rows
    kept.gateway.end()
    kept.gateway.start()
    assert kept.values("columns") == wanted


def test_a_document_that_columns_dont_say_keeps_its_bytes(kept: Kept) -> None:
    """Explicit nulls, members without a column, and values of Kafka's clients are stored; others are not."""
    kept.create("documents", OPEN)
    documents = ['{"id": 1}', '{"n":2,"id":2}', '{"id":3,"n":null}', '{"id":4,"more":1}', '{"more":"\\":","id":5}']
    kept.produce("documents", *documents)
    for number in range(20):
        kept.produce("documents", *[f'{{"id": {number}}}'] * 2)
    producer = KafkaProducer({"bootstrap.servers": kept.gateway.kafka})
    producer.produce("documents", b'{"id": 7}')
    assert producer.flush(30) == 0
    stored = kept.stored("documents")
    assert [one is None for one in stored] == [True, True, False, False, False, *[True] * 40, False]
    values = kept.values("documents", max_records=1_000)
    assert [json.loads(one or "") for one in values[:5]] == [json.loads(one) for one in documents]
    assert values[0] == '{"id":1}'
    assert values[-1] == '{"id": 7}'


def test_marked_values_are_kept(kept: Kept) -> None:
    """What has no columns has its bytes."""
    kept.create("marked", ORDER, data_on_error="mark")
    kept.produce("marked", '{"id": 1, "amount": 1.0}', '{"id": "x"}')
    assert kept.stored("marked") == [None, b'{"id":"x"}']
    assert kept.values("marked") == ['{"id":1,"amount":1}', '{"id":"x"}']


def test_limits_count_what_is_read(kept: Kept) -> None:
    """A fetch's bytes are those of the documents, and a document that is too large is refused."""
    kept.create("limits", ORDER, max_message_bytes="200")
    rows = [{"id": number, "amount": 0.5, "note": "x" * 50} for number in range(100)]
    kept.send("limits", rows)
    one = len('{"id":10,"amount":0.5,"note":""}') + 50
    answer = kept.http.get("/v1/topics/limits/partitions/0/records", params={"offset": 10, "max_bytes": 5 * one})
    assert len(answer.json()["records"]) == 5
    sink = pa.BufferOutputStream()
    table = pa.table({"data": pa.array([{"id": 1, "amount": 0.5, "note": "x" * 200}])})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body = sink.getvalue().to_pybytes()
    refused = kept.http.post("/v1/topics/limits/records", content=body, headers={"Content-Type": ARROW})
    assert (refused.status_code, refused.json()["error_code"]) == (413, "RECORD_TOO_LARGE")


def test_the_setting_needs_a_schema(kept: Kept) -> None:
    """Without columns nothing would stand for the values."""
    answer = kept.http.post("/v1/topics", json={"name": "bare", "config": {"value.keep": "false"}})
    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_CONFIG")
    kept.create("taken", ORDER)
    answer = kept.http.patch("/v1/topics/taken", json={"config": {"value.schema": None}})
    assert answer.status_code == 400
    kept.send("taken", [{"id": 1, "amount": 1.0}])
    config = {"value.schema": None, "value.keep": None}
    assert kept.http.patch("/v1/topics/taken", json={"config": config}).status_code == 200
    kept.produce("taken", '"anything"')
    assert kept.values("taken") == ['{"id":1,"amount":1}', "anything"]


def test_a_wider_table_changes_no_document(kept: Kept) -> None:
    """A new member of the schema is not in documents of before."""
    kept.create("wider", ORDER)
    kept.send("wider", [{"id": 1, "amount": 1.0}])
    before = kept.values("wider")
    kept.registry.register(
        "wider-value",
        record("Order", id="long", amount="double", note=(["null", "string"], None), more=(["null", "int"], None)),
    )
    kept.send("wider", [{"id": 2, "amount": 1.0, "more": 5}])
    assert kept.values("wider") == [*before, '{"id":2,"amount":1,"more":5}']
