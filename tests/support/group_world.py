"""One gateway's coordinator of groups over a table in memory, for members of both of Kafka's protocols."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from prometheus_client import CollectorRegistry

from gateway.groups.assignment.next_row import Subscriptions
from gateway.groups.bounds import GROUP_PARTITIONS_MAX, GroupBounds
from gateway.groups.calls.classic import ClassicCalls, Sender
from gateway.groups.calls.epochs import ConsumerHeartbeat, ConsumerHeartbeatAnswer, MemberEpochs
from gateway.groups.classic.consumer_protocol import assigned_partitions, assignment_of, subscription_of
from gateway.groups.classic.member import ClassicGeneration
from gateway.groups.classic.refusal import Rebalancing
from gateway.groups.membership.coordinator import Coordinator
from gateway.groups.membership.live_group import GroupParts, LiveGroup
from gateway.groups.membership.member_ids import MemberIds
from gateway.groups.membership.regrouping import Regrouping
from gateway.groups.metrics import GroupMetrics
from gateway.tasks.deadlines import Deadlines
from log_format.cluster.proof import NOBODY
from log_format.errors import TidelogError
from log_format.groups.row import MemberRow
from log_format.groups.state import GroupsState
from tests.support.classic_groups import GroupsInMemory, settled, wish_of
from tests.support.clocks import ManualClock

PARTITIONS = 4
SESSION_MS = 45_000
REBALANCE_MS = 300_000


class CurrentTable(GroupsInMemory):
    """Every look is at its head."""

    async def recent(self, _age_ms_max: int) -> GroupsState:
        return self.state

    async def fresh(self) -> GroupsState:
        return self.state


class TwoTopics:
    """``t`` and ``u``, of four partitions each."""

    async def resolve(self, members: Any) -> Subscriptions:
        topics = {one.member_id: frozenset({*one.topics, *({"u"} if one.pattern else ())}) for one in members}
        used = {name for names in topics.values() for name in names}
        return Subscriptions(topics=topics, counts=dict.fromkeys(sorted(used), PARTITIONS))

    async def check(self, _pattern: str) -> None:
        return


def reading(*partitions: int) -> bytes:
    """The metadata, of version 1, of a member that subscribes to ``t`` and reads these partitions of it."""
    owned = assignment_of({"t": partitions} if partitions else {})[2:-4]
    return b"\0\1" + subscription_of(["t"])[2:] + owned


@dataclass
class Classic:
    """A member of the classic protocol as its client knows it."""

    world: GroupWorld
    joined: ClassicGeneration
    instance: str | None = None
    partitions: tuple[int, ...] = ()
    syncing: Any = None

    @property
    def id(self) -> str:
        return self.joined.member_id

    @property
    def speaker(self) -> Sender:
        return Sender(member_id=self.id, instance_id=self.instance, owner=NOBODY)

    async def synced(self, assignments: Mapping[str, bytes] = MappingProxyType({})) -> tuple[int, ...]:
        """What it is told to read."""
        named = ("consumer", self.joined.protocol)
        data = await self.world.classic.sync("g", self.speaker, self.joined.generation, named, assignments)
        self.partitions = assigned_partitions(data).get("t", ())
        return self.partitions

    async def beats(self) -> None:
        """A heartbeat."""
        await self.world.classic.heartbeat("g", self.speaker, self.joined.generation)

    async def is_called(self) -> bool:
        """Whether it is told to join again."""
        try:
            await self.beats()
        except Rebalancing:
            return True
        return False

    async def rejoins(self, *owned: int, **wish: Any) -> tuple[int, ...]:
        """It joins again, reading these still; what it is told to read then."""
        wish |= {"member": self.id} | ({} if self.instance is None else {"instance": self.instance})
        self.joined = (await self.world.classic_join(*owned, **wish)).joined
        return await self.synced()

    async def commits(self, partition: int = 0) -> TidelogError | None:
        """An offset, as the log judges it after the coordinator; the refusal."""
        try:
            await self.world.classic.check("g", self.speaker, self.joined.generation)
        except TidelogError as refusal:
            return refusal
        return await self.world.table.commit(self.id, self.joined.generation, 1, partition)


class GroupWorld:
    """One gateway's coordinator."""

    def __init__(
        self, table_of_others: CurrentTable | None = None, *, partitions_max: int = GROUP_PARTITIONS_MAX
    ) -> None:
        self.clock = ManualClock()
        self.table = table_of_others or CurrentTable()
        table: Any = self.table
        topics: Any = TwoTopics()
        parts = GroupParts(
            table=table,
            subscribed=topics,
            regrouping=Regrouping(topics, table.budget, partitions_max=partitions_max),
            deadlines=Deadlines(),
            clock=self.clock,
            metrics=GroupMetrics(CollectorRegistry()),
            bounds=GroupBounds(),
        )
        self.coordinator = Coordinator(parts, coordinator_id="me" if table_of_others is None else "next")
        self.epochs = MemberEpochs(self.coordinator, topics)
        ids: Any = None  # without owners no id is proved
        self._ids = MemberIds(ids, table, clock=self.clock, new_id=self._new_id)
        self._issued = 0
        self.classic = ClassicCalls(self.coordinator, self._ids)

    def taken_over(self) -> GroupWorld:
        """The next gateway's coordinator: it knows the table, and nothing that only this one's memory has."""
        return GroupWorld(self.table)

    async def beat(self, member: str, epoch: int, **more: Any) -> ConsumerHeartbeatAnswer:
        """A heartbeat that says nothing new, or what is given."""
        beat = ConsumerHeartbeat(
            member_id=member,
            epoch=epoch,
            instance_id=None,
            client_id=None,
            rebalance_timeout_ms=None,
            topics=None,
            pattern=None,
            assignor=None,
            owned=None,
            reader=None,
        )
        return await self.epochs.heartbeat("g", replace(beat, **more))

    async def join(self, member: str, **more: Any) -> ConsumerHeartbeatAnswer:
        """Of topic ``t`` unless told otherwise."""
        return await self.beat(
            member, 0, **({"topics": ("t",), "owned": {}, "rebalance_timeout_ms": REBALANCE_MS} | more)
        )

    def _new_id(self) -> str:
        self._issued += 1
        return f"{self._issued:02d}"

    # Members of the classic protocol

    async def classic_join(self, *owned: int, member: str = "", **wish: Any) -> Classic:
        """Of topic ``t``, by ``range`` unless told otherwise, while it reads the partitions ``owned``."""
        wish = {"protocols": (("range", reading(*owned)),)} | wish
        joined = await self.classic.join("g", wish_of(member, **wish), NOBODY)
        if isinstance(joined, str):
            return await self.classic_join(*owned, member=joined, **wish)
        return Classic(self, joined, wish.get("instance"))

    async def classic_alone(self, count: int = 2, *, order: int = 1, **wish: Any) -> list[Classic]:
        """The first members, that have assigned themselves the partitions of ``t``; ``order`` -1: the last has the first."""
        joining = [asyncio.create_task(self.classic_join(**wish)) for _ in range(count)]
        await settled()
        self.clock.pass_ms(GroupBounds().first_join_ms)
        group = await self.coordinator.claimed("g")
        await group.end_sessions()
        members = [await one for one in joining]
        await self.led(*members[::order])
        return members

    async def led(self, *members: Classic) -> None:
        """The leader gives each of the members its share of ``t``, in this order."""
        share = PARTITIONS // len(members)
        shares = {
            one.id: assignment_of({"t": tuple(range(index * share, (index + 1) * share))})
            for index, one in enumerate(members)
        }
        for one in members:
            one.syncing = asyncio.create_task(one.synced(shares if one.joined.members else {}))
        for one in members:
            await one.syncing

    async def group(self) -> LiveGroup:
        """As it is now."""
        return await self.coordinator.live("g")

    async def row(self, member: str) -> MemberRow:
        """Of the table."""
        return next(one for one in (await self.group()).row.members if one.member_id == member)
