"""Topics as gateways describe them: one, all, and where a partition's log begins and ends.

One call creates a topic, where gateways let producers do so. Everything raises what ``Transport.call`` raises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import msgspec

from tidelog.calls.pages import pages
from tidelog.calls.requests import json_request, read_of
from tidelog.deadline import Deadline
from tidelog.errors import TopicAlreadyExists, UnknownTopic
from tidelog.http.transport import Reply, Transport, target
from tidelog.types.record import TopicPartition
from tidelog.types.topic import Cluster, DamagedTopic, PartitionOffsets, Topic, TopicList


def describe_topic(
    transport: Transport, topic: str, deadline: Deadline, *, patient: bool = False, flush_savings: bool = False
) -> Topic:
    """The topic as the gateway sees it; ``flush_savings``: with what it has saved for early flushes. Raises ``UnknownTopic``."""
    path = target("topics", topic, include="flush_savings" if flush_savings else None)
    return transport.call(read_of(path), deadline, patient=patient).decode(Topic)


def describe_for_producer(transport: Transport, topic: str, deadline: Deadline) -> Topic:
    """The topic. A missing one is created where the gateway's ``auto_create_topics`` says with how many partitions.

    Raises ``UnknownTopic`` where it does not.
    """
    try:
        return describe_topic(transport, topic, deadline)
    except UnknownTopic:
        if not created_on_first_use(transport, topic, deadline):
            raise
    return describe_topic(transport, topic, deadline)


def created_on_first_use(transport: Transport, topic: str, deadline: Deadline) -> bool:
    """Create a missing topic where gateways let producers do so; whether it is there now."""
    cluster = transport.call(read_of(target("cluster")), deadline).decode(Cluster)
    partition_count = cluster.limits.get("auto_create_topics")
    if not partition_count:
        return False
    with contextlib.suppress(TopicAlreadyExists):  # by another producer, or with settings of its own
        create_topic(transport, topic, int(partition_count), {}, deadline)
    return True


def create_topic(
    transport: Transport, topic: str, partition_count: int, config: Mapping[str, int | str], deadline: Deadline
) -> Reply:
    """The answer has the topic: 201 for a new one, 200 for one that is the same. Raises ``TopicAlreadyExists``."""
    body = {"name": topic, "partition_count": partition_count, "config": dict(config)}
    return transport.call(json_request("POST", target("topics"), body, repeatable=True), deadline)


class _Page(msgspec.Struct, frozen=True):
    topics: tuple[Topic, ...]
    damaged: tuple[DamagedTopic, ...] = ()
    next: str | None = None


def list_topics(transport: Transport, timeout_ms: float, prefix: str | None = None) -> TopicList:
    """The topics whose name begins with ``prefix``, by name. Each page has ``timeout_ms``."""

    def ask(after: str | None) -> Reply:
        where = target("topics", prefix=prefix, after=after)
        return transport.call(read_of(where), Deadline(timeout_ms))

    found = TopicList()
    for page in pages(_Page, ask):
        found += page.topics
        found.damaged += page.damaged
    return found


def partition_offsets(
    transport: Transport, partition: TopicPartition, timestamp_ms: int | None, deadline: Deadline
) -> PartitionOffsets:
    """Where the partition's log begins and ends, and the offset for a time. Raises ``UnknownTopic``, ``UnknownPartition``."""
    where = target("topics", partition.topic, "partitions", partition.partition, "offsets", timestamp=timestamp_ms)
    return transport.call(read_of(where), deadline).decode(PartitionOffsets)
