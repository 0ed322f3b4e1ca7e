"""python-schema-registry-client: its calls, and values of its serializers for Avro and JSON Schema in records."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer
from schema_registry.client import SchemaRegistryClient, schema
from schema_registry.serializers import AvroMessageSerializer, JsonMessageSerializer

from tests.kafka_clients.python import topics

COUNT = 200
AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
JSON = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], "additionalProperties": False}


def main(servers: str, url: str, topic: str) -> None:
    """Both formats, through topics of their own."""
    client = SchemaRegistryClient(url=url)
    topics.create(servers, f"{topic}-a", f"{topic}-j", partitions=1)
    avro, json_schema = schema.AvroSchema(AVRO), schema.JsonSchema(JSON)
    for name, wanted, serializer, kind in (
        ("a", avro, AvroMessageSerializer(client), "AVRO"),
        ("j", json_schema, JsonMessageSerializer(client), "JSON"),
    ):
        subject = f"{topic}-{name}-value"
        schema_id = client.register(subject, wanted)
        assert client.check_version(subject, wanted).schema_id == schema_id
        assert client.get_schema(subject).version == 1
        assert client.get_by_id(schema_id).schema_type == kind
        assert client.get_versions(subject) == [1]
        assert client.update_compatibility("FULL", subject)
        assert client.get_compatibility(subject) == "FULL"
        values = [serializer.encode_record_with_schema(subject, wanted, {"id": number}) for number in range(COUNT)]
        producer = Producer({"bootstrap.servers": servers})
        for value in values:
            producer.produce(f"{topic}-{name}", value)
        assert producer.flush(30) == 0
        found = [serializer.decode_message(value) for value in _read(servers, f"{topic}-{name}")]
        assert found == [{"id": number} for number in range(COUNT)], found[:3]
    assert not client.test_compatibility(f"{topic}-a-value", schema.AvroSchema('"string"'))
    assert client.delete_subject(f"{topic}-j-value") == [1]
    print("all is as it should be")


def _read(servers: str, topic: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"of-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < COUNT:
        for message in consumer.consume(COUNT, 30):
            assert message.error() is None, message.error()
            value = message.value()
            assert value is not None
            found.append(value)
    consumer.close()
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
