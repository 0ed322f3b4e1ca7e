"""Topics as Metadata and DescribeTopicPartitions describe them: ids, partitions, and each partition's leader.

The leader is the gateway that commits there most cheaply: the owner of the topic or partition, or the owner of its journal, so
that one Produce carries all topics of a journal. If the owner has no Kafka listener, the leader is the gateway that is asked. Any
other gateway serves the partition as well.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode as KafkaError

from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peer
from gateway.kafka.brokers import Broker, nearest_brokers
from log_format.topic.state import TopicState

LEADER_EPOCH: Final = 0
KEPT_BYTES_MAX: Final = 8 * 1024 * 1024


class DescribedTopic(NamedTuple):
    """A topic's description; equal descriptions have the same encoding. ``leaders`` has one entry if all partitions have the
    same one."""

    name: str
    topic_id: uuid.UUID
    partition_count: int
    leaders: tuple[int, ...]
    operations: int
    near: tuple[int, ...] = ()
    """One broker of each zone, from which the zone's consumers may read (KIP-392)."""

    def leader(self, partition: int) -> int:
        """Return the node id of the partition's leader."""
        return self.leaders[partition if len(self.leaders) > 1 else 0]

    def replicas(self, partition: int) -> tuple[int, ...]:
        """Return the leader, and the other brokers that consumers may read from."""
        leader = self.leader(partition)
        return (leader, *(one for one in self.near if one != leader))


class Leaders:
    """The leader of each partition, as this gateway sees its peers now. ``here``: its own node id."""

    def __init__(self, ownership: Ownership, brokers: list[Broker], here: int) -> None:
        self._ownership = ownership
        self._nodes = {broker.gateway_id: broker.node_id for broker in brokers}
        self._brokers = brokers
        self._here = here if here in self._nodes.values() else brokers[0].node_id

    def of(self, state: TopicState) -> tuple[int, ...]:
        """Return the topic's ``DescribedTopic.leaders``."""
        if self._ownership.mode == "off" or len(self._nodes) < 2:
            return (self._here,)
        if state.attachment is not None:
            return (self._node(self._ownership.of_journal(state.attachment.journal)),)
        owners = state.config.integer("owners")
        if owners == 1:
            return (self._node(self._ownership.of_topic(state.topic)),)
        return tuple(
            self._node(self._ownership.of_partition(state.topic, partition, owners))
            for partition in range(state.partition_count)
        )

    def near(self, topic: str) -> tuple[int, ...]:
        """Return the topic's ``DescribedTopic.near``."""
        return tuple(sorted(nearest_brokers(topic, self._brokers).values()))

    def _node(self, owner: Peer | None) -> int:
        return self._here if owner is None else self._nodes.get(owner.id, self._here)


class EncodedTopics:
    """Cache of topics' encoded entries, for each version: kio takes 50 ms for a thousand topics."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._size_bytes = 0
        self._kept: OrderedDict[tuple[int, DescribedTopic], bytes] = OrderedDict()

    def find_or_encode(self, version: int, topic: DescribedTopic, encode: Callable[[], bytes]) -> bytes:
        """Return the topic's encoded entry in this version, from the cache or by ``encode``."""
        key = (version, topic)
        known = self._kept.get(key)
        if known is not None:
            self._kept.move_to_end(key)
            return known
        made = encode()
        self._kept[key] = made
        self._size_bytes += _size(topic, made)
        while self._size_bytes > self._bytes_max:
            (_, old), gone = self._kept.popitem(last=False)
            self._size_bytes -= _size(old, gone)
        return made


def _size(topic: DescribedTopic, made: bytes) -> int:
    return len(made) + 400 + 8 * (len(topic.leaders) + len(topic.near))


def partitions_of(topic: DescribedTopic, first: int = 0, last: int | None = None) -> list[dict[str, Any]]:
    """Return the partitions ``[first, last)`` as answer fields, by kio's names."""
    return [
        {
            "error_code": KafkaError.none,
            "partition_index": partition,
            "leader_id": topic.leader(partition),
            "leader_epoch": LEADER_EPOCH,
            "replica_nodes": topic.replicas(partition),
            "isr_nodes": topic.replicas(partition),
            "offline_replicas": (),
        }
        for partition in range(first, topic.partition_count if last is None else last)
    ]
