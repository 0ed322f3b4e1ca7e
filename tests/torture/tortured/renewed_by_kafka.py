"""Clients of a topic that is made anew, by Kafka's protocol: one names it by its id, byte by byte; others are librdkafka's."""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka.record.default_records import DefaultRecordBatchBuilder
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Closed, Wire
from tests.torture.tortured.clients import Client
from tests.torture.tortured.history import Place, Write
from tests.torture.tortured.kafka_bytes import asked_for, records, request
from tests.torture.tortured.kafka_clients import QUICK, messages
from tests.torture.tortured.renewed_history import Handed, RenewedHistory, Seen


def work_by_id(client: Client, servers: str, topic: str, history: RenewedHistory) -> None:
    """Produces to an incarnation by its id, mostly the present one, and reads on by that id."""
    at: dict[str, int] = {}
    number = 0
    while not client.stopping.wait(client.rng.uniform(0, 0.4)):
        topic_id = client.rng.choice([life.topic_id for life in history.lives[-3:]] + [history.lives[-1].topic_id] * 3)
        with contextlib.suppress(OSError, Closed), Wire(client.rng.choice(servers.split(",")), seconds=10) as wire:
            number += 1
            _produce(client, wire, topic, topic_id, f"{client.name}.{number}")
            _fetch(client, wire, topic_id, at, history)


def _produce(client: Client, wire: Wire, topic: str, topic_id: str, value: str) -> None:
    """A record to partition 0. It is never sent again, so it can't be twice."""
    started, error, offset = time.monotonic(), "", -1
    outcome = "unknown"
    try:
        data = [{"index": 0, "records": _batch(value)}]
        asked: dict[str, Any] = {"transactional_id": None, "acks": -1, "timeout": 10_000}
        asked["topic_data"] = [{"topic_id": uuid.UUID(topic_id), "partition_data": data}]
        part = wire.call("produce", 13, **asked).responses[0].partition_responses[0]
        error, offset = part.error_code.name, int(part.base_offset)
        if part.error_code is KafkaError.none:
            outcome = "acknowledged"
        elif part.error_code is KafkaError.unknown_topic_id:
            outcome = "refused"
    finally:
        place = Place(topic=topic, partition=0, base_offset=offset, values=[value])
        client.history.add(
            Write(
                client=client.name,
                kind="Kafka by id",
                values={topic: {0: [value]}},
                outcome=outcome,
                started=started,
                ended=time.monotonic(),
                places=[place] if outcome == "acknowledged" else [],
                why=error,
                meant=topic_id,
            )
        )


def _fetch(client: Client, wire: Wire, topic_id: str, at: dict[str, int], history: RenewedHistory) -> None:
    """What there is in partition 0 of this incarnation. Another has other offsets, so it goes on where it was in this one."""
    offset, started = at.get(topic_id, 0), time.monotonic()
    topics = [{"topic_id": uuid.UUID(topic_id), "partitions": [asked_for(0, offset)]}]
    asked = request(wait_ms=100) | {"topics": topics}
    (told,) = wire.call("fetch", 13, **asked).responses or (None,)
    if told is None or told.partitions[0].error_code is not KafkaError.none:
        return
    found, following = records(told.partitions[0].records, offset)
    history.seen.append(
        Seen(
            reader=f"{client.name} of {topic_id}",
            topic_id=str(told.topic_id),
            partition=0,
            asked=(offset, topic_id),
            offsets=[one for one, _ in found],
            values=[value for _, value in found],
            next_offset=following,
            high_watermark=int(told.partitions[0].high_watermark),
            started=started,
            ended=time.monotonic(),
        )
    )
    at[topic_id] = following


def _batch(value: str) -> bytes:
    batch = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    batch.append(0, int(time.time() * 1000), None, value.encode(), [])
    return bytes(batch.build())


def consume_by_librdkafka(
    client: Client, servers: str, topic: str, partitions: int, group: str, history: RenewedHistory
) -> None:
    """Alone, or in a group where one is named. Made anew where librdkafka gives up. Its positions are by name."""
    settings = {**QUICK, "bootstrap.servers": servers, "group.id": group or "no group", "auto.offset.reset": "earliest"}
    settings |= {"enable.auto.commit": bool(group), "auto.commit.interval.ms": 500, "check.crcs": True}
    while not client.stopping.is_set():
        consumer = Consumer(settings)
        try:
            if group:
                consumer.subscribe([topic])
            else:
                consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
            while not client.stopping.is_set():
                found = [
                    (int(one.partition() or 0), int(one.offset() or 0), (one.value() or b"").decode())
                    for one in messages(consumer, 0.3)
                ]
                if found:
                    history.handed.append(
                        Handed(reader=client.name, group=group, keeps=False, records=found, ended=time.monotonic())
                    )
        except KafkaException:
            client.stopping.wait(0.1)
        finally:
            consumer.close()
