"""Topics typed by Protobuf: Confluent's serializer unchanged by Kafka's protocol, documents by HTTP, and columns in Delta."""

from __future__ import annotations

import contextlib
import io
import json
import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.timestamp_pb2 import Timestamp

from tests.support.typed_gateway import TypedGateway, typed_gateway

ORDER = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Order { int64 id = 1; double amount = 2; Kind kind = 3; google.protobuf.Timestamp at_time = 4; repeated string tags = 5;
  enum Kind { NEW = 0; PAID = 1; } }"""
LATER = ORDER.replace("repeated string tags = 5;", "repeated string tags = 5; optional string note = 6;")


def register(typed: TypedGateway, subject: str, schema: str) -> int:
    """Register a schema."""
    return typed.registry.register(subject, schema, schemaType="PROTOBUF")


def create(typed: TypedGateway, topic: str, **config: Any) -> None:
    """Create a topic whose values are of its subject."""
    typed.create(topic, **{"value_schema": f"{topic}-value", **config})


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TypedGateway]:
    """One gateway for all tests here; each has its own topic and subject."""
    with typed_gateway(tmp_path_factory.mktemp("protobuf")) as made:
        yield made


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses."""
    return f"t{secrets.token_hex(6)}"


def _class(name: str) -> Any:
    """A message class of a program: of a file that imports another one and Google's, and has messages within a message."""
    common = descriptor_pb2.FileDescriptorProto(name="tests/money.proto", package="tests.shop", syntax="proto3")
    money = common.message_type.add(name="Money")
    money.field.add(name="units", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    money.field.add(name="currency", number=2, type="TYPE_STRING", label="LABEL_OPTIONAL")
    file = descriptor_pb2.FileDescriptorProto(
        name="tests/shop.proto",
        package="tests.shop",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto", "tests/money.proto"],
    )
    space = file.message_type.add(name="Shop")
    space.nested_type.add(name="Line").field.add(name="sku", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    order = space.nested_type.add(name="Order")
    order.field.add(name="id", number=1, type="TYPE_UINT64", label="LABEL_OPTIONAL")
    for number, field, kind, label in (
        (2, "price", ".tests.shop.Money", "LABEL_OPTIONAL"),
        (3, "at", ".google.protobuf.Timestamp", "LABEL_OPTIONAL"),
        (4, "lines", ".tests.shop.Shop.Line", "LABEL_REPEATED"),
    ):
        order.field.add(name=field, number=number, type="TYPE_MESSAGE", type_name=kind, label=label)
    pool = descriptor_pool.Default()
    for each in (common, file):
        with contextlib.suppress(TypeError):  # it is there from an earlier test
            pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def test_confluents_serializer_with_references_and_nested_messages(typed: TypedGateway, topic: str) -> None:
    """Its values are stored as they are and are columns; its deserializer reads them again; damaged ones are refused alone."""
    kind = _class("tests.shop.Shop.Order")
    context = SerializationContext(topic, MessageField.VALUE)
    values = [
        kind(id=2**64 - 1, price={"units": 3, "currency": "EUR"}, at=Timestamp(seconds=4, nanos=5999)),
        kind(id=1, lines=[{"sku": "a"}, {"sku": "b"}]),
    ]
    with SchemaRegistryClient({"url": str(typed.registry.http.base_url)}) as client:
        serializer = ProtobufSerializer(kind, client)
        written = [serializer(value, context) for value in values]
        assert written[0][5:8] == b"\x04\x00\x02"
        create(typed, topic)
        first, second = written
        errors = typed.sent(
            topic, first, second, None, first[:-1], first + b"\0", first[:5], b"\0\0\0\xff\xff\0", first[:5] + b"\0"
        )
        codes = [None if error is None else error.code() for error in errors]
        assert codes == [None, None, None, *[KafkaError.INVALID_RECORD] * 5]
        table = typed.table(topic)
        assert table.column("value").to_pylist() == [first, second, None]
    with SchemaRegistryClient({"url": str(typed.registry.http.base_url)}) as client:
        read = ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)
        assert [read(value.as_py(), context) for value in table.column("value")[:2]] == values
    one, two, three = table.column("data").to_pylist()
    assert (int(one["id"]), one["price"], one["lines"]) == (2**64 - 1, {"units": 3, "currency": "EUR"}, [])
    assert one["at"].isoformat() == "1970-01-01T00:00:04.000005+00:00"
    assert (int(two["id"]), two["price"], two["at"], two["lines"]) == (1, None, None, [{"sku": "a"}, {"sku": "b"}])
    assert three is None


def test_documents_in_protobufs_json(typed: TypedGateway, topic: str) -> None:
    """By HTTP as JSON and as lines: both names of a field, integers as text; a wrong one is refused by its path, and nothing is
    stored."""
    register(typed, f"{topic}-value", ORDER)
    create(typed, topic)
    order = {"id": "9007199254740993", "amount": 1, "kind": "PAID", "atTime": "2026-01-31T00:00:00.5Z"}
    assert typed.produce(topic, order, None).status_code == 200
    lines = json.dumps({"value": {"at_time": None, "tags": ["a"]}})
    answer = typed.http.post(
        f"/v1/topics/{topic}/records", content=lines, headers={"Content-Type": "application/x-ndjson"}
    )
    assert answer.status_code == 200, answer.text
    wrong = typed.produce(topic, {"id": 1}, {"kind": "LOST"}, {"tags": [1]})
    assert (wrong.status_code, wrong.json()["error_code"]) == (400, "INVALID_RECORD")
    assert wrong.json()["errors"] == [
        {"where": "/records/1/value/kind", "what": "it must be one of NEW, PAID"},
        {"where": "/records/2/value/tags/0", "what": "it must be a string, not a number"},
    ]
    first, null, last = typed.table(topic).column("data").to_pylist()
    assert (first["id"], first["kind"], first["at_time"].isoformat()) == (
        9007199254740993,
        "PAID",
        "2026-01-31T00:00:00.500000+00:00",
    )
    assert null is None
    assert last == {"id": 0, "amount": 0.0, "kind": "NEW", "at_time": None, "tags": ["a"]}


def test_an_arrow_body_of_serialized_values(typed: TypedGateway, topic: str) -> None:
    """A column of Confluent's bytes; one that is damaged refuses the request by its row."""
    schema_id = register(typed, f"{topic}-value", ORDER)
    create(typed, topic)
    framed = b"\0" + schema_id.to_bytes(4, "big") + b"\0"

    def send(*values: bytes) -> httpx.Response:
        stream = io.BytesIO()
        table = pa.table({"value": pa.array(values, pa.binary())})
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
        return typed.http.post(f"/v1/topics/{topic}/records", content=stream.getvalue(), headers=headers)

    assert send(*[framed + b"\x08\x07\x18\x01"] * 40).status_code == 200
    answer = send(*[framed] * 30, framed + b"\x18\x05")
    assert answer.status_code == 400
    assert "its number 5 is none of the enum" in answer.text
    data = typed.table(topic).column("data").to_pylist()
    assert len(data) == 40
    assert {(one["id"], one["kind"]) for one in data} == {(7, "PAID")}


def test_what_is_wrong_can_be_marked(typed: TypedGateway, topic: str) -> None:
    """It keeps its offset and its bytes, and says why it has no columns."""
    schema_id = register(typed, f"{topic}-value", ORDER)
    create(typed, topic, data_on_error="mark")
    framed = b"\0" + schema_id.to_bytes(4, "big") + b"\0"
    assert typed.sent(topic, framed + b"\x18\x05", framed + b"\x08") == [None, None]
    assert typed.produce(topic, {"id": 1}, {"id": "one"}).status_code == 200
    table = typed.table(topic)
    assert [None if one is None else one["id"] for one in table.column("data").to_pylist()] == [None, None, 1, None]
    reasons = table.column("data_error").to_pylist()
    assert reasons[0] == "value.kind: its number 5 is none of the enum: NEW (0), PAID (1)"
    assert "no message of Protobuf" in reasons[1]
    assert reasons[2] is None
    assert reasons[3].startswith("value.id: it must be an integer")


def test_versions_widen_and_what_columns_cant_take_is_refused(typed: TypedGateway, topic: str) -> None:
    """A new field widens the table; another type of a number, and another name of one, are 409 with the way out."""
    old = register(typed, f"{topic}-value", ORDER)
    create(typed, topic)
    new = register(typed, f"{topic}-value", LATER)
    values = [b"\0" + number.to_bytes(4, "big") + b"\0\x08\x05" for number in (old, new)]
    assert typed.sent(topic, values[0], values[1] + b"\x32\x01n") == [None, None]
    data = typed.table(topic).column("data").to_pylist()
    assert [(one["id"], one["note"]) for one in data] == [(5, None), (5, "n")]
    typed.registry.call("PUT", f"/config/{topic}-value", {"compatibility": "NONE"})
    for changed, reason in (
        (
            LATER.replace("int64 id = 1", "int64 number = 1"),
            "number has the number 1, which is the field of the column 'id'",
        ),
        (LATER.replace("int64 id = 1", "string id = 1"), "id is string, and its column is int64"),
        (LATER.replace("Kind kind = 3", "Order kind = 3"), "contains itself"),
    ):
        body = {"schema": changed, "schemaType": "PROTOBUF"}
        message = typed.registry.refused(409, "POST", f"/subjects/{topic}-value/versions", body)
        assert reason in message
        assert "use a new field, or a new subject and topic" in message
    register(typed, f"{topic}-value", LATER.replace("repeated string tags = 5;", ""))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ('syntax = "proto3"; message A { A a = 1; }', "contains itself (A)"),
        (
            'syntax = "proto3"; import "google/protobuf/struct.proto"; message A { google.protobuf.Struct a = 1; }',
            "contains itself",
        ),
        ('syntax = "proto3"; message A { }', "has no message with fields"),
    ],
)
def test_a_schema_that_columns_cant_have_is_refused_by_its_member(
    typed: TypedGateway, topic: str, schema: str, reason: str
) -> None:
    """The topic is not made, and the answer says what is wrong with the schema."""
    register(typed, f"{topic}-value", schema)
    answer = typed.http.post("/v1/topics", json={"name": topic, "config": {"value.schema": f"{topic}-value"}})
    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_CONFIG")
    assert reason in answer.json()["detail"]


def test_hostile_values_take_no_gateway_down(typed: TypedGateway, topic: str) -> None:
    """Items without bytes of many columns, groups that never end, fields in another order: answered soon, and others go on."""
    fields = " ".join(f"int64 f{number} = {number};" for number in range(1, 500))
    schema_id = register(
        typed, f"{topic}-value", f'syntax = "proto3"; message M {{ repeated N a = 1; }} message N {{ {fields} }}'
    )
    create(typed, topic)
    framed = b"\0" + schema_id.to_bytes(4, "big") + b"\0"
    values = (
        framed + b"\x0a\0" * 300_000,
        framed + b"\x13" * 500_000,
        framed + b"\xfa\x7d\0" * 200_000,
        framed + b"\x0a\0",
    )
    errors = typed.sent(topic, *values)
    assert [None if error is None else error.code() for error in errors] == [
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_RECORD,
        None,
        None,
    ]
