"""``message.timestamp.after.max.ms`` and ``before.max.ms`` of a topic, as a broker has them: told as they are, and enforced."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from tests.support.kafka_gateway import KafkaGateway

HOUR_MS = 3_600_000


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("count", [1, 50])
def test_times_out_of_range_are_refused_as_by_a_broker(gateway: KafkaGateway, codec: str, count: int) -> None:
    """INVALID_TIMESTAMP for the whole batch, too far ahead and too far behind; what is in range is stored."""
    name = f"limits-{codec}-{count}"
    gateway.topic(name, 1, **{"message.timestamp.after.max.ms": HOUR_MS, "message.timestamp.before.max.ms": HOUR_MS})
    # One batch, which ``flush`` sends at once.
    lone = {"linger.ms": 10_000, "retries": 0}
    producer = Producer({"bootstrap.servers": gateway.kafka, "compression.type": codec, **lone})
    now_ms = int(time.time() * 1000)
    for ahead_ms, expected in (
        (2 * HOUR_MS, KafkaError.INVALID_TIMESTAMP),
        (-2 * HOUR_MS, KafkaError.INVALID_TIMESTAMP),
        (0, None),
    ):
        errors: list[int | None] = []

        def delivered(error: KafkaError | None, _: Message, errors: list[int | None] = errors) -> None:
            errors.append(None if error is None else error.code())

        for number in range(count):
            # One of many is enough.
            at_ms = now_ms + (ahead_ms if number == count - 1 else 0)
            producer.produce(name, b"x", partition=0, timestamp=at_ms, on_delivery=delivered)
        assert producer.flush(20) == 0
        assert errors == [expected] * count


def test_the_limits_are_told_as_they_are(gateway: KafkaGateway) -> None:
    """Without one there is none: that was Kafka's default up to 3.9."""
    gateway.topic("limited", 1, **{"message.timestamp.after.max.ms": 5})
    gateway.topic("unlimited", 1)
    admin = AdminClient({"bootstrap.servers": gateway.kafka})
    for topic, after in (("limited", "5"), ("unlimited", str(2**63 - 1))):
        (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        told = future.result(20)
        assert told["message.timestamp.after.max.ms"].value == after
        assert told["message.timestamp.before.max.ms"].value == str(2**63 - 1)
