"""Kafka's own clients find the gateway's topics, and so the gateway itself."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaClient
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from kafka import KafkaConsumer, KafkaProducer
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway


def test_each_client_lists_the_topics(gateway: KafkaGateway) -> None:
    """Names and partitions are those of HTTP; the only broker is the gateway's own address."""
    gateway.topic("listed", 3)
    listed = AdminClient({"bootstrap.servers": gateway.kafka}).list_topics(timeout=10)
    assert {broker.port for broker in listed.brokers.values()} == {int(gateway.kafka.rpartition(":")[2])}
    assert len(listed.topics["listed"].partitions) == 3

    with KafkaConsumer(bootstrap_servers=gateway.kafka) as consumer:
        assert "listed" in consumer.topics()
        assert consumer.partitions_for_topic("listed") == {0, 1, 2}

    assert asyncio.run(_partitions(gateway.kafka)) == {0, 1, 2}


async def _partitions(address: str) -> set[int]:
    client = AIOKafkaClient(bootstrap_servers=address)
    await client.bootstrap()
    try:
        cluster = await client.fetch_all_metadata()
        found: set[int] = cluster.partitions_for_topic("listed")
        return found
    finally:
        await client.close()


def test_topics_are_told_by_name_and_id_in_every_version(gateway: KafkaGateway) -> None:
    """All versions agree; a topic that is not there is not created; the id is the one of its table."""
    gateway.topic("told", 2)
    with Wire(gateway.kafka) as wire:
        for version in range(14):
            asked = [{"name": "told", "topic_id": None}, {"name": "absent", "topic_id": None}]
            answer = wire.call("metadata", version, topics=asked, **_OPERATIONS)
            told, absent = answer.topics
            assert (told.name, told.error_code, len(told.partitions)) == ("told", KafkaError.none, 2)
            assert {partition.leader_id for partition in told.partitions} == {answer.brokers[0].node_id}
            assert (absent.name, absent.error_code) == ("absent", KafkaError.unknown_topic_or_partition)
            everything = wire.call("metadata", version, topics=None if version else [], **_OPERATIONS)
            assert "told" in {topic.name for topic in everything.topics}
            assert "absent" not in {topic.name for topic in everything.topics}
        newest = wire.call("metadata", 13, topics=[{"topic_id": told.topic_id, "name": None}], **_OPERATIONS)
        assert newest.topics[0].name == "told"
        assert newest.cluster_id
        strange = wire.call("metadata", 13, topics=[{"topic_id": uuid.uuid4(), "name": None}], **_OPERATIONS)
        assert strange.topics[0].error_code == KafkaError.unknown_topic_id
        assert (
            wire.call("metadata", 13, topics=[{"topic_id": None, "name": "a/b"}], **_OPERATIONS).topics[0].error_code
            == KafkaError.invalid_topic_exception
        )


def test_partitions_are_described_page_by_page(gateway: KafkaGateway) -> None:
    """The cursor goes on within a topic and from topic to topic; none is told twice."""
    gateway.topic("paged-a", 3)
    gateway.topic("paged-b", 2)
    with Wire(gateway.kafka) as wire:
        cursor, seen = None, []
        names = [{"name": name} for name in ("paged-a", "paged-b")]
        while True:
            answer = wire.call("describe_topic_partitions", 0, topics=names, response_partition_limit=2, cursor=cursor)
            seen += [(topic.name, each.partition_index) for topic in answer.topics for each in topic.partitions]
            if answer.next_cursor is None:
                break
            cursor = {name: getattr(answer.next_cursor, name) for name in ("topic_name", "partition_index")}
    assert seen == [("paged-a", 0), ("paged-a", 1), ("paged-a", 2), ("paged-b", 0), ("paged-b", 1)]


def test_a_gateway_that_creates_no_topics_says_so(gateway: KafkaGateway) -> None:
    """As a broker's setting."""
    assert not _is_told_to_create(AdminClient({"bootstrap.servers": gateway.kafka}))


def _is_told_to_create(admin: AdminClient) -> bool:
    (broker,) = admin.list_topics(timeout=10).brokers
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    told: str = admin.describe_configs([resource])[resource].result(30)["auto.create.topics.enable"].value
    return {"true": True, "false": False}[told]


def test_topics_are_created_by_being_asked_for_where_the_gateway_says_so(tmp_path: Path) -> None:
    """By a producer of each client, with so many partitions; not where the request forbids it, and no other gateway's. A broker's
    settings say whether they are."""
    with kafka_gateway("memory://created", tmp_path / "log", "--auto-create-topics", "3") as creating:
        with Wire(creating.kafka) as wire:
            wanted = [{"name": name, "topic_id": None} for name in ("absent", "a/b")]
            for version in (4, 13):
                forbidden = _OPERATIONS | {"allow_auto_topic_creation": False}
                answer = wire.call("metadata", version, topics=wanted[:1], **forbidden)
                assert answer.topics[0].error_code is KafkaError.unknown_topic_or_partition
            strange = wire.call("metadata", 13, topics=[{"topic_id": uuid.uuid4(), "name": None}], **_OPERATIONS)
            assert strange.topics[0].error_code is KafkaError.unknown_topic_id
            made, refused = wire.call("metadata", 0, topics=wanted, **_OPERATIONS).topics
            assert (made.error_code, len(made.partitions)) == (KafkaError.none, 3)
            assert refused.error_code is KafkaError.invalid_topic_exception
        confluent = Producer({"bootstrap.servers": creating.kafka})
        confluent.produce("by-confluent", b"x")
        assert confluent.flush(30) == 0
        with KafkaProducer(bootstrap_servers=creating.kafka) as python:
            assert python.send("by-kafka-python", b"x").get(timeout=30).offset == 0
        admin = AdminClient({"bootstrap.servers": creating.kafka})
        assert _is_told_to_create(admin)
        listed = admin.list_topics(timeout=10).topics
        assert {name: len(listed[name].partitions) for name in ("absent", "by-confluent", "by-kafka-python")} == (
            dict.fromkeys(("absent", "by-confluent", "by-kafka-python"), 3)
        )


_OPERATIONS: dict[str, Any] = {
    "include_topic_authorized_operations": True,
    "include_cluster_authorized_operations": False,
    "allow_auto_topic_creation": True,
}
