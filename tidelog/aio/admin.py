"""Topics, their settings and offsets, consumer groups, and the cluster from asyncio: ``Admin``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

import tidelog.admin
from tidelog import limits
from tidelog.aio.in_thread import in_thread
from tidelog.types.group import CommittedOffset, Group, GroupLag, GroupSummary
from tidelog.types.record import TopicPartition
from tidelog.types.topic import Cluster, PartitionOffsets, Topic


class Admin:
    """As ``tidelog.Admin``.

    Cancelling a call does not undo its change: the change may have happened, or the thread still makes it.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        timeout_ms: float = limits.API_TIMEOUT_MS,
        request_timeout_ms: float = limits.REQUEST_TIMEOUT_MS,
        ca_file: str | None = None,
    ) -> None:
        """As ``tidelog.Admin``."""
        self._admin = tidelog.admin.Admin(
            bootstrap_servers, timeout_ms=timeout_ms, request_timeout_ms=request_timeout_ms, ca_file=ca_file
        )

    async def create_topic(
        self,
        name: str,
        partition_count: int = 1,
        config: Mapping[str, int | str] | None = None,
        *,
        exist_ok: bool = False,
    ) -> Topic:
        """As ``tidelog.Admin.create_topic``."""
        call = in_thread(lambda: self._admin.create_topic(name, partition_count, config, exist_ok=exist_ok))
        return await asyncio.shield(call)

    async def list_topics(self, prefix: str | None = None) -> list[Topic]:
        """As ``tidelog.Admin.list_topics``."""
        return await asyncio.shield(in_thread(lambda: self._admin.list_topics(prefix)))

    async def describe_topic(self, name: str) -> Topic:
        """As ``tidelog.Admin.describe_topic``."""
        return await asyncio.shield(in_thread(lambda: self._admin.describe_topic(name)))

    async def alter_topic(
        self, name: str, *, partition_count: int | None = None, config: Mapping[str, int | str | None] | None = None
    ) -> Topic:
        """As ``tidelog.Admin.alter_topic``."""
        call = in_thread(lambda: self._admin.alter_topic(name, partition_count=partition_count, config=config))
        return await asyncio.shield(call)

    async def delete_topic(self, name: str, *, missing_ok: bool = False) -> None:
        """As ``tidelog.Admin.delete_topic``."""
        await asyncio.shield(in_thread(lambda: self._admin.delete_topic(name, missing_ok=missing_ok)))

    async def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """As ``tidelog.Admin.delete_records``."""
        return await asyncio.shield(in_thread(lambda: self._admin.delete_records(topic, before)))

    async def offsets(
        self, topic: str, partitions: Iterable[int] | None = None, *, timestamp_ms: int | None = None
    ) -> dict[int, PartitionOffsets]:
        """As ``tidelog.Admin.offsets``."""
        call = in_thread(lambda: self._admin.offsets(topic, partitions, timestamp_ms=timestamp_ms))
        return await asyncio.shield(call)

    async def list_groups(self) -> list[GroupSummary]:
        """As ``tidelog.Admin.list_groups``."""
        return await asyncio.shield(in_thread(self._admin.list_groups))

    async def describe_group(self, group: str) -> Group:
        """As ``tidelog.Admin.describe_group``."""
        return await asyncio.shield(in_thread(lambda: self._admin.describe_group(group)))

    async def delete_group(self, group: str, *, missing_ok: bool = False) -> None:
        """As ``tidelog.Admin.delete_group``."""
        await asyncio.shield(in_thread(lambda: self._admin.delete_group(group, missing_ok=missing_ok)))

    async def group_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """As ``tidelog.Admin.group_offsets``."""
        return await asyncio.shield(in_thread(lambda: self._admin.group_offsets(group)))

    async def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """As ``tidelog.Admin.commit_group_offsets``."""
        await asyncio.shield(in_thread(lambda: self._admin.commit_group_offsets(group, offsets)))

    async def reset_group(
        self,
        group: str,
        to: str | int | None = None,
        *,
        topics: Iterable[str] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
        timestamp_ms: int | None = None,
        shift: int | None = None,
    ) -> dict[TopicPartition, CommittedOffset]:
        """As ``tidelog.Admin.reset_group``."""
        call = in_thread(
            lambda: self._admin.reset_group(
                group, to, topics=topics, partitions=partitions, timestamp_ms=timestamp_ms, shift=shift
            )
        )
        return await asyncio.shield(call)

    async def group_lag(self, group: str) -> GroupLag:
        """As ``tidelog.Admin.group_lag``."""
        return await asyncio.shield(in_thread(lambda: self._admin.group_lag(group)))

    async def cluster(self) -> Cluster:
        """As ``tidelog.Admin.cluster``."""
        return await asyncio.shield(in_thread(self._admin.cluster))

    async def close(self) -> None:
        """As ``tidelog.Admin.close``."""
        await asyncio.shield(in_thread(self._admin.close))

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()
