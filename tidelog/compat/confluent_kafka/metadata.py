"""What ``list_topics`` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.admin import Admin
from tidelog.compat.confluent_kafka.errors import KafkaError, kafka_error, translated
from tidelog.errors import UnknownTopic
from tidelog.types.topic import Topic


@dataclass(slots=True)
class PartitionMetadata:
    """A partition. Its leader is the gateway: 0."""

    id: int
    leader: int = 0
    replicas: list[int] = field(default_factory=lambda: [0])
    isrs: list[int] = field(default_factory=lambda: [0])
    error: KafkaError | None = None


@dataclass(slots=True)
class TopicMetadata:
    """A topic."""

    topic: str
    partitions: dict[int, PartitionMetadata] = field(default_factory=dict)
    error: KafkaError | None = None


@dataclass(slots=True)
class BrokerMetadata:
    """A gateway."""

    id: int
    host: str
    port: int = 0


@dataclass(slots=True)
class ClusterMetadata:
    """Gateways and topics, by number and by name."""

    cluster_id: str | None
    controller_id: int
    brokers: dict[int, BrokerMetadata]
    topics: dict[str, TopicMetadata]
    orig_broker_id: int = 0
    orig_broker_name: str = ""


def metadata_of(connection: Mapping[str, Any], topic: str | None, timeout_s: float) -> ClusterMetadata:
    """Asked for now. A topic that there is not has an error. Raises ``KafkaException``."""
    times: dict[str, Any] = {} if timeout_s < 0 else {"timeout_ms": max(1.0, timeout_s * 1000)}
    with translated(), Admin(**connection, **times) as admin:
        cluster = admin.cluster()
        topics: dict[str, TopicMetadata] = {}
        if topic is None:
            topics = {each.name: _topic(each) for each in admin.list_topics()}
        else:
            try:
                topics[topic] = _topic(admin.describe_topic(topic))
            except UnknownTopic as error:
                topics[topic] = TopicMetadata(topic, error=kafka_error(error))
    brokers = {number: BrokerMetadata(number, each.url) for number, each in enumerate(cluster.gateways)}
    return ClusterMetadata(cluster.store, 0, brokers, topics)


def _topic(topic: Topic) -> TopicMetadata:
    return TopicMetadata(topic.name, {number: PartitionMetadata(number) for number in range(topic.partition_count)})
