"""Records in by one door are read by the other: byte for byte, at equal offsets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PyPartition

from tests.support.json_members import bytes_of
from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway
from tests.support.waiting import until

Seen = list[tuple[int | None, int, bytes | None, bytes | None, list[tuple[str, Any]]]]
"""Offset, timestamp, key, value, headers."""

RECORDS: list[tuple[bytes | None, bytes | None, list[tuple[str, Any]]]] = [
    (None, b"plain", []),
    (b"k", b"", []),
    (b"", b"\xff\x00\xfe", [("a", b"1"), ("a", None), ("b", b"")]),
    (b"gone", None, [("é", b"\x80")]),
    (b"k" * 200, b"v" * 70_000, []),
]
TIME_MS = 1_700_000_000_123


def test_confluent_produces_and_all_read_the_same(gateway: KafkaGateway) -> None:
    """Keys, values, nulls, headers, timestamps and offsets; compressed by each codec.

    At the tail each client gets what the producer compressed, as from a broker. kafka-python has no library for two codecs here.
    """
    gateway.topic("all", 2)
    codecs = (("snappy", "lz4"), ("none", "gzip", "zstd"))
    for partition, some in enumerate(codecs):
        for number, codec in enumerate(some):
            producer = Producer({"bootstrap.servers": gateway.kafka, "compression.type": codec, "linger.ms": 20})
            placed: list[int | None] = []

            def delivered(error: object, message: Message, placed: list[int | None] = placed) -> None:
                placed.append(-1 if error else message.offset())

            for key, value, headers in RECORDS:
                producer.produce(
                    "all", value, key, partition, timestamp=TIME_MS, headers=headers,
                    on_delivery=delivered,
                )  # fmt: skip
            assert producer.flush(20) == 0
            assert placed == list(range(number * len(RECORDS), (number + 1) * len(RECORDS)))
        count = len(some) * len(RECORDS)
        expected = [(offset, TIME_MS, *RECORDS[offset % len(RECORDS)]) for offset in range(count)]
        assert by_http(gateway, "all", partition) == expected
        assert by_confluent(gateway.kafka, "all", partition, count) == expected
        assert asyncio.run(by_aiokafka(gateway.kafka, "all", partition, count)) == expected
    assert by_kafka_python(gateway.kafka, "all", 1, count) == expected


def test_http_produces_and_all_read_the_same(gateway: KafkaGateway) -> None:
    """What came by HTTP is a record batch for Kafka's clients, from any offset on."""
    gateway.topic("http", 1)
    for number in range(3):
        gateway.produce("http", *(f"{number}-{index}" for index in range(50)))
    expected = by_http(gateway, "http", 0)
    assert len(expected) == 150
    assert by_confluent(gateway.kafka, "http", 0, 150) == expected
    assert by_confluent(gateway.kafka, "http", 0, 93, start=57) == expected[57:]
    assert by_kafka_python(gateway.kafka, "http", 0, 150) == expected
    assert asyncio.run(by_aiokafka(gateway.kafka, "http", 0, 150)) == expected


def test_kafka_python_and_aiokafka_produce(gateway: KafkaGateway) -> None:
    """Each of them, with and without acknowledgement."""
    gateway.topic("python", 1)
    with KafkaProducer(bootstrap_servers=gateway.kafka, enable_idempotence=False, acks="all") as producer:
        placed = [producer.send("python", b"%d" % index).get(20).offset for index in range(3)]
    assert placed == [0, 1, 2]
    asyncio.run(_aiokafka_produces(gateway.kafka))
    with KafkaProducer(bootstrap_servers=gateway.kafka, enable_idempotence=False, acks=0) as producer:
        producer.send("python", b"unacknowledged")
        producer.flush(20)
    assert _values(gateway, "python", 5) == [b"0", b"1", b"2", b"aio", b"unacknowledged"]


def test_a_consumer_at_the_end_gets_what_comes(gateway: KafkaGateway) -> None:
    """A long poll is answered when records come, not when its time is over."""
    gateway.topic("tail", 1)
    consumer = Consumer(
        {"bootstrap.servers": gateway.kafka, "group.id": "x", "fetch.wait.max.ms": 30_000, "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition("tail", 0, 0)])
        assert consumer.poll(1.5) is None
        gateway.produce("tail", "now")
        began = time.monotonic()
        message = consumer.poll(20)
        assert message is not None
        assert message.value() == b"now"
        assert time.monotonic() - began < 15
    finally:
        consumer.close()


def test_offsets_are_found_by_time_and_at_both_ends(gateway: KafkaGateway) -> None:
    """As ListOffsets of a broker: the first record that is as late; the end where there is none."""
    gateway.topic("times", 1)
    producer = Producer({"bootstrap.servers": gateway.kafka})
    for index in range(10):
        producer.produce("times", b"x", timestamp=TIME_MS + index * 1000)
    producer.flush(20)
    gateway.http.post("/v1/topics/times:delete-records", json={"before": [{"partition": 0, "offset": 4}]})
    with KafkaConsumer(bootstrap_servers=gateway.kafka) as consumer:
        place = PyPartition("times", 0)
        assert consumer.beginning_offsets([place])[place] == 4
        assert consumer.end_offsets([place])[place] == 10
        found = consumer.offsets_for_times({place: TIME_MS + 6500})[place]
        assert (found.offset, found.timestamp) == (7, TIME_MS + 7000)
        assert consumer.offsets_for_times({place: TIME_MS + 60_000})[place] is None
    producer.produce("times", b"late", timestamp=TIME_MS)
    producer.flush(20)
    with Wire(gateway.kafka) as wire:
        for version in range(7, 12):
            asked = [{"name": "times", "partitions": [{"partition_index": 0, "timestamp": -3}]}]
            (topic,) = wire.call(
                "list_offsets", version, replica_id=-1, isolation_level=0, timeout=0, topics=asked
            ).topics
            assert (topic.partitions[0].offset, topic.partitions[0].timestamp) == (9, TIME_MS + 9000)
        # An epoch is that of a record: without one there is none.
        for timestamp, epoch in ((-1, 0), (-2, 0), (TIME_MS, 0), (TIME_MS + 60_000, -1)):
            asked = [{"name": "times", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]
            (topic,) = wire.call("list_offsets", 7, replica_id=-1, isolation_level=0, topics=asked).topics
            assert topic.partitions[0].leader_epoch == epoch
        asked = [{"topic": "times", "partitions": [{"partition": 0, "leader_epoch": 0}]}]
        (topic,) = wire.call("offset_for_leader_epoch", 4, replica_id=-1, topics=asked).topics
        assert (topic.partitions[0].leader_epoch, topic.partitions[0].end_offset) == (0, 11)


def test_an_offset_out_of_range_starts_where_the_client_says(gateway: KafkaGateway) -> None:
    """OFFSET_OUT_OF_RANGE: the client then resets by its own rule."""
    gateway.topic("range", 1)
    gateway.produce("range", "a", "b")
    assert [seen[0] for seen in by_confluent(gateway.kafka, "range", 0, 2, start=99)] == [0, 1]


def test_what_can_t_be_taken_is_refused_by_its_code(gateway: KafkaGateway) -> None:
    """A missing topic, a partition that is not there, a record that is too large, a keyless record of a compacted topic."""
    gateway.topic("small", 1, max_message_bytes=1000)
    gateway.topic("compacted", 1, cleanup_policy="compact")
    config = {"bootstrap.servers": gateway.kafka, "message.timeout.ms": 5000, "topic.metadata.propagation.max.ms": 500}
    assert _refusal(config, "missing", b"x") == "UNKNOWN_TOPIC_OR_PART"
    assert _refusal(config, "small", b"x" * 2000) == "MSG_SIZE_TOO_LARGE"
    assert _refusal(config, "compacted", b"x") == "INVALID_RECORD"
    assert by_http(gateway, "small", 0) == by_http(gateway, "compacted", 0) == []


def _refusal(config: dict[str, Any], topic: str, value: bytes) -> str:
    errors: list[Any] = []
    producer = Producer(config)
    try:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
        producer.flush(20)
    except KafkaException as problem:
        errors.append(problem.args[0])
    name: str = errors[0].name()
    return (
        name.removeprefix("_").replace("UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART") if name == "_UNKNOWN_TOPIC" else name
    )


async def _aiokafka_produces(address: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        assert (await producer.send_and_wait("python", b"aio")).offset == 3


def _values(gateway: KafkaGateway, topic: str, count: int) -> list[bytes | None]:
    until(lambda: len(by_http(gateway, topic, 0)) >= count, 10)
    return [one[3] for one in by_http(gateway, topic, 0)]


def by_http(gateway: KafkaGateway, topic: str, partition: int) -> Seen:
    page = gateway.fetch(topic, partition, max_records=100_000, max_bytes=32 << 20).json()
    return [
        (
            record["offset"],
            record["timestamp"],
            bytes_of(record, "key"),
            bytes_of(record, "value"),
            [(header["key"], bytes_of(header, "value")) for header in record["headers"]],
        )
        for record in page["records"]
    ]


def by_confluent(address: str, topic: str, partition: int, count: int, start: int = OFFSET_BEGINNING) -> Seen:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "x", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        messages = consumer.consume(count, 20)
        assert not [message.error() for message in messages if message.error()]
        return [(m.offset(), m.timestamp()[1], m.key(), m.value(), _headers(_list(m.headers()))) for m in messages]
    finally:
        consumer.close()


def by_kafka_python(address: str, topic: str, partition: int, count: int) -> Seen:
    with KafkaConsumer(bootstrap_servers=address, consumer_timeout_ms=10_000) as consumer:
        consumer.assign([PyPartition(topic, partition)])
        consumer.seek_to_beginning()
        return [
            (one.offset, one.timestamp, one.key, one.value, _headers(one.headers))
            for _, one in zip(range(count), consumer, strict=False)
        ]


async def by_aiokafka(address: str, topic: str, partition: int, count: int) -> Seen:
    consumer = AIOKafkaConsumer(bootstrap_servers=address)
    await consumer.start()
    try:
        consumer.assign([AioPartition(topic, partition)])
        await consumer.seek_to_beginning()
        seen: Seen = []
        while len(seen) < count:
            one = await asyncio.wait_for(consumer.getone(), 10)
            seen.append((one.offset, one.timestamp, one.key, one.value, _headers(one.headers)))
        return seen
    finally:
        await consumer.stop()


def _list(headers: Any) -> list[tuple[str, Any]]:
    return list(headers or ())


def _headers(headers: Iterable[tuple[str, Any]] | None) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in headers or ()]


pytestmark = pytest.mark.timeout(120)
