"""Erasures, as Kafka's clients see them: neither what a producer sent nor what was encoded for another consumer is served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import kafka_gateway
from tests.support.maintained import maintain
from tidelog import Admin

LIMITS: dict[str, Any] = {"max_wait": 0, "min_bytes": 1, "max_bytes": 8 << 20, "replica_id": -1, "rack_id": ""}


def fetched(wire: Wire, offset: int) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of the records from an offset on."""
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "t", "partitions": [partition]}]
    answer = wire.call("fetch", 12, **LIMITS, topics=topics, forgotten_topics_data=())
    records, found = MemoryRecords(bytes(answer.responses[0].partitions[0].records)), []
    while (batch := records.next_batch()) is not None:
        found += [(record.offset, record.key, record.value) for record in batch]
    return found


def test_no_batch_of_before_is_served(tmp_path: Path) -> None:
    """From the first offset on, where the producer's own batch was, and from the middle, for which one was encoded."""
    store = tmp_path / "log"
    with kafka_gateway(str(store), tmp_path / "gateway.log") as gateway, Wire(gateway.kafka) as wire:
        with Admin(gateway.url) as admin:
            admin.create_topic("t", 1, {"flush.ms": 0, "retention.ms": -1})
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 22)
        rows = [(b"bo", b"b1"), (b"anna", b"secret"), (b"bo", b"b2")]
        for number, (key, value) in enumerate(rows):
            builder.append(number, 1_700_000_000_000, key, value, [])
        data = [{"name": "t", "partition_data": [{"index": 0, "records": bytes(builder.build())}]}]
        wire.call("produce", 9, transactional_id=None, acks=-1, timeout=1000, topic_data=data)
        before = [(number, key, value) for number, (key, value) in enumerate(rows)]
        assert (fetched(wire, 0), fetched(wire, 1)) == (before, before[1:])
        with Admin(gateway.url) as admin:
            admin.erase("t", ["anna"])
        maintain(store)
        after = [before[0], (1, b"anna", None), before[2]]
        for _ in range(2):
            assert (fetched(wire, 0), fetched(wire, 1)) == (after, after[1:])
