"""Topics as gateways describe them: one, all, and where a partition's log begins and ends.

One call creates a topic, where gateways let producers do so. Everything raises what ``Transport.call`` raises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import msgspec

from tidelog.bodies.encode import JSON
from tidelog.calls.pages import paged
from tidelog.deadline import Deadline
from tidelog.errors import TopicAlreadyExists, UnknownTopic
from tidelog.http.transport import Reply, Request, Transport, target
from tidelog.types.record import TopicPartition
from tidelog.types.topic import Cluster, PartitionOffsets, Topic


def describe_topic(transport: Transport, topic: str, deadline: Deadline, *, patient: bool = False) -> Topic:
    """The topic as the gateway sees it. Raises ``UnknownTopic``."""
    request = Request(method="GET", target=target("topics", topic), repeatable=True, reads=True)
    return transport.call(request, deadline, patient=patient).decode(Topic)


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
    asked = Request(method="GET", target=target("cluster"), repeatable=True, reads=True)
    partition_count = transport.call(asked, deadline).decode(Cluster).limits.get("auto_create_topics")
    if not partition_count:
        return False
    with contextlib.suppress(TopicAlreadyExists):  # by another producer, or with settings of its own
        create_topic(transport, topic, int(partition_count), {}, deadline)
    return True


def create_topic(
    transport: Transport, topic: str, partition_count: int, config: Mapping[str, int | str], deadline: Deadline
) -> Reply:
    """The answer has the topic: 201 for a new one, 200 for one that is the same. Raises ``TopicAlreadyExists``."""
    body = msgspec.json.encode({"name": topic, "partition_count": partition_count, "config": dict(config)})
    request = Request(method="POST", target=target("topics"), body=body, content_type=JSON, repeatable=True)
    return transport.call(request, deadline)


def list_topics(transport: Transport, timeout_ms: float, prefix: str | None = None) -> list[Topic]:
    """The topics whose name begins with ``prefix``, by name. Each page has ``timeout_ms``."""

    def page(after: str | None) -> Reply:
        where = target("topics", prefix=prefix, after=after)
        return transport.call(Request(method="GET", target=where, repeatable=True, reads=True), Deadline(timeout_ms))

    return list(paged("topics", Topic, page))


def partition_offsets(
    transport: Transport, partition: TopicPartition, timestamp_ms: int | None, deadline: Deadline
) -> PartitionOffsets:
    """Where the partition's log begins and ends, and the offset for a time. Raises ``UnknownTopic``, ``UnknownPartition``."""
    where = target("topics", partition.topic, "partitions", partition.partition, "offsets", timestamp=timestamp_ms)
    request = Request(method="GET", target=where, repeatable=True, reads=True)
    return transport.call(request, deadline).decode(PartitionOffsets)
