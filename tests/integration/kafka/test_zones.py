"""Consumers that say where they are (``client.rack``) read from a gateway of their own zone (KIP-392)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.waiting import until

QUICK = ("--heartbeat-ms", "2000")
"""A gateway counts as dead after four: on a busy machine one may be late by two seconds, but hardly by eight."""
LIMITS: dict[str, Any] = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "replica_id": -1}


def test_a_consumer_reads_in_its_own_zone(tmp_path: Path) -> None:
    """The gateway of another zone names one there; a client of no zone, or of one without a gateway, is served where it asks."""
    store = tmp_path / "store"
    with (
        kafka_gateway(store, tmp_path / "a", *QUICK, "--zone", "za") as a,
        kafka_gateway(store, tmp_path / "b", *QUICK, "--zone", "zb") as b,
    ):
        topic = a.topic("zoned")
        a.produce(topic, "x", "y")
        until(lambda: _racks(a) == _racks(b) == {"za", "zb"})
        nodes = {rack: node for node, rack in _brokers(a)}
        with Wire(a.kafka) as wire:
            for version in (11, 12):
                told = _fetched(wire, version, topic, "zb")
                assert (told.error_code, told.preferred_read_replica) == (KafkaError.none, nodes["zb"])
                assert (not told.records, told.high_watermark) == (True, 2)
                for rack in ("", "za", "zc"):
                    told = _fetched(wire, version, topic, rack)
                    assert (bool(told.records), told.preferred_read_replica) == (True, -1)
            (described,) = wire.call("metadata", 5, topics=[{"name": topic}], allow_auto_topic_creation=False).topics
            assert sorted(described.partitions[0].replica_nodes) == sorted(nodes.values())
        consumer = Consumer(
            {"bootstrap.servers": a.kafka, "group.id": "x", "client.rack": "zb", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert [one.value() for one in consumer.consume(2, 20)] == [b"x", b"y"]
        consumer.close()
        assert b.metric('tidelog_kafka_requests_total{api="fetch"}') > 0


def _brokers(gateway: KafkaGateway) -> list[tuple[int, str | None]]:
    with Wire(gateway.kafka) as wire:
        answer = wire.call("metadata", 5, topics=(), allow_auto_topic_creation=False)
        return [(one.node_id, one.rack) for one in answer.brokers]


def _racks(gateway: KafkaGateway) -> set[str | None]:
    return {rack for _, rack in _brokers(gateway)}


def _fetched(wire: Wire, version: int, topic: str, rack: str) -> Any:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    asked = [{"topic": topic, "partitions": [partition]}]
    answer = wire.call("fetch", version, **LIMITS, rack_id=rack, topics=asked, forgotten_topics_data=())
    return answer.responses[0].partitions[0]


pytestmark = pytest.mark.timeout(120)
