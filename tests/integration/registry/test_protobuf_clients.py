"""Messages of generated classes with the SDK: registered, sent as Confluent's serializer does, checked, and read as messages."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

import tidelog.aio
from tests.support.registry import Registry
from tidelog import Admin, Consumer, Producer, schemas
from tidelog.errors import InvalidRecord, UnknownSchema
from tidelog.types.schema import SchemaReference


@dataclasses.dataclass
class Order:
    """A model of the same members."""

    id: int
    money: dict[str, int] | None
    at: datetime | None


@pytest.fixture
def url(registry: Registry) -> str:
    """Of the module's gateway."""
    return str(registry.http.base_url).removesuffix("/registry/")


@pytest.fixture
def admin(url: str) -> Iterator[Admin]:
    """A client of it."""
    with Admin(url) as made:
        yield made


@pytest.fixture(scope="module")
def kind() -> Any:
    """A generated class: a message within a message, of a file that imports another one."""
    unique = f"t{secrets.token_hex(4)}"
    common = descriptor_pb2.FileDescriptorProto(name=f"{unique}/money.proto", package=unique, syntax="proto3")
    common.message_type.add(name="Money").field.add(name="units", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    imports = ["google/protobuf/timestamp.proto", common.name]
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{unique}/order.proto", package=unique, syntax="proto3", dependency=imports
    )
    file.message_type.add(name="Empty")
    order = file.message_type.add(name="Space").nested_type.add(name="Order")
    order.field.add(name="id", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    for number, name, of in ((2, "money", f".{unique}.Money"), (3, "at", ".google.protobuf.Timestamp")):
        order.field.add(name=name, number=number, type="TYPE_MESSAGE", type_name=of, label="LABEL_OPTIONAL")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for one in (common, file):
        pool.AddSerializedFile(one.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{unique}.Space.Order"))


def test_a_message_is_registered_sent_checked_and_read(url: str, admin: Admin, name: str, kind: Any) -> None:
    """From the class alone, with what it imports; the bytes are those of Confluent's serializer; also for asyncio."""
    message = kind(id=7, money={"units": 3}, at=datetime(2026, 1, 31, tzinfo=UTC))
    with Producer(url) as producer, pytest.raises(UnknownSchema):
        producer.send(name, message)
    registered = schemas.register(kind, f"{name}-value", bootstrap_servers=url)
    common = kind.DESCRIPTOR.fields_by_name["money"].message_type.file.name
    assert registered.references == (SchemaReference(common, common, 1),)
    admin.create_topic(name, 1, {"value.schema": f"{name}-value", "flush.ms": 0})
    with Producer(url, on_delivery=lambda *_: None) as producer:
        producer.send(name, message).result()
        producer.send(name, '{"id":"8","at":null}').result()
        late = producer.send(name, kind(at={"seconds": 2**60}))
        with pytest.raises(InvalidRecord, match="/value/at: it must be from 0001-01-01"):
            late.result()
    with Consumer(name, bootstrap_servers=url, consumer_timeout_ms=300) as consumer:
        first = next(iter(consumer)).value
    with SchemaRegistryClient({"url": f"{url}/registry"}) as client:
        context = SerializationContext(name, MessageField.VALUE)
        assert ProtobufSerializer(kind, client, {"normalize.schemas": True})(message, context) == first
    with Consumer(name, value=kind, bootstrap_servers=url, consumer_timeout_ms=300) as consumer:
        assert [record.value for record in consumer] == [message, kind(id=8)]
    with Consumer(name, value=Order, bootstrap_servers=url, consumer_timeout_ms=300) as consumer:
        assert next(iter(consumer)).value == Order(7, {"units": 3}, datetime(2026, 1, 31, tzinfo=UTC))

    async def main() -> list[Any]:
        async with tidelog.aio.Producer(url) as producer:
            await (await producer.send(name, message))
        options = {"bootstrap_servers": url, "consumer_timeout_ms": 300}
        async with tidelog.aio.Consumer(name, value=kind, **options) as consumer:  # type: ignore[arg-type]
            return [record.value async for record in consumer]

    assert asyncio.run(main()) == [message, kind(id=8), message]


def test_the_first_send_registers_where_it_may(url: str, admin: Admin, name: str, kind: Any) -> None:
    """With ``register=True``; any topic takes messages, and what is no message raises when it is read."""
    admin.create_topic(name, 1, {"flush.ms": 0})
    with Producer(url, register=True) as producer:
        producer.send(name, kind(id=1)).result()
        producer.send(name, b"no message").result()
    assert admin.schemas().versions(f"{name}-value") == [1]
    with Consumer(name, value=kind, bootstrap_servers=url, consumer_timeout_ms=300) as consumer:
        records = iter(consumer)
        assert next(records).value == kind(id=1)
        with pytest.raises(ValueError, match=r"the value is no t[0-9a-f]+.Space.Order"):
            next(records)
