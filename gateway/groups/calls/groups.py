"""One gateway's consumer groups, put together from their parts: what the routes call."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from prometheus_client import CollectorRegistry

from gateway.cluster.ownership import Ownership
from gateway.engine.administration import Administration
from gateway.engine.fetching import Fetching
from gateway.engine.open_table import TableAccess
from gateway.engine.reading import Reading
from gateway.engine.registry import TopicRegistry
from gateway.finishing.finishing import Finishing
from gateway.groups.bounds import DELETED_TIMES_MAX, HEARTBEAT_MS_MAX, GroupBounds
from gateway.groups.calls.polling import Polling
from gateway.groups.membership.coordinator import Coordinator
from gateway.groups.membership.deadlines import SessionDeadlines
from gateway.groups.membership.live_group import GroupParts, Joined, LiveGroup
from gateway.groups.membership.regrouping import Regrouping
from gateway.groups.membership.upkeep import Upkeep
from gateway.groups.metrics import GroupMetrics
from gateway.groups.offsets.committed import Committed, unknown_group
from gateway.groups.offsets.incarnations import Incarnations
from gateway.groups.offsets.lag import Lag
from gateway.groups.offsets.lag_watch import LagWatch
from gateway.groups.offsets.reset import Reset
from gateway.groups.subscription.subscribed_topics import SubscribedTopics
from log_format.errors import BackOff
from log_format.groups.changes import CoordinatorFenced, not_empty
from log_format.groups.holdings import Holdings
from log_format.groups.row import GroupRow, MemberRow, Partitions

T = TypeVar("T")

_log = logging.getLogger("gateway.groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """What a member declares when it joins."""

    topics: tuple[str, ...]
    pattern: str | None
    assignor: str
    session_timeout_ms: int
    client_id: str | None
    instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """One group in a list."""

    name: str
    state: str
    generation: int
    member_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group, its members in order of id, and what each may read."""

    row: GroupRow | None
    state: str
    members: Sequence[tuple[MemberRow, Partitions]]


class Groups:
    """Belongs to the event loop. ``start`` once the gateway serves."""

    def __init__(
        self,
        access: TableAccess,
        finishing: Finishing,
        topics: TopicRegistry,
        *,
        administration: Administration,
        reading: Reading,
        fetching: Fetching,
        ownership: Ownership,
        registry: CollectorRegistry,
        bounds: GroupBounds,
    ) -> None:
        metrics = GroupMetrics(registry)
        clock = access.clock
        self._clock = clock
        self._new_id = access.new_id
        self.table = table = finishing.groups
        self._subscribed = SubscribedTopics(topics, administration, clock=clock, pool=access.look_pool)
        parts = GroupParts(
            table=table,
            subscribed=self._subscribed,
            regrouping=Regrouping(self._subscribed, table.budget),
            deadlines=SessionDeadlines(),
            clock=clock,
            metrics=metrics,
            bounds=bounds,
        )
        self.coordinator = Coordinator(parts, coordinator_id=access.new_id())
        self.upkeep = Upkeep(self.coordinator, parts, ownership=ownership)
        incarnations = Incarnations(topics, clock=clock)
        self.committed = Committed(table, self.coordinator, finishing.pending, incarnations, metrics=metrics)
        self.reset = Reset(self.committed, incarnations, reading)
        self.lag = Lag(self.committed, incarnations, topics, reading, clock=clock)
        self.lag_watch = LagWatch(table, ownership, topics, reading, clock=clock, registry=registry, bounds=bounds)
        self.polling = Polling(self.coordinator, self.committed, fetching, topics, clock=clock)

    def start(self) -> None:
        """Begin the work beside requests."""
        self.upkeep.start()

    async def drain(self) -> None:
        """End the polls; finish the commits asked for."""
        self.lag_watch.stop()
        self.upkeep.stop()
        self.polling.end_waits()
        await self.table.drain()

    async def join(self, name: str, joining: Joining) -> tuple[LiveGroup, Joined]:
        """A new member; for a static one its next instance. Raises ``RequestRefused`` (``INCONSISTENT_ASSIGNOR``), ``BackOff``,
        ``OutcomeUnknown``."""
        if joining.pattern is not None:
            await self._subscribed.check(joining.pattern)
        member = MemberRow(
            # Ids are in order of joining, so that members keep their order, and their partitions, when another joins.
            member_id=f"m{self._clock.now_ms():014d}-{self._new_id()}",
            client_id=joining.client_id,
            instance_id=joining.instance_id,
            topics=joining.topics,
            pattern=joining.pattern,
            session_timeout_ms=joining.session_timeout_ms,
            target={},
            held={},
            acknowledged=-1,
        )

        async def joined() -> tuple[LiveGroup, Joined]:
            group = await self.coordinator.live(name)
            return group, await group.join(member, joining.assignor)

        return await self._unless_deleted(name, joined)

    async def leave(self, name: str, member_id: str) -> None:
        """Take a member out. Raises ``RequestRefused`` (``UNKNOWN_MEMBER``, ``FENCED_MEMBER``), and as ``join``."""
        group = await self.existing(name)
        group.member(member_id)
        await group.leave([member_id])

    async def existing(self, name: str) -> LiveGroup:
        """An existing group. Raises ``RequestRefused`` (``UNKNOWN_GROUP``), and as ``Coordinator.live``."""
        live = self.coordinator.known(name)
        has_had_members = live is not None and live.row.generation > 0
        if not has_had_members and not (await self.table.fresh()).group(name).is_there:
            raise unknown_group(name)
        return await self.coordinator.live(name)

    async def describe(self, name: str) -> GroupDescription:
        """Raises ``RequestRefused`` (``UNKNOWN_GROUP``), ``BackOff``, ``OutcomeUnknown``."""
        found = await self.committed.group(name)
        if found.row is None or not found.row.members:
            return GroupDescription(row=found.row, state="Empty", members=())
        group = await self.coordinator.live(name)
        members = [(one, group.holdings.readable(one.member_id)) for one in group.row.members]
        return GroupDescription(row=group.row, state=group.state, members=members)

    async def delete(self, name: str) -> None:
        """Delete a group, with offsets. Raises ``RequestRefused`` (``UNKNOWN_GROUP``, ``GROUP_NOT_EMPTY``), and as ``join``."""
        await self._unless_deleted(name, lambda: self._deleted(name))

    async def _unless_deleted(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do it, and again where the group was deleted in that very moment. A group that another gateway took raises."""
        for _ in range(DELETED_TIMES_MAX):
            try:
                return await work()
            except CoordinatorFenced:
                if await self.coordinator.is_anothers(name):
                    raise
        raise BackOff(f"Group {name!r} is deleted and made anew again and again.")

    async def _deleted(self, name: str) -> None:
        found = await self.committed.group(name)
        if found.row is not None and found.row.members:
            raise not_empty(name)
        await self.coordinator.delete(name)

    async def page(self, after: str, limit: int) -> tuple[list[GroupSummary], bool]:
        """At most ``limit`` groups after ``after``, in order of name, and whether there are more. Raises ``BackOff``."""
        state = await self.table.fresh()
        names = sorted(name for name, group in state.groups.items() if name > after and group.is_there)
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
                )
            )
        return found, len(names) > limit


def heartbeat_interval_ms(session_timeout_ms: int) -> int:
    """How often a member should send a heartbeat: at least three times in its session."""
    return min(HEARTBEAT_MS_MAX, session_timeout_ms // 3)


def _state_by_the_log(row: GroupRow | None) -> str:
    """The state as far as the table shows it, which omits acknowledgements that free nothing."""
    if row is None or not row.members:
        return "Empty"
    holdings = Holdings(row)
    is_settled = all(holdings.readable(member.member_id) == member.target for member in row.members)
    return "Stable" if is_settled else "Reconciling"
