"""A group that may not grow takes in no member, and lets go of all that leave; its members have one assignor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

import gateway.engine  # noqa: F401 - the engine and its groups import each other, and this is the way in
from gateway.groups.assignment.next_row import Subscriptions
from gateway.groups.bounds import GroupBounds
from gateway.groups.membership.live_group import GroupParts, LiveGroup
from gateway.groups.membership.regrouping import Regrouping
from gateway.groups.metrics import GroupMetrics
from gateway.problem import overloaded
from gateway.tasks.deadlines import Deadlines
from log_format.clock import SystemClock
from log_format.errors import BackOff, ErrorCode, RequestRefused
from log_format.groups.changes import PutGroup
from log_format.groups.row import GroupRow, MemberRow
from log_format.groups.state import Group
from tests.support.group_rows import member_row

_EMPTY = GroupRow(group="g", epoch=1, coordinator="c", generation=0, assignor=None, members=(), changed_at_ms=0)


class _Group:
    """A group whose topic has ``partition_count`` partitions, and that may not grow while it ``is_full``."""

    def __init__(self, *, is_full_then: bool, partitions_then: int, partitions_max: int = 100) -> None:
        self.is_full_then, self.partitions_then = is_full_then, partitions_then
        self.partition_count = 4
        self.is_full = False
        this: Any = self
        parts = GroupParts(
            table=this,
            subscribed=this,
            regrouping=Regrouping(this, this, partitions_max=partitions_max),
            deadlines=Deadlines(),
            clock=SystemClock(),
            metrics=GroupMetrics(CollectorRegistry()),
            bounds=GroupBounds(),
        )
        self.live = LiveGroup(_EMPTY, parts)

    @property
    def budget(self) -> _Group:
        return self

    async def decide(self, decision: PutGroup) -> Group:
        return Group(row=decision.row)

    async def resolve(self, members: Sequence[MemberRow]) -> Subscriptions:
        topics = {member.member_id: frozenset(member.topics) for member in members}
        return Subscriptions(topics=topics, counts={"t": self.partition_count} if members else {})

    def admit(self, growth_bytes: int) -> Callable[[object], None]:
        if self.is_full and growth_bytes > 0:
            raise overloaded("full")
        return lambda _: None


async def _join_and_leave(group: _Group) -> None:
    """Two are in; then one more joins while one leaves, in the same moment, and there is no room."""
    live = group.live
    await asyncio.gather(live.join(member_row("a"), "range"), live.join(member_row("b"), "range"))
    group.is_full, group.partition_count = group.is_full_then, group.partitions_then
    # The first is under way alone, so that the others share the next row.
    first = asyncio.create_task(live.topics_changed())
    await asyncio.sleep(0)
    late, leaving = asyncio.create_task(live.join(member_row("c"), "range")), asyncio.create_task(live.leave(["a"]))
    done = await asyncio.gather(first, late, leaving, return_exceptions=True)
    assert isinstance(done[1], BackOff), done
    assert done[2] is None
    assert [member.member_id for member in live.row.members] == ["b"]
    assert live.row.members[0].target == {"t": (0, 1, 2, 3)}


async def test_a_full_budget_refuses_joins_and_no_leaving() -> None:
    """A member that leaves is out; one that stays has its partitions."""
    await _join_and_leave(_Group(is_full_then=True, partitions_then=4))


async def test_more_partitions_than_a_group_may_read() -> None:
    """The group goes on with those that it had."""
    await _join_and_leave(_Group(is_full_then=False, partitions_then=10, partitions_max=4))


async def test_members_of_an_empty_group_that_want_different_assignors() -> None:
    """At once, or while the first is under way: the first is in, the others are refused, and leave no trace."""
    live = _Group(is_full_then=False, partitions_then=4).live
    at_once = [live.join(member_row(name), assignor) for name, assignor in (("a", "range"), ("b", "sticky"))]
    joining = asyncio.gather(*at_once, return_exceptions=True)
    await asyncio.sleep(0)
    late = asyncio.create_task(live.join(member_row("c"), "sticky"))
    first, second = await joining
    assert not isinstance(first, BaseException), first
    for refused in (second, (await asyncio.gather(late, return_exceptions=True))[0]):
        assert isinstance(refused, RequestRefused)
        assert refused.code is ErrorCode.INCONSISTENT_ASSIGNOR
    assert [member.member_id for member in live.row.members] == ["a"]
    await live.leave(["a"])
    await live.join(member_row("b"), "sticky")
    assert live.row.assignor == "sticky"


async def test_an_assignor_that_only_a_newer_gateway_knows(caplog: pytest.LogCaptureFixture) -> None:
    """While gateways are upgraded one by one: what needs a new assignment is 503 with a reason, and the row stays as it is."""
    live = _Group(is_full_then=False, partitions_then=4).live
    await asyncio.gather(live.join(member_row("a"), "range"), live.join(member_row("b"), "range"))
    live.row = row = msgspec.structs.replace(live.row, assignor="rackaware")
    for asked in (live.leave(["a"]), live.topics_changed()):
        with pytest.raises(BackOff, match="assignor 'rackaware'") as caught:
            await asked
        assert caught.value.code is ErrorCode.UNAVAILABLE
    with pytest.raises(RequestRefused) as refused:
        await live.join(member_row("c"), "range")
    assert refused.value.code is ErrorCode.INCONSISTENT_ASSIGNOR
    assert (live.row, live.is_lost) == (row, False)
    await live.leave(["a", "b"])
    assert live.row.members == ()
    assert not [record for record in caplog.records if record.exc_info]
