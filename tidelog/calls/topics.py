"""Calls about topics: describe, list, create, delete records, and a partition's offsets.

All of them raise what ``Transport.call`` raises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import msgspec

from tidelog.calls.pages import pages
from tidelog.calls.requests import json_request, read_request
from tidelog.deadline import Deadline
from tidelog.errors import TopicAlreadyExists, UnknownTopic
from tidelog.http.transport import Reply, Transport, target
from tidelog.types.record import TopicPartition
from tidelog.types.topic import Cluster, DamagedTopic, PartitionOffsets, TableCommit, Topic, TopicList


def describe_topic(
    transport: Transport, topic: str, deadline: Deadline, *, patient: bool = False, flush_savings: bool = False
) -> Topic:
    """Return the topic. ``flush_savings``: include the time saved up for early flushes. Raises ``UnknownTopic``."""
    path = target("topics", topic, include="flush_savings" if flush_savings else None)
    return transport.call(read_request(path), deadline, patient=patient).decode(Topic)


def describe_for_producer(transport: Transport, topic: str, deadline: Deadline) -> Topic:
    """Return the topic, which is created first if it is missing and gateways create topics on first use.

    Raises ``UnknownTopic`` if they do not (setting ``auto_create_topics``).
    """
    try:
        return describe_topic(transport, topic, deadline)
    except UnknownTopic:
        if not created_on_first_use(transport, topic, deadline):
            raise
    return describe_topic(transport, topic, deadline)


def created_on_first_use(transport: Transport, topic: str, deadline: Deadline) -> bool:
    """Create a missing topic if gateways create topics on first use, and return whether it exists now."""
    cluster = transport.call(read_request(target("cluster")), deadline).decode(Cluster)
    partition_count = cluster.limits.get("auto_create_topics")
    if not partition_count:
        return False
    with contextlib.suppress(TopicAlreadyExists):  # created concurrently, perhaps with other settings
        create_topic(transport, topic, int(partition_count), {}, deadline)
    return True


def create_topic(
    transport: Transport, topic: str, partition_count: int, config: Mapping[str, int | str], deadline: Deadline
) -> Reply:
    """Create the topic and return the answer: status 201 for a new one, 200 for an equal one. Raises ``TopicAlreadyExists``."""
    body = {"name": topic, "partition_count": partition_count, "config": dict(config)}
    return transport.call(json_request("POST", target("topics"), body, repeatable=True), deadline)


class _Page(msgspec.Struct, frozen=True):
    topics: tuple[Topic, ...]
    damaged: tuple[DamagedTopic, ...] = ()
    next: str | None = None


def list_topics(transport: Transport, timeout_ms: float, prefix: str | None = None) -> TopicList:
    """Return the topics whose name begins with ``prefix``, sorted by name. ``timeout_ms`` is the limit of one page."""

    def ask(after: str | None) -> Reply:
        where = target("topics", prefix=prefix, after=after)
        return transport.call(read_request(where), Deadline(timeout_ms))

    found = TopicList()
    for page in pages(_Page, ask):
        found += page.topics
        found.damaged += page.damaged
    return found


class _Commits(msgspec.Struct, frozen=True):
    commits: list[TableCommit]


def table_commits(transport: Transport, topic: str, limit: int, deadline: Deadline) -> list[TableCommit]:
    """Return the newest commits of the topic's table, at most ``limit``, newest first. Raises ``UnknownTopic``."""
    where = target("topics", topic, "commits", limit=limit)
    return transport.call(read_request(where), deadline).decode(_Commits).commits


class _LogStart(msgspec.Struct, frozen=True):
    partition: int
    log_start_offset: int


class _LogStarts(msgspec.Struct, frozen=True):
    partitions: tuple[_LogStart, ...]


def delete_records(
    transport: Transport, topic: str, before: Mapping[int, int], deadline: Deadline, *, repeatable: bool
) -> dict[int, int]:
    """Delete the records below an offset by partition, and return the new log starts. Raises ``OffsetOutOfRange``,
    ``UnknownTopic``, ``UnknownPartition``."""
    places = [{"partition": partition, "offset": offset} for partition, offset in sorted(before.items())]
    where = target("topics", topic, action="delete-records")
    request = json_request("POST", where, {"before": places}, repeatable=repeatable)
    starts = transport.call(request, deadline).decode(_LogStarts)
    return {start.partition: start.log_start_offset for start in starts.partitions}


def partition_offsets(
    transport: Transport, partition: TopicPartition, timestamp_ms: int | None, deadline: Deadline
) -> PartitionOffsets:
    """Return the partition's log start, high watermark and offset for a time. Raises ``UnknownTopic``, ``UnknownPartition``."""
    where = target("topics", partition.topic, "partitions", partition.partition, "offsets", timestamp=timestamp_ms)
    return transport.call(read_request(where), deadline).decode(PartitionOffsets)
