"""Topics as gateways describe them: one, all, and where a partition's log begins and ends.

Nothing here changes a topic. Everything raises what ``Transport.call`` raises.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.deadline import Deadline
from tidelog.http.transport import Request, Transport, target
from tidelog.types.record import TopicPartition
from tidelog.types.topic import PartitionOffsets, Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    topics: tuple[Topic, ...]
    next: str | None = None


def describe_topic(transport: Transport, topic: str, deadline: Deadline, *, patient: bool = False) -> Topic:
    """The topic as the gateway sees it. Raises ``UnknownTopic``."""
    request = Request(method="GET", target=target("topics", topic), repeatable=True, reads=True)
    return transport.call(request, deadline, patient=patient).decode(Topic)


def list_topics(transport: Transport, timeout_ms: float, prefix: str | None = None) -> list[Topic]:
    """The topics whose name begins with ``prefix``, by name. Each page has ``timeout_ms``."""
    topics: list[Topic] = []
    after: str | None = None
    while True:
        where = target("topics", prefix=prefix, after=after)
        reply = transport.call(Request(method="GET", target=where, repeatable=True, reads=True), Deadline(timeout_ms))
        page = reply.decode(_Page)
        topics += page.topics
        after = page.next
        if after is None:
            return topics


def partition_offsets(
    transport: Transport, partition: TopicPartition, timestamp_ms: int | None, deadline: Deadline
) -> PartitionOffsets:
    """Where the partition's log begins and ends, and the offset for a time. Raises ``UnknownTopic``, ``UnknownPartition``."""
    where = target("topics", partition.topic, "partitions", partition.partition, "offsets", timestamp=timestamp_ms)
    request = Request(method="GET", target=where, repeatable=True, reads=True)
    return transport.call(request, deadline).decode(PartitionOffsets)
