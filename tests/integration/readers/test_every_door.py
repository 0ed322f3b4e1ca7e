"""Records come in over HTTP, by Kafka's protocol and by Spark, and gateways are killed between: every reader gives all of them,
byte for byte, at the same offsets."""

from __future__ import annotations

import base64
from datetime import UTC
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from spark_pipeline import Way, read_topic
from tests.support.json_members import bytes_of
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway

PARTITIONS = 2
TIME_MS = 1_763_683_200_123
COLUMNS = ["partition", "offset", "timestamp", "key", "value", "headers"]
CONTENTS: list[tuple[bytes | None, bytes | None, list[tuple[str, Any]]]] = [
    (None, b"plain", []),
    (b"k", b"", []),
    (b"", b"\xff\x00\xfe", [("a", b"1"), ("a", None), ("b", b"")]),
    (b"gone", None, [("\u00e9", b"\x80")]),
    (b"k" * 200, b"v" * 5_000, []),
]
Row = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, Any], ...]]
"""Partition, offset, milliseconds, key, value, headers."""


def over_http(gateway: KafkaGateway) -> None:
    for partition in range(PARTITIONS):
        records = [
            {
                "timestamp": TIME_MS,
                "headers": [{"key": name, **_text("value", of)} for name, of in headers],
                **_text("key", key),
                **_text("value", value),
            }
            for key, value, headers in CONTENTS
        ]
        answer = gateway.http.post(f"/v1/topics/t/partitions/{partition}/records", json={"records": records})
        assert answer.status_code == 200, answer.text


def _text(name: str, value: bytes | None) -> dict[str, str | None]:
    return {name: None} if value is None else {f"{name}_base64": base64.b64encode(value).decode()}


def by_kafka(gateway: KafkaGateway, **settings: Any) -> None:
    """Idempotent; with ``transactional.id`` by a transaction, behind one that is aborted."""
    producer = Producer({"bootstrap.servers": gateway.kafka, "enable.idempotence": True, **settings})
    failed: list[object] = []

    def send() -> None:
        for partition in range(PARTITIONS):
            for key, value, headers in CONTENTS:
                producer.produce(
                    "t", value, key, partition, timestamp=TIME_MS, headers=headers,
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )  # fmt: skip

    if settings:
        producer.init_transactions(60)
        for end in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            send()
            producer.flush(60)
            end(60)
    else:
        send()
        assert producer.flush(60) == 0
    assert failed == []


def by_spark(spark: SparkSession, store: str) -> None:
    schema = "partition int, key binary, value binary, headers array<struct<key: string, value: binary>>"
    rows = [(partition, *content) for partition in range(PARTITIONS) for content in CONTENTS]
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    frame.write.format("tidelog").mode("append").options(store=store, topic="t").save()


def read_over_http(gateway: KafkaGateway) -> list[Row]:
    rows: list[Row] = []
    for partition in range(PARTITIONS):
        page = gateway.fetch("t", partition, max_records=100_000).json()
        assert page["next_offset"] == page["high_watermark"]
        rows += [
            (
                partition,
                record["offset"],
                record["timestamp"],
                bytes_of(record, "key"),
                bytes_of(record, "value"),
                tuple((header["key"], bytes_of(header, "value")) for header in record["headers"]),
            )
            for record in page["records"]
        ]
    return rows


def read_by_kafka(gateway: KafkaGateway, count: int) -> list[Row]:
    consumer = Consumer({"bootstrap.servers": gateway.kafka, "group.id": "x", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition("t", partition, 0) for partition in range(PARTITIONS)])
        messages = consumer.consume(count, 60)
    finally:
        consumer.close()
    assert not [message.error() for message in messages if message.error()]
    return sorted(
        (
            (
                int(one.partition() or 0),
                int(one.offset() or 0),
                int(one.timestamp()[1]),
                one.key(),
                one.value(),
                tuple((str(name), value) for name, value in list(one.headers() or [])),
            )
            for one in messages
        ),
        key=lambda row: row[:2],
    )


def of_table(table: pa.Table) -> list[Row]:
    """In order of partition and offset, comparable whichever reader read them."""
    rows: list[Row] = []
    for record in table.select(COLUMNS).to_pylist():
        moment = record["timestamp"]
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        key, value = (None if record[name] is None else bytes(record[name]) for name in ("key", "value"))
        headers = tuple(
            (one["key"], one["value"] if one["value"] is None else bytes(one["value"]))
            for one in record["headers"] or ()
        )
        rows.append((record["partition"], record["offset"], round(moment.timestamp() * 1000), key, value, headers))
    return sorted(rows, key=lambda row: row[:2])


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_every_door(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """With own commits and at a journal; once the topic has its own commits again, deltalake sees the same, too."""
    store = (tmp_path / "store").as_uri()
    with kafka_gateway(store, tmp_path / "log") as gateway:
        gateway.topic("t", PARTITIONS, commit_mode=mode)
        over_http(gateway)
        by_kafka(gateway)
        gateway.kill()
        gateway.start()
        by_kafka(gateway, **{"transactional.id": "doors"})
        by_spark(spark, store)
        gateway.kill()
        gateway.start()
        over_http(gateway)
        rounds = 5
        found = read_over_http(gateway)
        assert [row[:2] for row in found] == [
            (partition, offset) for partition in range(PARTITIONS) for offset in range(rounds * len(CONTENTS))
        ]
        assert [(*row[3:5], list(row[5])) for row in found] == CONTENTS * rounds * PARTITIONS
        assert read_by_kafka(gateway, len(found)) == found
        options = {"store": store, "subscribe": "t", "includeHeaders": "true"}
        assert of_table(spark.read.format("tidelog").options(**options).load().toArrow()) == found
        assert of_table(read_topic(spark, store, "t", way=Way.TIDELOG).toArrow()) == found
        answer = gateway.http.patch("/v1/topics/t", json={"config": {"commit.mode": "own"}})
        assert answer.status_code == 200, answer.text
        assert read_over_http(gateway) == found
        assert of_table(deltalake.DeltaTable(f"{store}/topics/t").to_pyarrow_table()) == found
        assert of_table(read_topic(spark, store, "t", way=Way.DELTA).toArrow()) == found
