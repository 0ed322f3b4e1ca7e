"""Models sent by ``Producer`` and read by ``Consumer``, and their asyncio twins, over the in-process gateway."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import threading
from decimal import Decimal

import fastavro
import msgspec
import pytest

import tidelog.aio
from tests.support.fake_gateway import Exchange, FakeGateway
from tidelog import Consumer, Producer, Record
from tidelog.errors import IncompatibleSchema
from tidelog.schemas.framed import Undecodable

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}
DONE = {"id": 7, "version": 1}


@dataclasses.dataclass(frozen=True)
class Order:
    """What the tests send."""

    id: int
    amount: Decimal


ORDER = Order(1, Decimal("3.50"))
DOCUMENT = b'{"id":1,"amount":"3.50"}'


def framed(schema_id: int, body: bytes) -> bytes:
    """A value with Confluent's header."""
    return b"\0" + schema_id.to_bytes(4, "big") + body


def avro(order: Order) -> bytes:
    """An Avro value of the order."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, dataclasses.asdict(order))
    return out.getvalue()


async def asked_for(gateway: FakeGateway) -> None:
    """Wait, in the event loop, until the registry is asked: nothing blocks the loop then."""
    while gateway.count("/registry") == 0:  # noqa: ASYNC110 - the gateway is of threads
        await asyncio.sleep(0.001)


def fill(gateway: FakeGateway, *values: bytes | None) -> None:
    """Make a topic with these values."""
    topic = gateway.create("t")
    topic.records[0] = [Record("t", 0, at, at, None, value) for at, value in enumerate(values)]


def test_a_model_is_sent_as_a_json_document(gateway: FakeGateway) -> None:
    """Of any kind, beside bytes, text and null; nothing is registered unless that is asked for."""
    gateway.create("t")
    struct = msgspec.defstruct("Struct", [("id", int)])
    with Producer(gateway.url) as producer:
        for value in (ORDER, struct(2), b"raw", "text", None, bytearray(b"array")):
            producer.send("t", value)
    assert gateway.values("t") == [[DOCUMENT, b'{"id":2}', b"raw", b"text", None, b"array"]]
    assert gateway.count("/registry") == 0
    with (
        Producer(gateway.url) as producer,
        pytest.raises(TypeError, match="a value is bytes, text, a model or None, not dict"),
    ):
        producer.send("t", {"id": 1})


def test_a_serializer_gets_the_model_itself(gateway: FakeGateway) -> None:
    """Who gives one decides about every value."""
    gateway.create("t")
    with Producer(gateway.url, value_serializer=lambda order: str(order.id)) as producer:
        producer.send("t", ORDER)
    assert gateway.values("t") == [[b"1"]]
    with pytest.raises(ValueError, match="register is for models"):
        Producer(gateway.url, value_serializer=str, register=True)


def test_a_model_is_registered_once_for_each_topic(gateway: FakeGateway) -> None:
    """Before its first record, as the topic's values; a refusal is raised by send, and nothing is stored."""
    gateway.create("t")
    gateway.create("u")
    gateway.will_answer("POST /registry/subjects/t-value/versions", DONE)
    gateway.will_answer("POST /registry/subjects/u-value/versions", {"error_code": 409, "message": "no: /id"}, 409)
    with Producer(gateway.url, register=True) as producer:
        producer.send("t", ORDER).result()
        producer.send("t", ORDER).result()
        producer.send("t", "text").result()
        with pytest.raises(IncompatibleSchema, match="no: /id"):
            producer.send("u", ORDER)
    registered = [asked for asked in gateway.asked if asked.path.startswith("/registry")]
    assert [asked.path for asked in registered] == [f"/registry/subjects/{topic}-value/versions" for topic in "tu"]
    body = json.loads(registered[0].body)
    assert body["schemaType"] == "JSON"
    assert set(json.loads(body["schema"])["properties"]) == {"id", "amount"}
    assert gateway.values("u") == [[]]
    assert len(gateway.values("t")[0]) == 3


def test_the_twin_registers_without_blocking_the_loop(gateway: FakeGateway) -> None:
    """While the registry does not answer, other tasks run."""
    gateway.create("t")
    go = threading.Event()

    def answer_late(exchange: Exchange) -> None:
        assert go.wait(10)
        exchange.answer(200, json.dumps(DONE).encode(), {"Content-Type": "application/json"})

    gateway.misbehave("POST /registry", answer_late)

    async def main() -> None:
        async with tidelog.aio.Producer(gateway.url, register=True) as producer:
            sending = asyncio.create_task(producer.send("t", ORDER))
            await asked_for(gateway)
            go.set()
            await (await sending)

    asyncio.run(main())
    assert gateway.values("t") == [[DOCUMENT]]


def test_values_are_models(gateway: FakeGateway) -> None:
    """JSON documents, values with Confluent's header of JSON and of Avro, and null; each schema is asked for once."""
    fill(
        gateway,
        DOCUMENT,
        framed(1, DOCUMENT),
        framed(2, avro(ORDER)),
        None,
        framed(2, avro(ORDER)),
        framed(1, DOCUMENT),
    )
    gateway.will_answer("GET /registry/schemas/ids/1", {"schema": "{}", "schemaType": "JSON"})
    gateway.will_answer("GET /registry/schemas/ids/2", {"schema": json.dumps(AVRO)})
    with Consumer("t", value=Order, bootstrap_servers=gateway.url) as consumer:
        assert [record.value for record in consumer.poll()] == [ORDER, ORDER, ORDER, None, ORDER, ORDER]
    assert gateway.count("/registry") == 2
    with pytest.raises(ValueError, match="exclude each other"):
        Consumer("t", value=Order, value_deserializer=bytes, bootstrap_servers=gateway.url)
    with pytest.raises(TypeError, match="not <class 'dict'>"):
        Consumer("t", value=dict, bootstrap_servers=gateway.url)


@pytest.mark.parametrize(
    ("value", "schema", "error", "message"),
    [
        (b'{"id":"one","amount":"1"}', None, msgspec.ValidationError, r"\$.id"),
        (b"{", None, msgspec.DecodeError, "truncated"),
        (framed(3, b""), {"schema": "message M {}", "schemaType": "PROTOBUF"}, Undecodable, "is not of its schema 3"),
        (framed(3, b"\0"), {"schema": "message M", "schemaType": "PROTOBUF"}, Undecodable, "schema 3 can't be used"),
        (framed(3, b"\x02"), {"schema": json.dumps(AVRO)}, Undecodable, "is not of its schema 3"),
        (framed(3, b"\x02"), {"schema": '{"type": "nothing"}'}, Undecodable, "schema 3 can't be used"),
        (
            framed(3, b"\x02"),
            {"schema": json.dumps({**AVRO, "fields": []})},
            msgspec.ValidationError,
            "missing required",
        ),
    ],
)
def test_a_value_that_is_none_is_named_and_can_be_skipped(
    gateway: FakeGateway, value: bytes, schema: dict[str, str] | None, error: type[Exception], message: str
) -> None:
    """The error names the record; the position stays before it, and records before it are handed out."""
    fill(gateway, DOCUMENT, value, DOCUMENT)
    gateway.will_answer("GET /registry", schema)
    with Consumer("t", value=Order, bootstrap_servers=gateway.url) as consumer:
        assert [record.offset for record in consumer.poll()] == [0]
        with pytest.raises(error, match=message) as raised:
            consumer.poll()
        assert raised.value.__notes__ == ["deserializing t/0 at offset 1"]
        (place,) = consumer.assignment()
        consumer.seek(place, 2)
        assert [record.value for record in consumer.poll()] == [ORDER]


def test_a_schema_that_refers_to_others_is_read_with_them(gateway: FakeGateway) -> None:
    """Each referred schema is asked for before the one that needs it."""
    cart = {"type": "record", "name": "Cart", "fields": [{"name": "order", "type": "Order"}]}
    fill(gateway, framed(4, avro(ORDER)))
    reference = {"name": "Order", "subject": "o", "version": 1}
    gateway.will_answer("GET /registry/schemas/ids/4", {"schema": json.dumps(cart), "references": [reference]})
    version = {"subject": "o", "version": 1, "id": 3, "schema": json.dumps(AVRO)}
    gateway.will_answer("GET /registry/subjects/o/versions/1", version)
    made = dataclasses.make_dataclass("Cart", [("order", Order)])
    with Consumer("t", value=made, bootstrap_servers=gateway.url) as consumer:
        assert [record.value for record in consumer.poll()] == [made(ORDER)]


def test_the_twin_asks_for_schemas_without_blocking_the_loop(gateway: FakeGateway) -> None:
    """While the registry does not answer, other tasks run; no record is lost or handed out twice."""
    fill(gateway, DOCUMENT, framed(2, avro(ORDER)), DOCUMENT)
    go = threading.Event()

    def answer_late(exchange: Exchange) -> None:
        assert go.wait(10)
        exchange.answer(200, json.dumps({"schema": json.dumps(AVRO)}).encode(), {"Content-Type": "application/json"})

    gateway.misbehave("GET /registry", answer_late)

    async def main() -> list[object]:
        async with tidelog.aio.Consumer("t", value=Order, bootstrap_servers=gateway.url) as consumer:
            values = [record.value for record in await consumer.poll()]
            polling = asyncio.create_task(consumer.poll())
            await asked_for(gateway)
            go.set()
            return values + [record.value for record in await polling]

    assert asyncio.run(main()) == [ORDER] * 3
