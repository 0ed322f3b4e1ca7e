"""Quix Streams: an application whose topics have Avro with Confluent's registry."""

from __future__ import annotations

import sys

from quixstreams import Application
from quixstreams.models.serializers import SchemaRegistryClientConfig, SchemaRegistrySerializationConfig
from quixstreams.models.serializers.avro import AvroDeserializer, AvroSerializer

COUNT = 200
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "twice", "type": "long"}],
}


def main(servers: str, url: str, topic: str) -> None:
    """Records go from one typed topic to another, and are read there."""
    config = SchemaRegistryClientConfig(url=url)
    serialization = SchemaRegistrySerializationConfig(auto_register_schemas=True)
    app = Application(servers, consumer_group=f"of-{topic}", auto_offset_reset="earliest")
    writer = AvroSerializer(
        AVRO, schema_registry_client_config=config, schema_registry_serialization_config=serialization
    )
    given = app.topic(
        f"{topic}-in",
        value_serializer=writer,
        value_deserializer=AvroDeserializer(schema_registry_client_config=config),
    )
    made = app.topic(
        f"{topic}-out",
        value_serializer=writer,
        value_deserializer=AvroDeserializer(schema_registry_client_config=config),
    )
    with app.get_producer() as producer:
        for number in range(COUNT):
            message = given.serialize(key=str(number), value={"id": number, "twice": 0})
            producer.produce(given.name, message.value, message.key, headers=message.headers)
    app.dataframe(given).apply(lambda value: {"id": value["id"], "twice": 2 * value["id"]}).to_topic(made)
    app.run(count=COUNT, timeout=60)
    reader = Application(servers, consumer_group=f"of-{topic}-2", auto_offset_reset="earliest")
    again = reader.topic(f"{topic}-out", value_deserializer=AvroDeserializer(schema_registry_client_config=config))
    found: list[dict[str, int]] = []
    reader.dataframe(again).update(found.append)
    reader.run(count=COUNT, timeout=60)
    assert sorted(one["id"] for one in found) == list(range(COUNT)), len(found)
    assert all(one["twice"] == 2 * one["id"] for one in found)
    print("all is as it should be")


if __name__ == "__main__":
    main(*sys.argv[1:])
