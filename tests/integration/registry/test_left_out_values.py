"""Topics with value.keep=false: values that their columns say are not stored, and every reader gets them all the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer as KafkaProducer

from tests.support.registry import record
from tests.support.typed_gateway import ARROW, TypedGateway, typed_gateway

ORDER = record("Order", id="long", amount="double", note=(["null", "string"], None))
OPEN = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}, "n": {"type": ["null", "number"]}}})


def create(kept: TypedGateway, topic: str, schema: str, **config: Any) -> None:
    """Create a topic of a schema that leaves values out."""
    kept.registry.register(f"{topic}-value", schema, schemaType="AVRO" if '"fields"' in schema else "JSON")
    kept.create(topic, value_schema=f"{topic}-value", value_keep="false", **config)


def send(kept: TypedGateway, topic: str, rows: list[Any]) -> None:
    """Append rows as columns."""
    answer = kept.columns(topic, {"data": pa.array(rows)})
    assert answer.status_code == 200, answer.text


def produce(kept: TypedGateway, topic: str, *documents: str) -> None:
    """Append JSON documents as they are written."""
    records = ",".join(f'{{"value":{document}}}' for document in documents)
    body, kind = f'{{"records":[{records}]}}', {"Content-Type": "application/json"}
    answer = kept.http.post(f"/v1/topics/{topic}/records", content=body, headers=kind)
    assert answer.status_code == 200, answer.text


def stored_in(kept: TypedGateway, topic: str) -> list[bytes | None]:
    """What the topic's table has as values."""
    found: list[bytes | None] = kept.table(topic).column("value").to_pylist()
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TypedGateway]:
    """One gateway for all tests here; each has its own topic and subject."""
    with typed_gateway(tmp_path_factory.mktemp("kept")) as made:
        yield made


def test_a_document_that_columns_dont_say_keeps_its_bytes(kept: TypedGateway) -> None:
    """Explicit nulls, members without a column, and values of Kafka's clients are stored; others are not."""
    create(kept, "documents", OPEN)
    documents = ['{"id": 1}', '{"n":2,"id":2}', '{"id":3,"n":null}', '{"id":4,"more":1}', '{"more":"\\":","id":5}']
    produce(kept, "documents", *documents)
    for number in range(20):
        produce(kept, "documents", *[f'{{"id": {number}}}'] * 2)
    producer = KafkaProducer({"bootstrap.servers": kept.gateway.kafka})
    producer.produce("documents", b'{"id": 7}')
    assert producer.flush(30) == 0
    stored = stored_in(kept, "documents")
    assert [one is None for one in stored] == [True, True, False, False, False, *[True] * 40, False]
    values = kept.values("documents", max_records=1_000)
    assert [json.loads(one or "") for one in values[:5]] == [json.loads(one) for one in documents]
    assert values[0] == '{"id":1}'
    assert values[-1] == '{"id": 7}'


def test_limits_count_what_is_read(kept: TypedGateway) -> None:
    """A fetch's bytes are those of the documents, and a document that is too large is refused."""
    create(kept, "limits", ORDER, max_message_bytes="200")
    rows = [{"id": number, "amount": 0.5, "note": "x" * 50} for number in range(100)]
    send(kept, "limits", rows)
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


def test_the_setting_needs_a_schema(kept: TypedGateway) -> None:
    """Without columns nothing would stand for the values."""
    answer = kept.http.post("/v1/topics", json={"name": "bare", "config": {"value.keep": "false"}})
    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_CONFIG")
    create(kept, "taken", ORDER)
    answer = kept.http.patch("/v1/topics/taken", json={"config": {"value.schema": None}})
    assert answer.status_code == 400
    send(kept, "taken", [{"id": 1, "amount": 1.0}])
    config = {"value.schema": None, "value.keep": None}
    assert kept.http.patch("/v1/topics/taken", json={"config": config}).status_code == 200
    produce(kept, "taken", '"anything"')
    assert kept.values("taken") == ['{"id":1,"amount":1}', "anything"]


def test_a_wider_table_changes_no_document(kept: TypedGateway) -> None:
    """A new member of the schema is not in documents of before."""
    create(kept, "wider", ORDER)
    send(kept, "wider", [{"id": 1, "amount": 1.0}])
    before = kept.values("wider")
    kept.registry.register(
        "wider-value",
        record("Order", id="long", amount="double", note=(["null", "string"], None), more=(["null", "int"], None)),
    )
    send(kept, "wider", [{"id": 2, "amount": 1.0, "more": 5}])
    assert kept.values("wider") == [*before, '{"id":2,"amount":1,"more":5}']
