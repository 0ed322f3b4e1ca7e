"""Topics, their settings and offsets, consumer groups, and the cluster: ``Admin``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import msgspec

from tidelog import limits
from tidelog.bodies.encode import JSON
from tidelog.calls.groups import GroupCalls, as_json_places, list_groups
from tidelog.calls.topics import describe_topic, list_topics, partition_offsets
from tidelog.deadline import Deadline
from tidelog.errors import TopicAlreadyExists, UnknownGroup, UnknownTopic
from tidelog.http.transport import Reply, Request, Transport, target
from tidelog.types.group import CommittedOffset, Group, GroupLag, GroupMetadata, GroupSummary
from tidelog.types.record import TopicPartition
from tidelog.types.topic import Cluster, PartitionOffsets, Topic

END = -1
"""In ``delete_records``: up to the high watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogStart:
    partition: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogStarts:
    partitions: tuple[_LogStart, ...]


class Admin:
    """Administers topics and groups through any gateway.

    ::

        with Admin("http://127.0.0.1:8080") as admin:
            admin.create_topic("orders", partition_count=8, exist_ok=True)

    Every call raises the contract's errors as ``tidelog.errors`` has them, ``GatewayUnreachable`` when no gateway took the
    request within ``timeout_ms``, and ``OutcomeUnknown`` when a change may not be repeated and its answer was lost. Safe from
    any thread.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        timeout_ms: float = limits.API_TIMEOUT_MS,
        request_timeout_ms: float = limits.REQUEST_TIMEOUT_MS,
        ca_file: str | None = None,
    ) -> None:
        """``bootstrap_servers``, ``ca_file`` as for ``Producer``; ``timeout_ms`` bounds a call, ``request_timeout_ms`` a try."""
        self._transport = Transport(
            bootstrap_servers, request_timeout_ms=request_timeout_ms, accept_encoding="zstd", ca_file=ca_file
        )
        self._timeout_ms = timeout_ms

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
        body = {"name": name, "partition_count": partition_count, "config": dict(config or {})}
        reply = self._call("POST", target("topics"), body, repeatable=True)
        if reply.status == 200 and not exist_ok and not reply.repeated:
            raise TopicAlreadyExists(f"Topic {name!r} exists already, with the same settings.", status=409)
        return reply.decode(Topic)

    def list_topics(self, prefix: str | None = None) -> list[Topic]:
        """All topics, by name; those whose name begins with ``prefix``."""
        return list_topics(self._transport, self._timeout_ms, prefix)

    def describe_topic(self, name: str) -> Topic:
        """One topic. Raises ``UnknownTopic``."""
        return describe_topic(self._transport, name, Deadline(self._timeout_ms))

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

    def group_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """What the group has committed. Nothing, when there is no such group."""
        return self._group(group).offsets(Deadline(self._timeout_ms))

    def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
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
    ) -> dict[TopicPartition, CommittedOffset]:
        """Move the committed offsets of a group without live members, in whole ``topics`` or in ``partitions``.

        Offsets are clamped to what the log has.

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
        return self._group(group).reset(where, goal, Deadline(self._timeout_ms))

    def group_lag(self, group: str) -> GroupLag:
        """How far a group is behind, in all partitions of the topics that it reads or has read. Raises ``UnknownGroup``."""
        return self._group(group).lag(Deadline(self._timeout_ms))

    def cluster(self) -> Cluster:
        """The live gateways, their store and limits."""
        request = Request(method="GET", target=target("cluster"), repeatable=True, reads=True)
        return self._transport.call(request, Deadline(self._timeout_ms)).decode(Cluster)

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        self._transport.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close."""
        self.close()

    def _group(self, group: str) -> GroupCalls:
        return GroupCalls(self._transport, group)

    def _call(self, method: str, where: str, body: object, *, repeatable: bool) -> Reply:
        request = Request(
            method=method,
            target=where,
            body=None if body is None else msgspec.json.encode(body),
            content_type=None if body is None else JSON,
            repeatable=repeatable,
        )
        return self._transport.call(request, Deadline(self._timeout_ms))
