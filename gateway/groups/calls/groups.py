"""Consumer groups of one gateway, put together from their parts: what the routes call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from prometheus_client import CollectorRegistry

from gateway.access.rights import Rights
from gateway.applied_transactions.finishing_parts import FinishingParts
from gateway.cluster.ownership import Ownership
from gateway.engine.administration import Administration
from gateway.engine.fetcher import Fetcher
from gateway.engine.open_table import TableAccess
from gateway.engine.open_topics import OpenTopics
from gateway.engine.partition_reader import PartitionReader
from gateway.engine.producer_ids import ProducerIds
from gateway.groups.bounds import HEARTBEAT_MS_MAX, GroupBounds
from gateway.groups.calls.classic import ClassicCalls, Sender
from gateway.groups.calls.epochs import MemberEpochs
from gateway.groups.calls.polling import Polling
from gateway.groups.classic.group import ClassicGroup
from gateway.groups.membership.coordinator import Coordinated, Coordinator
from gateway.groups.membership.live_group import GroupParts, JoinedMember, LiveGroup
from gateway.groups.membership.member_ids import MemberIds
from gateway.groups.membership.regrouping import Regrouping, RequestedChanges
from gateway.groups.membership.upkeep import Upkeep
from gateway.groups.metrics import GroupMetrics
from gateway.groups.offsets.committed import CommittedOffsets, unknown_group
from gateway.groups.offsets.incarnations import Incarnations, Key
from gateway.groups.offsets.lag import Lag
from gateway.groups.offsets.lag_watch import LagWatch
from gateway.groups.offsets.readers import Readers
from gateway.groups.offsets.reset import Reset
from gateway.groups.offsets.stalled import StalledGroups
from gateway.groups.subscription.subscribed_topics import SubscribedTopics
from gateway.tasks.deadlines import Deadlines
from log_format.cluster.proof import NOBODY
from log_format.groups.changes import EraseOffsets, not_empty_error, unknown_member_error
from log_format.groups.holdings import Holdings
from log_format.groups.row import GroupRow, MemberRow, Partitions, Reader
from log_format.groups.state import Group

T = TypeVar("T")

_log = logging.getLogger("gateway.groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A member's declaration when it joins."""

    topics: tuple[str, ...]
    pattern: str | None
    assignor: str
    session_timeout_ms: int
    client_id: str | None
    instance_id: str | None
    owner: str = NOBODY
    reader: Reader | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """One group in a list."""

    name: str
    state: str
    generation: int
    member_count: int
    row: GroupRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group, its members in order of id, and the partitions that each may read.

    ``heard_ms``, ``committed_ms``: when a member was heard of last, by any call, and when it committed last, by its id; without
    members of which that is not known. Times are milliseconds since the epoch.
    """

    row: GroupRow | None
    state: str
    members: Sequence[tuple[MemberRow, Partitions]]
    heard_ms: Mapping[str, int] = field(default_factory=dict)
    committed_ms: Mapping[str, int] = field(default_factory=dict)


class Groups:
    """Consumer groups of one gateway. Used on the event loop only. Call ``start`` once the gateway serves."""

    def __init__(
        self,
        access: TableAccess,
        finishing: FinishingParts,
        topics: OpenTopics,
        *,
        administration: Administration,
        reading: PartitionReader,
        fetching: Fetcher,
        ids: ProducerIds,
        ownership: Ownership,
        rights: Rights,
        registry: CollectorRegistry,
        bounds: GroupBounds,
    ) -> None:
        metrics = GroupMetrics(registry)
        self.ownership = ownership
        clock = self._clock = access.clock
        self.table = table = finishing.groups
        self.member_ids = MemberIds(ids, table, clock=clock, new_id=access.new_id)
        self._subscribed = SubscribedTopics(topics, administration, rights=rights, clock=clock, pool=access.look_pool)
        parts = GroupParts(
            table=table,
            subscribed=self._subscribed,
            regrouping=Regrouping(self._subscribed, table.budget),
            deadlines=Deadlines(),
            clock=clock,
            metrics=metrics,
            bounds=bounds,
        )
        self.coordinator = Coordinator(parts, coordinator_id=access.new_id())
        self.upkeep = Upkeep(self.coordinator, parts, ownership=ownership)
        self.incarnations = incarnations = Incarnations(topics, clock=clock)
        self.committed = CommittedOffsets(table, self.coordinator, finishing.pending, incarnations, metrics=metrics)
        self.reset = Reset(self.committed, incarnations, reading)
        self.lag = Lag(self.committed, incarnations, topics, reading, clock=clock)
        self.readers = Readers(table, topics, clock=clock, bounds=bounds)
        self.lag_watch = LagWatch(table, ownership, topics, reading, clock=clock, registry=registry, bounds=bounds)
        self.stalled = StalledGroups(table, topics, reading, clock=clock, bounds=bounds)
        self.classic = ClassicCalls(self.coordinator, self.member_ids)
        self.epochs = MemberEpochs(self.coordinator, self._subscribed)
        self.polling = Polling(self.coordinator, self.committed, fetching, topics, clock=clock)

    def start(self) -> None:
        """Start the background work."""
        self.upkeep.start()

    async def drain(self) -> None:
        """Stop the background work, end the polls and joins that wait, and wait for the commits under way."""
        self.lag_watch.stop()
        self.stalled.stop()
        self.upkeep.stop()
        self.polling.end_waits()
        self.coordinator.end_joins()
        await self.table.drain()

    async def join(self, name: str, joining: JoinRequest) -> tuple[LiveGroup, JoinedMember]:
        """Let a new member join; a static one replaces its former instance. Raises ``RequestRefused``
        (``INCONSISTENT_ASSIGNOR``), ``BackOff``, ``OutcomeUnknown``."""
        if joining.pattern is not None:
            await self._subscribed.check(joining.pattern)
        member = MemberRow(
            member_id=await self.member_ids.issue(name, joining.owner),
            client_id=joining.client_id,
            instance_id=joining.instance_id,
            topics=joining.topics,
            pattern=joining.pattern,
            session_timeout_ms=joining.session_timeout_ms,
            target={},
            held={},
            acknowledged=-1,
            reader=joining.reader,
        )

        async def joined() -> tuple[LiveGroup, JoinedMember]:
            group = await self.coordinator.live(name, RequestedChanges(join=member, assignor=joining.assignor))
            return group, await group.join(member, joining.assignor)

        return await self.coordinator.retry_if_deleted(name, joined)

    async def leave(self, name: str, member_id: str) -> None:
        """Take a member out. Raises ``RequestRefused`` (``UNKNOWN_MEMBER``, ``FENCED_MEMBER``), and what ``join`` raises."""
        group = await self.existing(name)
        if isinstance(group, ClassicGroup):
            for refusal in filter(None, await group.leave([(member_id, None)])):
                raise refusal
            return
        group.member(member_id)
        await group.leave([member_id])

    async def of_member(self, name: str, member_id: str) -> LiveGroup:
        """Return an existing group that assigns partitions to its members, for a member that does not speak Kafka's classic
        protocol.

        Raises ``RequestRefused`` (``UNKNOWN_MEMBER``), and what ``existing`` raises.
        """
        group = await self.existing(name)
        if isinstance(group, ClassicGroup) or group.speaks_classic(member_id):
            raise unknown_member_error(name, member_id)
        return group

    def topics_of_member(self, name: str, member_id: str) -> list[str]:
        """Return the topics of which a member known here has, or had, partitions."""
        known = self.coordinator.known(name)
        for member in () if known is None else known.row.members:
            if member.member_id == member_id:
                return sorted({*member.target, *member.held})
        return []

    async def check_commit(self, name: str, speaker: Sender, generation: int, reader: Reader | None) -> None:
        """Raise ``RequestRefused`` if a member that speaks one of Kafka's protocols may not commit; ``BackOff``."""
        if isinstance(await self.coordinator.claimed(name), ClassicGroup):
            await self.classic.check(name, speaker, generation)
        else:
            await self.epochs.check(name, speaker.member_id, generation, reader)

    async def erase(self, name: str, keys: Iterable[Key]) -> Group:
        """Erase offsets of topics that no member subscribes to; return the group.

        Raises ``RequestRefused`` (``GROUP_NOT_EMPTY``), ``BackOff``, ``OutcomeUnknown``.
        """
        return await self.table.decide(EraseOffsets(group=name, keys=tuple(keys)))

    async def existing(self, name: str) -> Coordinated:
        """Return an existing group, claimed by this coordinator. Raises ``RequestRefused`` (``UNKNOWN_GROUP``), and what
        ``Coordinator.claimed`` raises."""
        live = self.coordinator.known(name)
        has_had_members = live is not None and live.row.generation > 0
        if not has_had_members and not (await self.table.fresh()).group(name).exists:
            raise unknown_group(name)
        return await self.coordinator.claimed(name)

    async def describe(self, name: str) -> GroupDescription:
        """Return a group's description. Raises ``RequestRefused`` (``UNKNOWN_GROUP``), ``BackOff``, ``OutcomeUnknown``."""
        found = await self.committed.group(name)
        if found.row is None or not found.row.members:
            return GroupDescription(row=found.row, state="Empty", members=())
        known = self.coordinator.known(name) if found.row.is_classic else await self.coordinator.claimed(name)
        is_mine = known is not None and known.row.epoch == found.epoch
        row, state, members = found.row, _state_by_the_log(found.row), [(one, one.target) for one in found.row.members]
        if isinstance(known, LiveGroup):
            row, state = known.row, known.state
            members = [(one, known.holdings.readable(one.member_id)) for one in row.members]
        elif is_mine and known is not None:
            state = known.state
        return GroupDescription(
            row=row,
            state=state,
            members=members,
            heard_ms=self._heard_ms(known) if known is not None and (is_mine or isinstance(known, LiveGroup)) else {},
            committed_ms=_committed_ms(found),
        )

    def _heard_ms(self, known: Coordinated) -> dict[str, int]:
        """Return when each member was heard of last; a member of an earlier coordinator has a time to come until it calls."""
        now_ms, epoch_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        seen = known.members.seen_ms() if isinstance(known, ClassicGroup) else known.seen_ms(now_ms)
        return {name: epoch_ms - (now_ms - seen_ms) for name, seen_ms in seen.items() if seen_ms <= now_ms}

    async def delete(self, name: str) -> None:
        """Delete a group with its offsets. Raises ``RequestRefused`` (``UNKNOWN_GROUP``, ``GROUP_NOT_EMPTY``), and what ``join``
        raises."""
        await self.coordinator.retry_if_deleted(name, lambda: self._deleted(name))

    async def _deleted(self, name: str) -> None:
        found = await self.committed.group(name)
        if found.row is not None and found.row.members:
            raise not_empty_error(name)
        await self.coordinator.delete(name)

    async def page(
        self, after: str, limit: int, shown: Callable[[str], bool] = lambda _name: True
    ) -> tuple[list[GroupSummary], bool]:
        """Return at most ``limit`` groups after the name ``after`` that are ``shown``, in order of name, and whether there are
        more.

        Raises ``BackOff``, and what ``shown`` raises.
        """
        state = await self.table.fresh()
        names = sorted(name for name, group in state.groups.items() if name > after and group.exists and shown(name))
        found = []
        for name in names[:limit]:
            row = state.groups[name].row
            live = self.coordinator.known(name)
            mine = live is not None and row is not None and live.row.epoch == row.epoch
            found.append(
                GroupSummary(
                    name=name,
                    state=live.state if mine and live is not None else _state_by_the_log(row),
                    generation=0 if row is None else row.generation,
                    member_count=0 if row is None else len(row.members),
                    row=row,
                )
            )
        return found, len(names) > limit


def _committed_ms(group: Group) -> dict[str, int]:
    """Return when each member committed last, as far as its commits are the newest of their partitions."""
    found: dict[str, int] = {}
    for row in group.offsets.values():
        if row.member is not None:
            found[row.member] = max(found.get(row.member, 0), row.committed_at_ms)
    return found


def heartbeat_interval_ms(session_timeout_ms: int) -> int:
    """Return the interval at which a member should send heartbeats: at least three in its session timeout."""
    return min(HEARTBEAT_MS_MAX, session_timeout_ms // 3)


def _state_by_the_log(row: GroupRow | None) -> str:
    """Return the state as far as the table shows it; the table omits acknowledgements that free nothing."""
    if row is None or not row.members:
        return "Empty"
    holdings = Holdings(row)
    is_settled = all(holdings.readable(member.member_id) == member.target for member in row.members)
    return "Stable" if is_settled else "Reconciling"
