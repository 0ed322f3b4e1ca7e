"""Classic groups over a table in memory, with a clock that moves only when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client import CollectorRegistry

import gateway.engine  # noqa: F401 - the engine and its groups import each other, and this is the way in
from gateway.groups.bounds import GroupBounds
from gateway.groups.classic.consumer_protocol import assignment_of, subscription_of
from gateway.groups.classic.group import ClassicGroup
from gateway.groups.classic.member import ClassicGeneration, ClassicJoinRequest
from gateway.groups.classic.stored import ClassicParts
from gateway.groups.metrics import GroupMetrics
from gateway.tasks.deadlines import Deadlines
from log_format.errors import OutcomeUnknown, TidelogError
from log_format.groups.changes import ClaimGroup, CommitOffsets, GroupDecision
from log_format.groups.row import OffsetRow
from log_format.groups.state import Group, GroupsState
from tests.support.clocks import EPOCH_MS, ManualClock

SESSION_MS = 10_000
REBALANCE_MS = 60_000
FIRST_JOIN_MS = GroupBounds().first_join_ms


class GroupsInMemory:
    """The table: what is decided is in it at once. ``may_decide`` holds decisions back.

    ``fails`` is raised once; what is in doubt has happened.
    """

    def __init__(self) -> None:
        self.state = GroupsState()
        self.fails: TidelogError | None = None
        self.may_decide = asyncio.Event()
        self.may_decide.set()
        self.reserved_bytes = 0

    @property
    def budget(self) -> GroupsInMemory:
        return self

    def admit(self, growth_bytes: int) -> Callable[[object], None]:
        """Count what is reserved."""
        left = max(0, growth_bytes)
        self.reserved_bytes += left

        def decided(_: object) -> None:
            nonlocal left
            self.reserved_bytes -= left
            left = 0

        return decided

    async def decide(self, decision: GroupDecision) -> Group:
        """As ``GroupsTable.decide``."""
        await self.may_decide.wait()
        await asyncio.sleep(0)
        failure, self.fails = self.fails, None
        if failure is not None and not isinstance(failure, OutcomeUnknown):
            raise failure
        changes = decision.decide(self.state, EPOCH_MS)
        if isinstance(changes, TidelogError):
            raise changes
        self.state = replace(self.state.after(changes), version=self.state.version + 1)
        if failure is not None:
            raise failure
        return self.state.group(decision.group)

    async def commit(
        self, member: str | None, generation: int | None, offset: int, partition: int = 0
    ) -> TidelogError | None:
        """Commit an offset, as any gateway may; its refusal."""
        row = OffsetRow(group="g", topic="t", partition=partition, topic_id="i", offset=offset, committed_at_ms=0)
        try:
            await self.decide(CommitOffsets(group="g", offsets=(row,), member=member, generation=generation))
        except TidelogError as refusal:
            return refusal
        return None

    @property
    def offset(self) -> int | None:
        """The one that is committed."""
        row = self.state.group("g").offsets.get(("t", 0))
        return None if row is None else row.offset


class ClassicWorld:
    """A table, and the group at the gateway that claimed it last."""

    def __init__(self, table: GroupsInMemory | None = None) -> None:
        self.table = table or GroupsInMemory()
        self.clock = ManualClock()
        self.deadlines = Deadlines()
        self.ids = 0
        self.group: ClassicGroup

    async def claim(self, coordinator: str = "a") -> ClassicGroup:
        """Take the group, as another gateway may."""
        row = (await self.table.decide(ClaimGroup(group="g", coordinator=coordinator))).row
        assert row is not None
        this: Any = self.table
        parts = ClassicParts(
            table=this,
            deadlines=self.deadlines,
            clock=self.clock,
            metrics=GroupMetrics(CollectorRegistry()),
            bounds=GroupBounds(),
        )
        self.group = ClassicGroup(row, parts)
        return self.group

    def new_id(self) -> str:
        """In order."""
        self.ids += 1
        return f"m{self.ids:02d}"

    async def passes(self, duration_ms: int) -> None:
        """Time passes, and what is due is done, as ``Upkeep`` does it."""
        await settled()
        self.clock.pass_ms(duration_ms)
        if "g" in self.deadlines.due(self.clock.monotonic_ms()):
            if self.group.has_ended_sessions(self.clock.monotonic_ms()):
                await self.group.end_sessions()
            self.group.expect_end()
        await settled()

    async def member(self, **wish: Any) -> asyncio.Task[ClassicGeneration | None]:
        """A call that joins, under way."""
        task = asyncio.create_task(self.group.join(wish_of(**wish), self.new_id()))
        await settled()
        return task

    async def stable(self, *wishes: Mapping[str, Any]) -> list[Client]:
        """An empty group takes in these members, and their leader gives each a partition of its own."""
        joining = [await self.member(**wish) for wish in wishes]
        await self.passes(FIRST_JOIN_MS)
        return await self.synced(*joining)

    async def synced(self, *joining: Awaitable[ClassicGeneration | None]) -> list[Client]:
        """Members whose calls end now get what the leader assigns."""
        joined = [one for one in [await each for each in joining] if one is not None]
        leader = next(one for one in joined if one.members)
        assignments = {
            member_id: assignment_of({"t": (number,)}) for number, (member_id, _, _) in enumerate(leader.members)
        }
        calls = [
            self.group.sync(one.member_id, None, one.generation, None, assignments if one is leader else {})
            for one in joined
        ]
        assigned = await asyncio.gather(*calls)
        return [Client(one, given) for one, given in zip(joined, assigned, strict=True)]


@dataclass
class Client:
    """A member as its client knows it."""

    joined: ClassicGeneration
    assignment: bytes

    @property
    def id(self) -> str:
        return self.joined.member_id

    @property
    def generation(self) -> int:
        return self.joined.generation


def wish_of(
    member_id: str = "",
    *,
    instance: str | None = None,
    protocols: tuple[tuple[str, bytes], ...] = (("range", subscription_of(["t"])),),
    protocol_type: str = "consumer",
    session_ms: int = SESSION_MS,
    rebalance_ms: int = REBALANCE_MS,
    requires_id: bool = False,
    can_skip: bool = False,
) -> ClassicJoinRequest:
    """What a consumer of topic ``t`` asks for."""
    return ClassicJoinRequest(
        member_id=member_id,
        instance_id=instance,
        client_id="c",
        client_host="/127.0.0.1",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        protocol_type=protocol_type,
        protocols=protocols,
        requires_id=requires_id,
        can_skip_assignment=can_skip,
    )


async def settled() -> None:
    """Let everything that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)
