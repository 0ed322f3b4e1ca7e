"""What a user does with typed topics: a model registered and sent, a wrong value refused with its path, models read again."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

import fastavro
import pytest
from pydantic import BaseModel

import tidelog.aio
from tests.support.registry import Registry, record
from tidelog import Admin, Consumer, Producer, schemas
from tidelog.errors import IncompatibleSchema, InvalidRecord, UnknownSchema


class Order(BaseModel):
    """As docs/sdk.md has it."""

    id: int
    amount: Decimal
    at: datetime
    note: str | None = None


@dataclasses.dataclass
class Misspelt:
    """A member of another name, which the closed schema of ``Order`` refuses."""

    id: int
    amount: Decimal
    at: datetime
    nota: str


@dataclasses.dataclass
class Renumbered:
    """``id`` of another type."""

    id: str


ORDER = Order(id=1, amount=Decimal("3.50"), at=datetime(2026, 1, 31, tzinfo=UTC))


@pytest.fixture
def url(registry: Registry) -> str:
    """Of the module's gateway."""
    return str(registry.http.base_url).removesuffix("/registry/")


@pytest.fixture
def admin(url: str) -> Iterator[Admin]:
    """A client of it."""
    with Admin(url) as made:
        yield made


def test_a_model_is_registered_sent_checked_and_read(url: str, admin: Admin, name: str) -> None:
    """From the class alone: the topic takes its values, refuses others with the path, and gives them back as the class."""
    registered = schemas.register(Order, f"{name}-value", bootstrap_servers=url)
    assert registered.version == 1
    admin.create_topic(name, 1, {"value.schema": f"{name}-value", "flush.ms": 0})
    with Producer(url, register=True) as producer:
        assert producer.send(name, ORDER, key="u7").result().offset == 0
        with pytest.raises(IncompatibleSchema):
            producer.send(name, Renumbered("1"))
    with Producer(url, on_delivery=lambda *_: None) as producer:
        wrong = producer.send(name, Misspelt(2, Decimal(1), ORDER.at, "x"))
        with pytest.raises(InvalidRecord, match="/value/nota: the schema has no such member"):
            wrong.result()
        wrong = producer.send(name, '{"id": "two", "amount": "1", "at": "2026-01-31T00:00:00Z"}')
        with pytest.raises(InvalidRecord, match="/value/id: it must be an integer"):
            wrong.result()
    with Consumer(name, value=Order, bootstrap_servers=url, consumer_timeout_ms=200) as consumer:
        assert [(record.key, record.value) for record in consumer] == [(b"u7", ORDER)]
    assert admin.schemas().versions(f"{name}-value") == [1]


def test_values_of_avro_with_confluents_header_are_models(url: str, admin: Admin, name: str) -> None:
    """As Confluent's serializers write them, beside documents in one topic; also for asyncio."""
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
    schema_id = admin.schemas().register(f"{name}-value", json.dumps(schema)).id
    admin.create_topic(name, 1, {"value.schema": f"{name}-value", "flush.ms": 0})
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, ORDER.model_dump())
    with Producer(url) as producer:
        producer.send(name, b"\0" + schema_id.to_bytes(4, "big") + out.getvalue())
        producer.send(name, ORDER)
    with Consumer(name, value=Order, bootstrap_servers=url, consumer_timeout_ms=200) as consumer:
        assert [record.value for record in consumer] == [ORDER, ORDER]

    async def main() -> list[Order]:
        options = {"bootstrap_servers": url, "consumer_timeout_ms": 200}
        async with tidelog.aio.Consumer(name, value=Order, **options) as consumer:  # type: ignore[arg-type]
            return [record.value async for record in consumer]

    assert asyncio.run(main()) == [ORDER, ORDER]


def test_members_are_sent_as_avro(url: str, admin: Admin, name: str) -> None:
    """As Confluent's serializers write them, without a class; what is not of the schema is not sent."""
    text = record("Order", id="long", amount="double")
    registered = admin.schemas().register(f"{name}-value", text)
    admin.create_topic(name, 1, {"value.schema": f"{name}-value", "flush.ms": 0})
    encode = schemas.avro_encoder(registered)
    with Producer(url) as producer:
        producer.send(name, encode({"id": 1, "amount": 3.5}))
        for wrong in ({"id": 1}, {"id": "one", "amount": 1.0}, {"id": 1, "amount": 1.0, "more": 2}):
            with pytest.raises((TypeError, ValueError)):
                encode(wrong)
    with Consumer(name, bootstrap_servers=url, consumer_timeout_ms=200) as consumer:
        (sent,) = [found.value for found in consumer]
    stream = io.BytesIO(sent[5:])
    assert sent[:5] == b"\0" + registered.id.to_bytes(4, "big")
    assert fastavro.schemaless_reader(stream, json.loads(text), None) == {"id": 1, "amount": 3.5}
    document = admin.schemas().register(f"{name}-json", '{"type": "object"}', "JSON")
    with pytest.raises(TypeError, match="is JSON"):
        schemas.avro_encoder(document)


def test_the_registrys_calls(admin: Admin, name: str) -> None:
    """Through ``Admin.schemas``: look up, check with the reasons, set a level, delete."""
    client = admin.schemas()
    first = client.register(name, '"string"')
    assert client.look_up(name, ' "string" ').id == first.id == client.latest(name).id
    assert client.by_id(first.id).schema == '"string"'
    checked = client.check(name, '"int"')
    assert not checked.is_compatible
    assert any("TYPE_MISMATCH" in message for message in checked.messages)
    assert client.compatibility(name) is None
    client.set_compatibility(name, "NONE")
    assert client.compatibility(name) == "NONE"
    assert client.check(name, '"int"').is_compatible
    assert client.register(name, '"int"').version == 2
    assert client.version(name, 1) == first
    assert client.delete(name) == [1, 2]
    assert name not in client.subjects()
    assert name in client.subjects(deleted=True)
    assert client.version(name, 1, deleted=True).deleted
    assert client.delete(name, permanent=True) == [1, 2]
    with pytest.raises(UnknownSchema):
        client.latest(name)
