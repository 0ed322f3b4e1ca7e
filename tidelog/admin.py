"""Topics, their settings and offsets, consumer groups, queues, access, and the cluster: ``Admin``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

from tidelog import limits
from tidelog.arguments import each_of, zstd_available
from tidelog.calls.groups import GroupCalls, as_json_places, list_groups
from tidelog.calls.queues import QueueCalls, list_queues
from tidelog.calls.scheduled import cancel_scheduled, describe_scheduled, list_scheduled
from tidelog.calls.topics import create_topic, describe_topic, list_topics, partition_offsets
from tidelog.calls.transaction_list import TransactionListCalls
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
from tidelog.types.topic import Cluster, PartitionOffsets, Topic, TopicList

END = -1
"""In ``delete_records``: up to the high watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogStart:
    partition: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogStarts:
    partitions: tuple[_LogStart, ...]


class Admin(TransactionListCalls, KnowsKafkaNames, Closing):
    """Administers topics, groups, queues and access through any gateway.

    ::

        with Admin("http://127.0.0.1:8080") as admin:
            admin.create_topic("orders", partition_count=8, exist_ok=True)

    Every call raises the contract's errors as ``tidelog.errors`` has them, ``GatewayUnreachable`` when no gateway took the
    request within ``timeout_ms``, and ``OutcomeUnknown`` when a change may not be repeated and its answer was lost. Safe from
    any thread.
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
        """``bootstrap_servers``, ``connection`` as for ``Producer``.

        ``timeout_ms`` bounds a call, ``request_timeout_ms`` a try.
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
        """Create a topic and return it. Repeated by itself when an answer is lost.

        Raises ``TopicAlreadyExists`` when it exists: with other settings always, with the same ones unless ``exist_ok``. Raises
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
        """Create topics that are alike, one after the other. Raises as ``create_topic``; those before the failed one stand."""
        return each_of(names, lambda name: self.create_topic(name, partition_count, config, exist_ok=exist_ok))

    def list_topics(self, prefix: str | None = None) -> TopicList:
        """All topics, by name; those whose name begins with ``prefix``. Its ``damaged`` names those that can't be read."""
        return list_topics(self._transport, self._timeout_ms, prefix)

    def describe_topic(self, name: str, *, flush_savings: bool = False) -> Topic:
        """One topic; ``flush_savings``: with what the gateway has saved for early flushes. Raises ``UnknownTopic``."""
        return describe_topic(self._transport, name, Deadline(self._timeout_ms), flush_savings=flush_savings)

    def describe_topics(self, names: Iterable[str]) -> list[Topic]:
        """Some topics. Raises ``UnknownTopic`` for the first that is not there."""
        return each_of(names, self.describe_topic)

    def describe_configs(self, names: Iterable[str]) -> dict[str, Mapping[str, int | str]]:
        """The settings of some topics, defaults included, by topic. Raises ``UnknownTopic``."""
        return {topic.name: topic.config for topic in self.describe_topics(names)}

    def alter_topic(
        self, name: str, *, partition_count: int | None = None, config: Mapping[str, int | str | None] | None = None
    ) -> Topic:
        """Add partitions, change settings (None: the default), all or nothing; returns the topic. Repeated by itself.

        Raises ``UnknownTopic``, ``InvalidConfig``, ``RequestRefused``.
        """
        changes: dict[str, Any] = {}
        if partition_count is not None:
            changes["partition_count"] = partition_count
        if config is not None:
            changes["config"] = dict(config)
        return self._call("PATCH", target("topics", name), changes, repeatable=True).decode(Topic)

    def delete_topic(self, name: str, *, missing_ok: bool = False) -> None:
        """Delete the topic with all its records. Never repeated by itself: the second try could meet a new topic.

        Raises ``UnknownTopic`` unless ``missing_ok``, and ``OutcomeUnknown``.
        """
        try:
            self._call("DELETE", target("topics", name), None, repeatable=False)
        except UnknownTopic:
            if not missing_ok:
                raise

    def delete_topics(self, names: Iterable[str], *, missing_ok: bool = False) -> None:
        """Delete topics one after the other. Raises as ``delete_topic``; those before the failed one are gone."""
        each_of(names, lambda name: self.delete_topic(name, missing_ok=missing_ok))

    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """Delete what is below an offset, by partition (``END``: everything there is); all or nothing.

        Returns the log start of each partition named. Repeated by itself unless ``END`` is among the offsets. Raises
        ``OffsetOutOfRange``, ``UnknownTopic``, ``UnknownPartition``.
        """
        places = [{"partition": partition, "offset": offset} for partition, offset in sorted(before.items())]
        where = target("topics", topic, action="delete-records")
        repeatable = END not in before.values()
        starts = self._call("POST", where, {"before": places}, repeatable=repeatable).decode(_LogStarts)
        return {start.partition: start.log_start_offset for start in starts.partitions}

    def offsets(
        self, topic: str, partitions: Iterable[int] | None = None, *, timestamp_ms: int | None = None
    ) -> dict[int, PartitionOffsets]:
        """Where the logs of the partitions (None: all) begin and end, by partition.

        With ``timestamp_ms``, ``offset`` is that of the first record, in offset order, with at least this timestamp. Raises
        ``UnknownTopic``, ``UnknownPartition``.
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
        """The topic's delayed records that wait, in order of their ids; asked for page by page. Raises ``UnknownTopic``."""
        return list_scheduled(self._transport, topic, self._timeout_ms)

    def describe_scheduled(self, topic: str, scheduled_id: str) -> DelayedRecord:
        """A delayed record that waits. Raises ``UnknownScheduled`` once it is delivered or cancelled; ``UnknownTopic``."""
        return describe_scheduled(self._transport, topic, scheduled_id, Deadline(self._timeout_ms))

    def cancel_scheduled(self, topic: str, scheduled_id: str) -> None:
        """Cancel a delayed record: it is never delivered. Never repeated by itself: the second try could not tell.

        Raises ``AlreadyDelivered``, ``UnknownScheduled``, ``UnknownTopic``, ``OutcomeUnknown``.
        """
        cancel_scheduled(self._transport, topic, scheduled_id, Deadline(self._timeout_ms))

    # Consumer groups

    def list_groups(self) -> list[GroupSummary]:
        """All consumer groups, by name."""
        return list_groups(self._transport, Deadline(self._timeout_ms))

    def describe_group(self, group: str) -> Group:
        """A group and its live members. Raises ``UnknownGroup``."""
        return self._group(group).describe(Deadline(self._timeout_ms))

    def delete_group(self, group: str, *, missing_ok: bool = False) -> None:
        """Delete the group and its offsets. Never repeated by itself: the second try could meet a new group.

        Raises ``GroupNotEmpty`` when it has live members, ``UnknownGroup`` unless ``missing_ok``, and ``OutcomeUnknown``.
        """
        try:
            self._group(group).delete(Deadline(self._timeout_ms))
        except UnknownGroup:
            if not missing_ok:
                raise

    def remove_group_member(self, group: str, member_id: str) -> None:
        """Take a member out of its group: its partitions go to others at once. A live client joins again. Repeated by itself.

        Raises ``UnknownGroup``, ``UnknownMember``.
        """
        self._group(group).leave(member_id, Deadline(self._timeout_ms))

    def group_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """What the group has committed. Nothing, when there is no such group."""
        return self._group(group).offsets(Deadline(self._timeout_ms))

    def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, NextOffset]) -> None:
        """Set where a group without live members goes on; creates the group if needed. Repeated by itself.

        Raises ``StaleGeneration`` when it has members, ``OffsetOutOfRange``, ``UnknownTopic``, ``UnknownPartition``.
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
        """Move the committed offsets of a group without live members, in whole ``topics`` or in ``partitions``.

        Offsets are clamped to what the log has. ``preview``: nothing is moved; returned is what would be.

        One of: ``to`` (``"earliest"``, ``"latest"``, an offset), ``timestamp_ms`` (the first record of at least that time),
        ``shift`` (by so many records, backwards when negative). Returns all offsets that the group has committed afterwards.
        Repeated by itself, but not a ``shift``. Raises ``GroupNotEmpty``, ``UnknownTopic``, ``UnknownPartition``; for a
        ``shift`` ``NoCommittedOffset``.
        """
        if (topics is None) == (partitions is None):
            raise ValueError("give topics or partitions")
        if sum(each is not None for each in (to, timestamp_ms, shift)) != 1:
            raise ValueError("give one of to, timestamp_ms and shift")
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
        """Forget what a group has committed for ``topics`` or ``partitions``; returns what is left. Repeated by itself.

        Raises ``GroupNotEmpty`` where a live member subscribes to one of the topics, ``UnknownGroup``.
        """
        if (topics is None) == (partitions is None):
            raise ValueError("give topics or partitions")
        where = {"topics": list(topics)} if topics is not None else {"partitions": as_json_places(partitions or ())}
        return self._group(group).delete_offsets(where, Deadline(self._timeout_ms))

    def group_lag(self, group: str) -> GroupLag:
        """How far a group is behind, in all partitions of the topics that it reads or has read. Raises ``UnknownGroup``."""
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
        """Make a queue over these topics, or replace all settings of the one of this name. Repeated by itself.

        ``start``: where a new queue begins, ``"latest"``, ``"earliest"`` or a time in milliseconds. ``lock_ms``: how long a
        record is locked for its receiver. ``max_deliveries``: then it is a dead letter. ``backoff_ms``: pauses before the
        second delivery, the third, …; the last one holds for all others. ``order`` ``"key"``: one record of a key at a time.
        ``expired``: what becomes of records past their ``expires_at``. None, where it is a default: the gateway's.

        Raises ``QueueAlreadyExists`` for another ``start`` than it has, ``UnknownTopic``, ``RequestRefused``.
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
        """All queues, by name; without their partitions."""
        return list_queues(self._transport, Deadline(self._timeout_ms))

    def describe_queue(self, queue: str) -> Queue:
        """One queue, and how far it is in each partition. Raises ``UnknownQueue``."""
        return self._queue(queue).describe(Deadline(self._timeout_ms))

    def delete_queue(self, queue: str, *, missing_ok: bool = False) -> None:
        """Delete a queue; its topics stay. Never repeated by itself: the second try could meet a new queue.

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
        """Produce a queue's dead letters again, each to its own topic or to ``to_topic``; returns how many.

        A record that says that the queue put it there, where nothing proves it, ends it (``RequestRefused`` with its place), is
        skipped, or is produced as the others, as ``unproved`` has it.

        Raises ``NoDeadLetterTopic``, ``UnknownQueue``, ``OutcomeUnknown``: ask again, each dead letter goes once.
        """
        return self._queue(queue).redrive(to_topic, max_records, unproved, Deadline(self._timeout_ms))

    def cluster(self) -> Cluster:
        """The live gateways, their store and limits."""
        return self._get(target("cluster")).decode(Cluster)

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        self._transport.close()

    def __repr__(self) -> str:
        """Where it asks; no token."""
        return f"<Admin {','.join(self._transport.urls)}>"

    def _group(self, group: str) -> GroupCalls:
        return GroupCalls(self._transport, group)

    def _queue(self, queue: str) -> QueueCalls:
        return QueueCalls(self._transport, queue)
