"""A Kafka client's transaction of many MiB: its records, and the look at what is visible of it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.kafka_gateway import KafkaGateway

VALUE_BYTES: Final = 64 * 1024
PARTITIONS: Final = 4


def value(number: int) -> bytes:
    """Of the record of this number: random bytes, so that no codec makes them small."""
    return random.Random(number).randbytes(VALUE_BYTES)


def transactional(gateway: KafkaGateway, **more: object) -> Producer:
    """Of confluent-kafka, ready to begin."""
    settings = {"bootstrap.servers": gateway.kafka, "transactional.id": "large", "linger.ms": 20, "log_level": 0}
    patience = {"transaction.timeout.ms": 900_000, "retry.backoff.ms": 50, "reconnect.backoff.max.ms": 200}
    producer = Producer({**settings, **patience, **more})
    producer.init_transactions(30)
    return producer


def send(producer: Producer, topic: str, mebibytes: int) -> int:
    """Begin a transaction of so many MiB, over ``PARTITIONS`` partitions in turn, and send it; how many records it has."""
    count = mebibytes * (1 << 20) // VALUE_BYTES
    send_all(producer, topic, map(value, range(count)))
    return count


def send_all(producer: Producer, topic: str, values: Iterable[bytes]) -> None:
    """Begin a transaction of these records, over ``PARTITIONS`` partitions in turn, and send them."""
    failed: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(error)

    producer.begin_transaction()
    for number, each in enumerate(values):
        while True:
            try:
                producer.produce(topic, each, partition=number % PARTITIONS, on_delivery=delivered)
            except BufferError:
                producer.poll(0.1)
            else:
                break
    assert producer.flush(600) == 0
    assert failed == []


def visible(gateway: KafkaGateway, topic: str) -> list[int]:
    """The next offset of each partition, by one look."""
    return [one["high_watermark"] for one in gateway.http.get(f"/v1/topics/{topic}").json()["partitions"]]


def read(gateway: KafkaGateway, topic: str, count: int) -> Iterator[tuple[int, bytes]]:
    """(partition, value) of so many records, as a consumer with ``read_committed`` gets them."""
    consumer = Consumer(
        {"bootstrap.servers": gateway.kafka, "group.id": "g", "isolation.level": "read_committed", "log_level": 0}
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        for _ in range(count):
            message = consumer.poll(60)
            assert message is not None, "no record comes"
            assert message.error() is None, message.error()
            partition, content = message.partition(), message.value()
            assert partition is not None
            assert content is not None
            yield partition, content
    finally:
        consumer.close()


def check(gateway: KafkaGateway, topic: str, count: int) -> None:
    """Each record is there once, whole, in its order."""
    following = list(range(PARTITIONS))
    for partition, content in read(gateway, topic, count):
        assert content == value(following[partition]), f"record {following[partition]} is another one"
        following[partition] += PARTITIONS
    assert sum(visible(gateway, topic)) == count
