"""Committed offsets: committed under the rules of groups, read from the log's newest state.

An offset counts only for the topic incarnation that it was committed for (``incarnations``). Offsets in a Kafka client's open
transaction are pending: a member that is to begin at them waits; a caller that only shows offsets gets the earlier ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Annotated

import msgspec

from gateway.applied_transactions.pending_offsets import PendingOffsets
from gateway.call import detached_from_call
from gateway.engine.bounds import PARTITIONS_PER_STEP
from gateway.engine.open_topic import OpenTopic
from gateway.groups.membership.coordinator import Coordinator
from gateway.groups.metrics import GroupMetrics
from gateway.groups.offsets.incarnations import Incarnations, Key, known_ids
from gateway.system_tables.groups import GroupsTable
from log_format.errors import ErrorCode, RequestRefused, TidelogError, UnknownPartition
from log_format.groups.changes import CommitOffsets
from log_format.groups.row import NO_EPOCH, NO_GENERATION, OffsetRow
from log_format.groups.state import Group, GroupsState
from log_format.topic.state import TopicState

Topics = Mapping[str, OpenTopic | TidelogError]
"""Topics that were looked at, or the errors of those that could not be."""


async def assume_connected() -> None:
    """Check nothing: a gateway's own commit has no sender that could go."""


class NextOffset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The next offset that a client will read of a partition, as it commits it. Over HTTP it is 0 or more, without an epoch."""

    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    metadata: str | None = None
    leader_epoch: int = NO_EPOCH
    topic_id: str | None = None
    """Id of the incarnation that the offset is for; None: the present one."""

    @property
    def key(self) -> Key:
        """Topic and partition."""
        return (self.topic, self.partition)


class CommittedOffsets:
    """Committed offsets of all groups. Used on the event loop only."""

    def __init__(
        self,
        table: GroupsTable,
        coordinator: Coordinator,
        pending: PendingOffsets,
        incarnations: Incarnations,
        *,
        metrics: GroupMetrics,
    ) -> None:
        self._table = table
        self._coordinator = coordinator
        self._pending = pending
        self._incarnations = incarnations
        self._metrics = metrics

    async def group(self, name: str) -> Group:
        """Return the group as the log has it now; only Kafka clients' open transactions are pending in it.

        Raises ``RequestRefused`` (``UNKNOWN_GROUP``), ``BackOff``.
        """
        group = (await self._settled(name, waits_for_clients=False)).group(name)
        if not group.exists:
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
        epoch: int | None = None,
        check_connected: Callable[[], Awaitable[None]] = assume_connected,
    ) -> Group:
        """Commit all of the offsets or none; return the group with them.

        As in Kafka, an offset may lie beyond the end of the log. An offset for a former incarnation is dropped: it would not
        count.

        Args:
            member_id: member that commits; None: no member does.
            generation: generation under which the member commits.
            instead_of: offsets that must be committed now, by partition (None: no offset); if they differ, nothing is
                committed.
            transaction_id: transaction for whose decision the offsets are pending; None: they count immediately.
            epoch: see ``decision``.
            check_connected: raises if the sender has gone: it may have committed more elsewhere.

        Raises ``RequestRefused`` (``STALE_GENERATION``, ``UNKNOWN_MEMBER``, ``FENCED_MEMBER``, ``UNKNOWN_TOPIC``,
        ``UNKNOWN_PARTITION``), ``BackOff``, ``OutcomeUnknown``.
        """
        decision = await self.decision(
            name, offsets, member_id, generation, instead_of=instead_of, transaction_id=transaction_id, epoch=epoch
        )
        await check_connected()
        # With a transaction, the change that the caller asks for is the transaction's decision, not this commit.
        with nullcontext() if transaction_id is None else detached_from_call():
            return await self.decide(decision)

    async def decision(
        self,
        name: str,
        offsets: Sequence[NextOffset],
        member_id: str | None,
        generation: int | None,
        *,
        instead_of: Mapping[Key, int | None] | None = None,
        transaction_id: str | None = None,
        epoch: int | None = None,
        topics: Topics | None = None,
    ) -> CommitOffsets:
        """Return the decision that ``commit`` makes. Raises what ``commit`` raises.

        Args:
            epoch: group's epoch when the request came, if this gateway coordinated it then. None: the group is claimed here,
                and the caller checks after this call whether the sender is still there.
            topics: the topics of ``offsets``, if they were looked at for this request.
        """
        coordinated = transaction_id is None and (member_id is not None or not offsets)
        if epoch is None and coordinated:
            epoch = (await self._coordinator.claimed(name)).row.epoch
        return CommitOffsets(
            group=name,
            offsets=await self.rows(name, offsets, member_id, generation, topics),
            member=member_id,
            generation=generation,
            instead_of=instead_of,
            transaction_id=transaction_id,
            epoch=epoch,
        )

    async def decide(self, decision: CommitOffsets) -> Group:
        """Commit a decision that was judged by what is known here. Decisions are committed in the order in which they come.
        Raises what ``commit`` raises."""
        group = await self._table.decide(decision)
        self._metrics.committed_offsets.inc(len(decision.offsets))
        return group

    async def now(self, name: str) -> Group:
        """Return the group as the log has it now; a missing group has no offsets. Raises ``BackOff``."""
        return (await self._table.fresh()).group(name)

    def as_known(self, name: str) -> Group:
        """Return the group as the log was when it was last looked at."""
        return self._table.state.group(name)

    async def put(
        self,
        known: Group,
        name: str,
        offsets: Sequence[NextOffset],
        member_id: str | None,
        generation: int | None,
        *,
        epoch: int | None,
        check_connected: Callable[[], Awaitable[None]],
    ) -> list[OffsetRow]:
        """Commit all of the offsets or none; return all offsets of the group, as ``offsets`` does. Raises what ``commit`` raises.

        ``known``: a recent state of the group, which says which topics are looked at. Other arguments: see ``commit``.
        """
        topics = await self._incarnations.look_up(
            {topic for topic, _ in known.offsets} | {one.topic for one in offsets}
        )
        decision = await self.decision(name, offsets, member_id, generation, epoch=epoch, topics=topics)
        await check_connected()
        group = await self.decide(decision)
        return offsets_after(group, known_ids(topics), decision.offsets)

    async def rows(
        self,
        name: str,
        offsets: Sequence[NextOffset],
        member_id: str | None,
        generation: int | None,
        topics: Topics | None = None,
    ) -> tuple[OffsetRow, ...]:
        """Return the rows to commit, judged by what is known here. Raises what ``commit`` raises."""
        if member_id is not None and generation is not None:
            group = self._coordinator.known(name)
            if group is not None:
                group.check_commit(member_id, generation)
        if topics is None:
            topics = await self._incarnations.look_up({one.topic for one in offsets}) if offsets else {}
        states = {}
        for topic in sorted({one.topic for one in offsets}):
            found = topics[topic]
            if isinstance(found, TidelogError):
                raise found
            states[topic] = found.require_state()
        rows = []
        for number, one in enumerate(offsets, 1):
            if number % PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
            state = states[one.topic]
            if one.topic_id not in (None, state.topic_id):
                continue
            if not 0 <= one.partition < state.partition_count:
                raise UnknownPartition(one.topic, one.partition, state.partition_count)
            rows.append(_row(name, state, one, member_id, generation))
        return tuple(rows)

    async def offsets(self, name: str) -> list[OffsetRow]:
        """Return the group's committed offsets, in order of topic and partition. Raises what ``group`` raises."""
        return list((await self._incarnations.valid(await self.group(name))).values())

    async def rows_of(self, name: str, keys: set[Key] | None) -> tuple[dict[Key, OffsetRow], frozenset[Key]]:
        """Return the group's committed offsets, in order, and the partitions for which a Kafka client's open transaction has
        others.

        ``keys``: only these partitions. A missing group has no offsets. Raises what ``group`` raises.
        """
        group = (await self._settled(name, waits_for_clients=False)).group(name)
        waiting = frozenset(row.key for pending in group.pending.values() for row in pending.offsets)
        return await self._incarnations.valid(group, keys), waiting

    async def of_partitions(self, name: str, keys: Iterable[Key]) -> dict[Key, OffsetRow]:
        """Return the committed offsets of those of these partitions that have one, once nothing is pending; a missing group has
        none. Raises ``BackOff``."""
        group = (await self._settled(name, waits_for_clients=True)).group(name)
        rows = await self._incarnations.valid(group, set(keys))
        return {key: row for key, row in rows.items() if row.offset is not None}

    async def _settled(self, name: str, *, waits_for_clients: bool) -> GroupsState:
        state = await self._table.fresh()
        if state.group(name).pending:
            await self._pending.settle(name, waits_for_clients=waits_for_clients)
            state = self._table.log.state
        return state


def unknown_group(name: str) -> RequestRefused:
    """Return the error for a group that was never created."""
    return RequestRefused(f"There is no consumer group {name[:255]!r}.", code=ErrorCode.UNKNOWN_GROUP)


def offsets_after(group: Group, ids: Mapping[str, str | None], committed: Iterable[OffsetRow]) -> list[OffsetRow]:
    """Return the offsets of a group that has just committed some, without those of topics known to be re-created."""
    known = {**ids, **{row.topic: row.topic_id for row in committed}}
    return [row for _, row in sorted(group.offsets.items()) if known.get(row.topic, row.topic_id) == row.topic_id]


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
        leader_epoch=one.leader_epoch,
    )
