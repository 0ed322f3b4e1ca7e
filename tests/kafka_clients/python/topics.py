"""Topics that the programs need: made, and read to their end."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

SECONDS = 60


def create(servers: str, *names: str, partitions: int = 3) -> None:
    """Return when all of them are there."""
    administrator = AdminClient({"bootstrap.servers": servers})
    made = administrator.create_topics([NewTopic(name, partitions, 1) for name in names])
    for future in made.values():
        future.result(SECONDS)


def produce(servers: str, topic: str, records: Sequence[tuple[str, str]]) -> None:
    """Keys and values, acknowledged when it returns."""
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for key, value in records:
        producer.produce(topic, value, key, on_delivery=lambda error, _: refused.append(error) if error else None)
    producer.flush(SECONDS)
    assert not refused, refused[0]


def read(servers: str, topic: str) -> list[tuple[str, str]]:
    """All committed records of the topic, by partition and offset: (key, value), where "" stands for none."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"{topic}.looking",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    partitions = consumer.list_topics(topic, SECONDS).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    got = []
    ended: set[int | None] = set()
    late = time.monotonic() + SECONDS
    while len(ended) < len(partitions):
        assert time.monotonic() < late, f"{topic} has no end"
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            ended.add(message.partition())
        else:
            got.append((message.partition(), message.offset(), message.key() or b"", message.value() or b""))
    consumer.close()
    return [(key.decode(), value.decode()) for _, _, key, value in sorted(got)]
