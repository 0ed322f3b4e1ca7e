"""Committed offsets: written under the rules of groups, read as the log has them, and how far behind they are.

An offset counts only for the incarnation of its topic that it was committed for: one of a topic that was deleted is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

from gateway.call import unasked
from gateway.engine.bounds import PARTITIONS_PER_STEP
from gateway.engine.open_topic import OpenTopic
from gateway.engine.reading import Reading
from gateway.engine.registry import TopicRegistry, is_topic_name
from gateway.finishing.pending_offsets import PendingOffsets
from gateway.groups.bounds import GROUP_PARTITIONS_MAX, LOOKS_AT_ONCE
from gateway.groups.coordinator import Coordinator
from gateway.groups.lag_watch import written_ms
from gateway.groups.metrics import GroupMetrics
from gateway.tables.groups import GroupsTable
from log_format.clock import Clock
from log_format.errors import ErrorCode, RequestRefused, TidelogError, UnknownTopic
from log_format.groups.changes import CommitOffsets, not_empty
from log_format.groups.row import NO_GENERATION, OffsetRow
from log_format.groups.state import Group, GroupsState
from log_format.topic.state import TopicState

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextOffset:
    """The next offset to read of a partition, as a client commits it."""

    topic: str
    partition: int
    offset: int
    metadata: str | None = None

    @property
    def key(self) -> Key:
        """Of what."""
        return (self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTo:
    """Where to: exactly one is given."""

    word: Literal["earliest", "latest"] | None = None
    timestamp_ms: int | None = None
    offset: int | None = None
    shift: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """How far behind a group is; None where nothing is committed."""

    topic: str
    partition: int
    committed_offset: int | None
    high_watermark: int
    lag: int | None
    lag_ms: int | None


class Committed:
    """Belongs to the event loop."""

    def __init__(
        self,
        table: GroupsTable,
        coordinator: Coordinator,
        pending: PendingOffsets,
        topics: TopicRegistry,
        reading: Reading,
        *,
        clock: Clock,
        metrics: GroupMetrics,
    ) -> None:
        self._table = table
        self._coordinator = coordinator
        self._pending = pending
        self._topics = topics
        self._reading = reading
        self._clock = clock
        self._metrics = metrics

    async def group(self, name: str) -> Group:
        """The group as the log has it now, nothing pending. Raises ``RequestRefused`` (``UNKNOWN_GROUP``), ``BackOff``."""
        group = (await self._settled(name)).group(name)
        if not group.is_there:
            raise unknown_group(name)
        return group

    async def commit(
        self,
        name: str,
        offsets: Sequence[NextOffset],
        member_id: str | None,
        generation: int | None,
        *,
        instead_of: Mapping[Key, int | None] | None = None,
        transaction_id: str | None = None,
    ) -> Group:
        """Commit all of them or none; the group with them. An offset beyond the end of the log is one, too, as in Kafka.

        Raises ``RequestRefused`` (``STALE_GENERATION``, ``UNKNOWN_MEMBER``, ``FENCED_MEMBER``, ``UNKNOWN_TOPIC``,
        ``UNKNOWN_PARTITION``), ``BackOff``, ``OutcomeUnknown``.
        """
        coordinated = transaction_id is None and (member_id is not None or not offsets)
        epoch = (await self._coordinator.live(name)).row.epoch if coordinated else None
        decision = CommitOffsets(
            group=name,
            offsets=await self.rows(name, offsets, member_id, generation),
            member=member_id,
            generation=generation,
            instead_of=instead_of,
            transaction_id=transaction_id,
            epoch=epoch,
        )
        # The transaction's decision is what was asked for.
        with nullcontext() if transaction_id is None else unasked():
            group = await self._table.decide(decision)
        self._metrics.committed_offsets.inc(len(offsets))
        return group

    async def now(self, name: str) -> Group:
        """The group as the log has it now; one that is not there has nothing. Raises ``BackOff``."""
        return (await self._table.fresh()).group(name)

    async def put(
        self,
        known: Group,
        name: str,
        offsets: Sequence[NextOffset],
        member_id: str | None,
        generation: int | None,
    ) -> list[OffsetRow]:
        """Commit all of them or none; all offsets of the group with them, as ``offsets`` has them. Raises as ``commit``.

        ``known``: the group as it was ``now``.
        """
        ids = await self._known_ids(known)
        group = await self.commit(name, offsets, member_id, generation)
        return _of_incarnations(group, ids, offsets)

    async def rows(
        self, name: str, offsets: Sequence[NextOffset], member_id: str | None, generation: int | None
    ) -> tuple[OffsetRow, ...]:
        """What would be committed, judged by what is known here. Raises as ``commit``."""
        if member_id is not None and generation is not None:
            group = self._coordinator.known(name)
            if group is not None:
                group.check_commit(member_id, generation)
        states = {topic: await self._state(topic) for topic in sorted({one.topic for one in offsets})}
        rows = []
        for number, one in enumerate(offsets, 1):
            if number % PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
            state = states[one.topic][0].existing_with(one.partition)
            rows.append(_row(name, state, one, member_id, generation))
        return tuple(rows)

    async def offsets(self, name: str) -> list[OffsetRow]:
        """The group's committed offsets, in order of topic and partition. Raises as ``group``."""
        return list((await self._valid(await self.group(name))).values())

    async def of_partitions(self, name: str, keys: Iterable[Key]) -> dict[Key, int]:
        """Committed offsets of those partitions that have one; a group that is not there has none. Raises ``BackOff``."""
        group = (await self._settled(name)).group(name)
        wanted = set(keys)
        return {key: row.offset for key, row in (await self._valid(group, wanted)).items() if row.offset is not None}

    async def reset(
        self,
        group: Group,
        name: str,
        topics: Sequence[str] | None,
        partitions: Sequence[Key] | None,
        to: ResetTo,
    ) -> list[OffsetRow]:
        """Move offsets of a group without members, clamped to what there is; all offsets of the group then.

        ``group``: as ``group`` has it. Raises ``RequestRefused`` (``GROUP_NOT_EMPTY``, ``UNKNOWN_TOPIC``,
        ``UNKNOWN_PARTITION``, ``NO_COMMITTED_OFFSET`` for a shift), ``BackOff``, ``OutcomeUnknown``.
        """
        if group.row is not None and group.row.members:
            raise not_empty(name)
        keys = list(partitions or ())
        opened = {topic: await self._state(topic) for topic in sorted({*(topics or ()), *(topic for topic, _ in keys)})}
        keys += [(topic, number) for topic in topics or () for number in range(opened[topic][1].partition_count)]
        if len(keys) > GROUP_PARTITIONS_MAX:
            raise RequestRefused(f"{len(keys)} partitions are too many at once: {GROUP_PARTITIONS_MAX} at most.")
        ids = await self._ids(group.offsets)
        valid = _of_ids(group, ids)
        wanted = []
        for number, key in enumerate(dict.fromkeys(keys), 1):
            wanted.append(await self._moved(name, key, to, valid.get(key), opened[key[0]][0]))
            if number % PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
        try:
            group = await self.commit(name, wanted, None, None)
        except RequestRefused as refusal:
            raise not_empty(name) if refusal.code == ErrorCode.STALE_GENERATION else refusal from None
        return _of_incarnations(group, ids, wanted)

    async def lag(self, name: str) -> list[PartitionLag]:
        """Of every partition of topics that the group subscribes to or has offsets for. Raises as ``group``."""
        group = await self.group(name)
        valid = await self._valid(group)
        names = {topic for topic, _ in valid}
        if group.row is not None:
            names |= {topic for member in group.row.members for topic in (*member.topics, *member.target)}
        arrival_ms = self._clock.monotonic_ms()
        turns = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def one(topic: OpenTopic, state: TopicState, partition: int) -> PartitionLag:
            row = valid.get((topic.name, partition))
            async with turns:
                return await self._partition_lag(topic, state, partition, None if row is None else row.offset)

        found: list[PartitionLag] = []
        for topic_name in sorted(name for name in names if is_topic_name(name)):
            topic = await self._topics.fresh(topic_name, arrival_ms)
            state = topic.state
            if state.exists:
                for first in range(0, state.partition_count, PARTITIONS_PER_STEP):
                    some = range(first, min(first + PARTITIONS_PER_STEP, state.partition_count))
                    found += await asyncio.gather(*(one(topic, state, number) for number in some))
        return found

    async def _partition_lag(
        self, topic: OpenTopic, state: TopicState, partition: int, committed: int | None
    ) -> PartitionLag:
        end = state.high_watermark(partition)
        lag, lag_ms = None, None
        if committed is not None:
            lag = max(0, end - committed)
            first = max(committed, state.log_start(partition))
            lag_ms = 0
            if first < end:
                time_ms = await written_ms(self._reading, topic, state, partition, first)
                if time_ms is not None:
                    lag_ms = max(0, self._clock.now_ms() - time_ms)
        return PartitionLag(
            topic=topic.name,
            partition=partition,
            committed_offset=committed,
            high_watermark=end,
            lag=lag,
            lag_ms=lag_ms,
        )

    async def _moved(self, name: str, key: Key, to: ResetTo, row: OffsetRow | None, topic: OpenTopic) -> NextOffset:
        state = topic.existing_with(key[1])
        start, end = state.log_start(key[1]), state.high_watermark(key[1])
        if to.word is not None:
            offset = start if to.word == "earliest" else end
        elif to.timestamp_ms is not None:
            found = await self._reading.offset_of_timestamp(topic, state, key[1], to.timestamp_ms)
            offset = end if found is None else found
        elif to.offset is not None:
            offset = to.offset
        else:
            if row is None or row.offset is None:
                raise RequestRefused(
                    f"Group {name!r} has no committed offset for {key[0]}/{key[1]} that could be shifted.",
                    code=ErrorCode.NO_COMMITTED_OFFSET,
                )
            offset = row.offset + (to.shift or 0)
        return NextOffset(topic=key[0], partition=key[1], offset=min(max(offset, start), end))

    async def _settled(self, name: str) -> GroupsState:
        state = await self._table.fresh()
        if state.group(name).pending:
            await self._pending.settle(name)
            state = self._table.log.state
        return state

    async def _valid(self, group: Group, keys: set[Key] | None = None) -> dict[Key, OffsetRow]:
        """The offsets whose topic is the one that they were committed for."""
        wanted = [key for key in group.offsets if keys is None or key in keys]
        ids = await self._ids(wanted)
        return {key: row for key, row in _of_ids(group, ids).items() if keys is None or key in keys}

    async def _ids(self, keys: Iterable[Key]) -> dict[str, str | None]:
        """The incarnation of each topic that is named; None where there is none. Raises ``BackOff``, ``CorruptData``."""
        ids: dict[str, str | None] = {}
        for topic, topic_id in (await self._looked(keys)).items():
            if isinstance(topic_id, TidelogError):
                raise topic_id
            ids[topic] = topic_id
        return ids

    async def _known_ids(self, group: Group) -> dict[str, str | None]:
        """The same of the topics that can be looked at: what a group has of others is no reason to refuse it a commit."""
        found = await self._looked(group.offsets)
        return {topic: topic_id for topic, topic_id in found.items() if not isinstance(topic_id, TidelogError)}

    async def _looked(self, keys: Iterable[Key]) -> dict[str, str | TidelogError | None]:
        arrival_ms = self._clock.monotonic_ms()
        names = sorted({topic for topic, _ in keys})
        turns = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def look(topic: str) -> str | TidelogError | None:
            async with turns:
                try:
                    return (await self._topics.fresh(topic, arrival_ms)).state.topic_id
                except TidelogError as problem:
                    return problem

        return dict(zip(names, await asyncio.gather(*map(look, names)), strict=True))

    async def _state(self, topic: str) -> tuple[OpenTopic, TopicState]:
        if not is_topic_name(topic):
            raise UnknownTopic(topic[:100])
        opened = await self._topics.fresh(topic, self._clock.monotonic_ms())
        return opened, opened.existing()


def unknown_group(name: str) -> RequestRefused:
    """The answer for a group that nobody made."""
    return RequestRefused(f"There is no consumer group {name[:255]!r}.", code=ErrorCode.UNKNOWN_GROUP)


def _of_ids(group: Group, ids: Mapping[str, str | None]) -> dict[Key, OffsetRow]:
    """A group's offsets in order, less those of topics that are another now than ``ids`` says or that it does not name."""
    return {key: row for key, row in sorted(group.offsets.items()) if ids.get(row.topic) == row.topic_id}


def _of_incarnations(group: Group, ids: Mapping[str, str | None], committed: Iterable[NextOffset]) -> list[OffsetRow]:
    """The offsets of a group that has just committed some, less those of topics that are known to be another by now."""
    newest = dict(ids)
    for one in committed:
        row = group.offsets.get(one.key)
        if row is not None:
            newest[one.topic] = row.topic_id
    return [row for _, row in sorted(group.offsets.items()) if newest.get(row.topic, row.topic_id) == row.topic_id]


def _row(name: str, state: TopicState, one: NextOffset, member_id: str | None, generation: int | None) -> OffsetRow:
    return OffsetRow(
        group=name,
        topic=one.topic,
        partition=one.partition,
        topic_id=state.topic_id or "",
        offset=one.offset,
        metadata=one.metadata,
        member=member_id,
        generation=NO_GENERATION if generation is None else generation,
        committed_at_ms=0,
    )
