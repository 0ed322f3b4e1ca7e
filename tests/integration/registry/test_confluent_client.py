"""Confluent's Python client and serializers, unchanged, with a gateway as their registry."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.timestamp_pb2 import Timestamp

from tests.support.registry import Registry, record


@pytest.fixture
def client(registry: Registry) -> Iterator[SchemaRegistryClient]:
    """A client of the registry that knows nothing yet."""
    with SchemaRegistryClient({"url": str(registry.http.base_url)}) as made:
        yield made


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses."""
    return f"t{secrets.token_hex(6)}"


def _context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_the_client_s_calls(client: SchemaRegistryClient, topic: str) -> None:
    """Each call of its interface that the registry has."""
    first = Schema(record("A", a="int"), "AVRO")
    second = Schema(record("A", a="int", b=("int", 0)), "AVRO")
    schema_id = client.register_schema(topic, first)
    assert client.register_schema(topic, first) == schema_id
    assert client.lookup_schema(topic, first).version == 1
    assert json.loads(str(client.get_schema(schema_id).schema_str))["name"] == "A"
    assert client.register_schema_full_response(topic, second).version == 2
    assert client.get_latest_version(topic).version == 2
    assert client.get_version(topic, 1).schema_id == schema_id
    assert client.get_versions(topic) == [1, 2]
    assert topic in client.get_subjects()
    assert client.get_subjects_by_schema_id(schema_id) == [topic]
    assert [one.version for one in client.get_schema_versions(schema_id, topic)] == [1]
    assert sorted(client.get_schema_types()) == ["AVRO", "JSON", "PROTOBUF"]
    assert client.get_contexts()[0] == "."
    assert client.test_compatibility(topic, second)
    assert not client.test_compatibility_all_versions(topic, Schema(record("A", c="int"), "AVRO"))
    client.set_compatibility(topic, "FULL")
    assert client.get_compatibility(topic) == "FULL"
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(topic, Schema(record("A", c="int"), "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    with pytest.raises(SchemaRegistryError) as missing:
        client.get_schema(1_999_999_999)
    assert (missing.value.http_status_code, missing.value.error_code) == (404, 40403)
    assert client.delete_version(topic, 1) == 1
    assert client.delete_subject(topic) == [2]
    assert client.delete_subject(topic, permanent=True) == [1, 2]


def test_avro(client: SchemaRegistryClient, registry: Registry, topic: str) -> None:
    """A record that is serialized, and read with a schema of a later version; a schema with a reference."""
    old, new = record("Order", id="long"), record("Order", id="long", note=("string", ""))
    data = AvroSerializer(client, old)({"id": 7}, _context(topic))
    with SchemaRegistryClient({"url": str(registry.http.base_url)}) as other:
        assert AvroDeserializer(other, new)(data, _context(topic)) == {"id": 7, "note": ""}
        assert AvroDeserializer(other)(data, _context(topic)) == {"id": 7}
    client.register_schema(f"{topic}-money", Schema(record("Money", amount="long"), "AVRO"))
    reference = SchemaReference("Money", f"{topic}-money", 1)
    schema = Schema(record("Priced", price="Money"), "AVRO", [reference])
    serializer = AvroSerializer(client, schema)
    value: dict[str, Any] = {"price": {"amount": 3}}
    priced = client.register_schema(f"{topic}-priced", schema)
    resolved = registry.call("GET", f"/schemas/ids/{priced}", format="resolved")
    assert json.loads(resolved["schema"])["fields"][0]["type"]["name"] == "Money"
    assert AvroDeserializer(client)(serializer(value, _context(f"{topic}2")), _context(f"{topic}2")) == value


def _order() -> Any:
    """A message of a file that imports another."""
    file = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    message.field.add(
        name="at", number=2, type="TYPE_MESSAGE", type_name=".google.protobuf.Timestamp", label="LABEL_OPTIONAL"
    )
    pool = descriptor_pool.Default()
    with contextlib.suppress(TypeError):  # it is there from an earlier test
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf(client: SchemaRegistryClient, registry: Registry, topic: str) -> None:
    """A message that is serialized and read. What it imports is a subject of its own; its schema was sent as a descriptor, and
    is kept as text."""
    order = _order()
    value = order(id=7, at=Timestamp(seconds=4))
    data = ProtobufSerializer(order, client)(value, _context(topic))
    with SchemaRegistryClient({"url": str(registry.http.base_url)}) as other:
        assert ProtobufDeserializer(order, {"use.deprecated.format": False}, other)(data, _context(topic)) == value
    latest = registry.call("GET", f"/subjects/{topic}-value/versions/latest")
    assert latest["schemaType"] == "PROTOBUF"
    assert latest["schema"].startswith("syntax = ")
    body = {name: latest[name] for name in ("schema", "schemaType", "references") if name in latest}
    assert registry.call("POST", f"/subjects/{topic}-value", body)["id"] == latest["id"]
    found = registry.call("POST", f"/compatibility/subjects/{topic}-value/versions/latest", body)
    assert found == {"is_compatible": True}


def test_json(client: SchemaRegistryClient, topic: str) -> None:
    """An object that is serialized, validated and read."""
    members = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    text = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", **members})
    data = JSONSerializer(text, client)({"id": 7}, _context(topic))
    assert JSONDeserializer(text, schema_registry_client=client)(data, _context(topic)) == {"id": 7}
    assert client.get_latest_version(f"{topic}-value").schema.schema_type == "JSON"
