"""``Admin``: topics, their settings and offsets, consumer groups, queues, access, schemas, and the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Unpack

from tidelog import limits
from tidelog.arguments import each_of, zstd_available
from tidelog.calls.clones import CloneCalls
from tidelog.calls.erasures import ErasureCalls
from tidelog.calls.groups import GroupCalls, as_json_places, list_groups
from tidelog.calls.queues import QueueCalls, list_queues
from tidelog.calls.scheduled import cancel_scheduled, describe_scheduled, list_scheduled
from tidelog.calls.schemas import Schemas
from tidelog.calls.topic_summaries import TopicSummaryCalls
from tidelog.calls.topics import (
    create_topic,
    delete_records,
    describe_topic,
    list_topics,
    partition_offsets,
    table_commits,
)
from tidelog.closing import Closing
from tidelog.deadline import Deadline
from tidelog.errors import TopicAlreadyExists, UnknownGroup, UnknownQueue, UnknownTopic
from tidelog.http.credentials import ConnectionSettings
from tidelog.http.transport import Transport, target
from tidelog.kafka_names import ADMIN, KnowsKafkaNames, takes_kafka_names
from tidelog.types.filter import Filter
from tidelog.types.group import CommittedOffset, Group, GroupLag, GroupMetadata, GroupSummary, NextOffset
from tidelog.types.queue import Queue
from tidelog.types.record import TopicPartition
from tidelog.types.scheduled import DelayedRecord, ScheduledRecord
from tidelog.types.topic import Cluster, PartitionOffsets, TableCommit, Topic, TopicList

END = -1
"""Offset for ``delete_records`` that stands for the partition's high watermark."""


class Admin(CloneCalls, ErasureCalls, TopicSummaryCalls, KnowsKafkaNames, Closing):
    """Client that administers topics, groups, queues, access and schemas through any gateway.

    ::

        with Admin("http://127.0.0.1:8080") as admin:
            admin.create_topic("orders", partition_count=8, exist_ok=True)

    Every call raises the API's errors as classes of ``tidelog.errors``, ``GatewayUnreachable`` when no gateway accepted the
    request within ``timeout_ms``, and ``OutcomeUnknown`` when the answer to a change that must not be retried was lost.
    Thread-safe.
    """

    @takes_kafka_names(ADMIN)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        timeout_ms: float = limits.API_TIMEOUT_MS,
        request_timeout_ms: float = limits.REQUEST_TIMEOUT_MS,
        **connection: Unpack[ConnectionSettings],
    ) -> None:
        """Create the client without connecting yet.

        Args:
            bootstrap_servers: as for ``Producer``.
            timeout_ms: limit of one call, retries included.
            request_timeout_ms: limit of one attempt.
            connection: as for ``Producer``.
        """
        transport = Transport(
            bootstrap_servers,
            request_timeout_ms=request_timeout_ms,
            accept_encoding="zstd" if zstd_available() else "gzip",
            **connection,
        )
        super().__init__(transport, timeout_ms)

    def create_topic(
        self,
        name: str,
        partition_count: int = 1,
        config: Mapping[str, int | str] | None = None,
        *,
        exist_ok: bool = False,
    ) -> Topic:
        """Create a topic and return it. The call is retried automatically when an answer is lost.

        Raises ``TopicAlreadyExists`` if the topic exists with other settings, or with the same settings unless ``exist_ok``;
        ``InvalidTopicName``, ``InvalidConfig``.
        """
        reply = create_topic(self._transport, name, partition_count, config or {}, Deadline(self._timeout_ms))
        if reply.status == 200 and not exist_ok and not reply.repeated:
            raise TopicAlreadyExists(f"Topic {name!r} exists already, with the same settings.", status=409)
        return reply.decode(Topic)

    def create_topics(
        self,
        names: Iterable[str],
        partition_count: int = 1,
        config: Mapping[str, int | str] | None = None,
        *,
        exist_ok: bool = False,
    ) -> list[Topic]:
        """Create topics with equal settings, one after another, as ``create_topic``; those made before an error remain."""
        return each_of(names, lambda name: self.create_topic(name, partition_count, config, exist_ok=exist_ok))

    def list_topics(self, prefix: str | None = None) -> TopicList:
        """Return all topics, or those whose name begins with ``prefix``, sorted by name. ``damaged`` of the list names
        unreadable topics."""
        return list_topics(self._transport, self._timeout_ms, prefix)

    def describe_topic(self, name: str, *, flush_savings: bool = False) -> Topic:
        """Return one topic. ``flush_savings``: include the time that the gateway has saved up for early flushes. Raises
        ``UnknownTopic``."""
        return describe_topic(self._transport, name, Deadline(self._timeout_ms), flush_savings=flush_savings)

    def describe_topics(self, names: Iterable[str]) -> list[Topic]:
        """Return the named topics. Raises ``UnknownTopic`` for the first name without a topic."""
        return each_of(names, self.describe_topic)

    def describe_configs(self, names: Iterable[str]) -> dict[str, Mapping[str, int | str]]:
        """Return the settings of the named topics, defaults included, by topic. Raises ``UnknownTopic``."""
        return {topic.name: topic.config for topic in self.describe_topics(names)}

    def table_commits(self, name: str, limit: int = 20) -> list[TableCommit]:
        """Return the newest commits of the topic's table, at most ``limit`` (50), newest first. Raises ``UnknownTopic``."""
        return table_commits(self._transport, name, limit, Deadline(self._timeout_ms))

    def alter_topic(
        self, name: str, *, partition_count: int | None = None, config: Mapping[str, int | str | None] | None = None
    ) -> Topic:
        """Add partitions and change settings (None resets one to its default), all or nothing, and return the topic.

        Retried automatically. Raises ``UnknownTopic``, ``InvalidConfig``, ``RequestRefused``.
        """
        changes: dict[str, Any] = {}
        if partition_count is not None:
            changes["partition_count"] = partition_count
        if config is not None:
            changes["config"] = dict(config)
        return self._call("PATCH", target("topics", name), changes, repeatable=True).decode(Topic)

    def delete_topic(self, name: str, *, missing_ok: bool = False, force: bool = False) -> None:
        """Delete the topic with all its records. Never retried: a retry could delete a new topic of the same name.

        Raises ``UnknownTopic`` unless ``missing_ok``, ``TopicHasPins`` unless ``force``, and ``OutcomeUnknown``.
        """
        try:
            self._call("DELETE", target("topics", name, delete_pins="true" if force else None), None, repeatable=False)
        except UnknownTopic:
            if not missing_ok:
                raise

    def delete_topics(self, names: Iterable[str], *, missing_ok: bool = False) -> None:
        """Delete topics one after another. Raises as ``delete_topic``; topics deleted before the error stay deleted."""
        each_of(names, lambda name: self.delete_topic(name, missing_ok=missing_ok))

    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """Delete the records below an offset in each given partition (``END``: all records), all or nothing.

        Returns the new log start of each given partition. The call is retried automatically unless ``END`` is among the
        offsets. Raises ``OffsetOutOfRange``, ``UnknownTopic``, ``UnknownPartition``.
        """
        repeatable = END not in before.values()
        return delete_records(self._transport, topic, before, Deadline(self._timeout_ms), repeatable=repeatable)

    def offsets(
        self, topic: str, partitions: Iterable[int] | None = None, *, timestamp_ms: int | None = None
    ) -> dict[int, PartitionOffsets]:
        """Return where the log of each partition (None: of all partitions) begins and ends, by partition.

        With ``timestamp_ms`` (milliseconds since the epoch), ``offset`` is that of the first record, in offset order, with at
        least this timestamp. Raises ``UnknownTopic``, ``UnknownPartition``.
        """
        wanted = range(self.describe_topic(topic).partition_count) if partitions is None else partitions
        return {
            partition: partition_offsets(
                self._transport, TopicPartition(topic, partition), timestamp_ms, Deadline(self._timeout_ms)
            )
            for partition in wanted
        }

    # Delayed records

    def list_scheduled(self, topic: str) -> Iterator[ScheduledRecord]:
        """Yield the topic's undelivered delayed records, sorted by id; pages are requested as needed. Raises ``UnknownTopic``."""
        return list_scheduled(self._transport, topic, self._timeout_ms)

    def describe_scheduled(self, topic: str, scheduled_id: str) -> DelayedRecord:
        """Return one undelivered delayed record. Raises ``UnknownScheduled`` once it is delivered or cancelled;
        ``UnknownTopic``."""
        return describe_scheduled(self._transport, topic, scheduled_id, Deadline(self._timeout_ms))

    def cancel_scheduled(self, topic: str, scheduled_id: str) -> None:
        """Cancel a delayed record, so that it is never delivered. The call is never retried: a retry could not tell who
        cancelled it.

        Raises ``AlreadyDelivered``, ``UnknownScheduled``, ``UnknownTopic``, ``OutcomeUnknown``.
        """
        cancel_scheduled(self._transport, topic, scheduled_id, Deadline(self._timeout_ms))

    # Consumer groups

    def list_groups(self) -> list[GroupSummary]:
        """Return all consumer groups, sorted by name."""
        return list_groups(self._transport, Deadline(self._timeout_ms))

    def describe_group(self, group: str) -> Group:
        """Return a group and its live members. Raises ``UnknownGroup``."""
        return self._group(group).describe(Deadline(self._timeout_ms))

    def delete_group(self, group: str, *, missing_ok: bool = False) -> None:
        """Delete the group and its offsets. The call is never retried: a retry could delete a new group of the same name.

        Raises ``GroupNotEmpty`` when the group has live members, ``UnknownGroup`` unless ``missing_ok``, and
        ``OutcomeUnknown``.
        """
        try:
            self._group(group).delete(Deadline(self._timeout_ms))
        except UnknownGroup:
            if not missing_ok:
                raise

    def remove_group_member(self, group: str, member_id: str) -> None:
        """Remove a member: the group reassigns its partitions immediately, and a live client rejoins. Retried automatically.

        Raises ``UnknownGroup``, ``UnknownMember``.
        """
        self._group(group).leave(member_id, Deadline(self._timeout_ms))

    def group_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Return the offsets that the group has committed; empty if there is no such group."""
        return self._group(group).offsets(Deadline(self._timeout_ms))

    def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, NextOffset]) -> None:
        """Set the committed offsets of a group without live members; a missing group is created. The call is retried
        automatically.

        Raises ``StaleGeneration`` when the group has members, ``OffsetOutOfRange``, ``UnknownTopic``, ``UnknownPartition``.
        """
        self._group(group).commit(offsets, GroupMetadata(group), None, Deadline(self._timeout_ms))

    def reset_group(
        self,
        group: str,
        to: str | int | None = None,
        *,
        topics: Iterable[str] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
        timestamp_ms: int | None = None,
        shift: int | None = None,
        preview: bool = False,
    ) -> dict[TopicPartition, CommittedOffset]:
        """Move the committed offsets of a group without live members, and return all its committed offsets.

        Offsets are clamped to the log. The call is retried automatically, except with ``shift``.

        Args:
            to: ``"earliest"``, ``"latest"`` or an offset. Give exactly one of ``to``, ``timestamp_ms`` and ``shift``.
            topics: topics to move in, in all their partitions. Give either ``topics`` or ``partitions``.
            partitions: single partitions to move in.
            timestamp_ms: move to the first record of at least this time.
            shift: move by this many records, backwards when negative.
            preview: move nothing, and return what the offsets would be.

        Raises ``GroupNotEmpty``, ``UnknownTopic``, ``UnknownPartition``; with ``shift`` also ``NoCommittedOffset``.
        """
        if (topics is None) == (partitions is None):
            raise ValueError("give either topics or partitions")
        if sum(each is not None for each in (to, timestamp_ms, shift)) != 1:
            raise ValueError("give exactly one of to, timestamp_ms and shift")
        goal: str | dict[str, int]
        if isinstance(to, str):
            goal = to
        else:
            name, number = ("offset", to) if to is not None else ("timestamp", timestamp_ms)
            goal = {"shift": shift} if shift is not None else {name: number or 0}
        where = {"topics": list(topics)} if topics is not None else {"partitions": as_json_places(partitions or ())}
        return self._group(group).reset(where, goal, Deadline(self._timeout_ms), preview=preview)

    def delete_group_offsets(
        self, group: str, *, topics: Iterable[str] | None = None, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Delete what a group has committed for ``topics`` or ``partitions``, and return what is left. Retried automatically.

        Raises ``GroupNotEmpty`` where a live member subscribes to one of the topics, ``UnknownGroup``.
        """
        if (topics is None) == (partitions is None):
            raise ValueError("give either topics or partitions")
        where = {"topics": list(topics)} if topics is not None else {"partitions": as_json_places(partitions or ())}
        return self._group(group).delete_offsets(where, Deadline(self._timeout_ms))

    def group_lag(self, group: str) -> GroupLag:
        """Return a group's lag in all partitions of the topics that it reads or has read. Raises ``UnknownGroup``."""
        return self._group(group).lag(Deadline(self._timeout_ms))

    def create_queue(
        self,
        queue: str,
        topics: Sequence[str],
        *,
        start: str | int | None = None,
        lock_ms: int | None = None,
        max_deliveries: int | None = None,
        dead_letter_topic: str | None = None,
        backoff_ms: Sequence[int] = (),
        max_in_flight: int | None = None,
        order: Literal["none", "key"] = "none",
        expired: Literal["drop", "dead_letter"] = "drop",
        filter: Filter | None = None,  # noqa: A002 - as the HTTP API has it
    ) -> Queue:
        """Create a queue over these topics, or replace all settings of the queue of this name. Retried automatically.

        Args:
            start: where a new queue begins: ``"latest"``, ``"earliest"`` or milliseconds since the epoch.
            lock_ms: how long a record is locked for its receiver.
            max_deliveries: after this many deliveries a record becomes a dead letter.
            dead_letter_topic: where dead letters go; without one they are dropped.
            backoff_ms: pauses before the second, third, … delivery; the last one is used for all further ones.
            max_in_flight: records of one partition that may be locked at the same time.
            order: ``"key"`` delivers one record of a key at a time.
            expired: what happens to records past their ``expires_at``.
            filter: which records the queue delivers.

        None leaves a setting to the gateway's default. Raises ``QueueAlreadyExists`` when the queue exists with another
        ``start``, ``UnknownTopic``, ``RequestRefused``.
        """
        given = {
            "start": {"timestamp": start} if isinstance(start, int) else start,
            "lock_ms": lock_ms,
            "max_deliveries": max_deliveries,
            "dead_letter_topic": dead_letter_topic,
            "max_in_flight": max_in_flight,
            "filter": None if filter is None else filter.member(),
        }
        body: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        body |= {"topics": list(topics), "backoff_ms": list(backoff_ms), "order": order, "expired": expired}
        return self._queue(queue).put(body, Deadline(self._timeout_ms))

    def list_queues(self) -> list[Queue]:
        """Return all queues, sorted by name, without their partitions."""
        return list_queues(self._transport, Deadline(self._timeout_ms))

    def describe_queue(self, queue: str) -> Queue:
        """Return one queue with its progress in each partition. Raises ``UnknownQueue``."""
        return self._queue(queue).describe(Deadline(self._timeout_ms))

    def delete_queue(self, queue: str, *, missing_ok: bool = False) -> None:
        """Delete a queue; its topics stay. The call is never retried: a retry could delete a new queue of the same name.

        Raises ``UnknownQueue`` unless ``missing_ok``, and ``OutcomeUnknown``.
        """
        try:
            self._queue(queue).delete(Deadline(self._timeout_ms))
        except UnknownQueue:
            if not missing_ok:
                raise

    def redrive_queue(
        self,
        queue: str,
        *,
        to_topic: str | None = None,
        max_records: int | None = None,
        unproved: Literal["stop", "skip", "produce"] | None = None,
    ) -> int:
        """Produce a queue's dead letters again, each to its own topic or to ``to_topic``, and return their number.

        ``unproved`` decides about a record that claims to be a dead letter of the queue without proof: ``"stop"`` ends the
        redrive with ``RequestRefused``, which says where the record is, ``"skip"`` skips it, and ``"produce"`` produces it like
        the others.

        Raises ``NoDeadLetterTopic``, ``UnknownQueue``, and ``OutcomeUnknown``: call again, since each dead letter is produced
        once.
        """
        return self._queue(queue).redrive(to_topic, max_records, unproved, Deadline(self._timeout_ms))

    def schemas(self) -> Schemas:
        """Return the client of the schema registry, for as long as this client is open."""
        return Schemas(self._transport, self._timeout_ms)

    def cluster(self, *, maintenance: bool = False) -> Cluster:
        """Return the live gateways, their store and limits. ``maintenance``: include when maintenance ran last."""
        return self._get(target("cluster", include="maintenance" if maintenance else None)).decode(Cluster)

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        self._transport.close()

    def __repr__(self) -> str:
        """Show the gateways' URLs, without the token."""
        return f"<Admin {','.join(self._transport.urls)}>"

    def _group(self, group: str) -> GroupCalls:
        return GroupCalls(self._transport, group)

    def _queue(self, queue: str) -> QueueCalls:
        return QueueCalls(self._transport, queue)
