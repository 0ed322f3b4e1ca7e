"""Idempotent producers of Kafka's own clients: the records are there once, in order, with their offsets told."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaProducer
from kafka import errors as Errors

from tests.support.kafka_gateway import KafkaGateway


def test_confluent_kafka(gateway: KafkaGateway) -> None:
    """librdkafka, five requests in flight."""
    gateway.topic("idempotent-confluent", 3)
    producer = Producer({"bootstrap.servers": gateway.kafka, "enable.idempotence": True, "linger.ms": 1})
    told: dict[int | None, list[int | None]] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        told.setdefault(message.partition(), []).append(message.offset())

    for number in range(3000):
        producer.produce("idempotent-confluent", str(number).encode(), partition=number % 3, on_delivery=delivered)
        if number % 100 == 0:
            producer.poll(0)
    assert producer.flush(30) == 0
    assert told == {partition: list(range(1000)) for partition in range(3)}
    assert values(gateway, "idempotent-confluent", 1) == [number for number in range(3000) if number % 3 == 1]


def test_kafka_python(gateway: KafkaGateway) -> None:
    """Version 3, whose producer is idempotent by default."""
    gateway.topic("idempotent-python", 1)
    with KafkaProducer(bootstrap_servers=gateway.kafka, enable_idempotence=True) as producer:
        sent = [producer.send("idempotent-python", str(number).encode()) for number in range(1000)]
        assert [one.get(timeout=30).offset for one in sent] == list(range(1000))
    assert values(gateway, "idempotent-python", 0) == list(range(1000))


def test_aiokafka(gateway: KafkaGateway) -> None:
    """One request in flight for each partition."""
    gateway.topic("idempotent-aio", 1)

    async def run() -> list[int]:
        async with AIOKafkaProducer(bootstrap_servers=gateway.kafka, enable_idempotence=True) as producer:
            sent = [await producer.send("idempotent-aio", str(number).encode()) for number in range(500)]
            return [(await one).offset for one in sent]

    assert asyncio.run(run()) == list(range(500))
    assert values(gateway, "idempotent-aio", 0) == list(range(500))


def forgetful(gateway: KafkaGateway, name: str) -> str:
    """A topic that forgets a producer as soon as another one produces."""
    return gateway.topic(name, 2, **{"producer.id.expiration.ms": "1"})


def test_confluent_kafka_goes_on_where_it_is_forgotten(gateway: KafkaGateway) -> None:
    """It begins another epoch by itself, in a partition that it has used and in one that it has not."""
    topic = forgetful(gateway, "forgotten-confluent")
    first, other = (Producer({"bootstrap.servers": gateway.kafka, "enable.idempotence": True}) for _ in range(2))
    failed: list[KafkaError] = []
    for number, (producer, partition) in enumerate([(first, 0), (other, 0), (first, 0), (other, 0), (first, 1)]):
        producer.produce(
            topic,
            str(number).encode(),
            partition=partition,
            on_delivery=lambda error, _message: failed.append(error) if error is not None else None,
        )
        assert producer.flush(30) == 0
    assert failed == []
    assert values(gateway, topic, 0) + values(gateway, topic, 1) == [0, 1, 2, 3, 4]


def test_kafka_python_goes_on_where_it_is_forgotten(gateway: KafkaGateway) -> None:
    """It asks for another id. The batch that met the refusal fails: its caller is told, and sends it again."""
    topic = forgetful(gateway, "forgotten-python")
    with (
        KafkaProducer(bootstrap_servers=gateway.kafka, enable_idempotence=True) as first,
        KafkaProducer(bootstrap_servers=gateway.kafka, enable_idempotence=True) as other,
    ):
        first.send(topic, b"0", partition=0).get(30)
        other.send(topic, b"1", partition=0).get(30)
        try:
            first.send(topic, b"2", partition=0).get(30)
        except Errors.UnknownProducerIdError:
            first.send(topic, b"2", partition=0).get(30)
    assert values(gateway, topic, 0) == [0, 1, 2]


def values(gateway: KafkaGateway, topic: str, partition: int) -> list[int]:
    """All values of a partition, by HTTP."""
    return [int(value) for _, value in gateway.read(topic, partition)]
