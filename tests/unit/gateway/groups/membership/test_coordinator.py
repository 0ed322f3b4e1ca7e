"""A coordinator's work beside requests: it forgets groups that were unused for seven days, and no other."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

import gateway.engine  # noqa: F401 - the engine and its groups import each other, and this is the way in
from gateway.groups.assignment.next_row import Subscriptions
from gateway.groups.bounds import OFFSETS_RETENTION_MS, GroupBounds
from gateway.groups.membership.coordinator import Coordinator
from gateway.groups.membership.live_group import GroupParts
from gateway.groups.membership.regrouping import Regrouping
from gateway.groups.membership.upkeep import Upkeep
from gateway.groups.metrics import GroupMetrics
from gateway.tasks.deadlines import Deadlines
from log_format.errors import TidelogError
from log_format.groups.changes import ClaimGroup, GroupDecision, PutGroup
from log_format.groups.row import GroupChanges, GroupRow, MemberRow, OffsetRow, PendingOffsets
from log_format.groups.state import Group, GroupsState
from tests.support.clocks import ManualClock
from tests.support.group_rows import member_row

NOW_MS = 1_763_683_200_000


class _Commits:
    """The table in memory; every look is at its head.

    ``are_gone``: none of ``expected`` is in it any more. Nothing is decided until it ``may_decide``; ``regroups``: the
    coordinator asked for a new set of members.
    """

    def __init__(self, state: GroupsState, expected: set[str]) -> None:
        self.state = state
        self.budget = SimpleNamespace(admit=lambda _growth_bytes: lambda _: None)
        self.are_gone = asyncio.Event()
        self.regroups = asyncio.Event()
        self.may_decide = asyncio.Event()
        self.may_decide.set()
        self.has_changed = asyncio.Event()
        self.ages: list[int] = []
        self._expected = expected

    async def keep_small(self) -> None:
        return

    async def recent(self, age_ms_max: int) -> GroupsState:
        self.ages.append(age_ms_max)
        return self.state

    async def decide(self, decision: GroupDecision) -> Group:
        if isinstance(decision, PutGroup):
            self.regroups.set()
        await self.may_decide.wait()
        changes = decision.decide(self.state, NOW_MS)
        if isinstance(changes, TidelogError):
            raise changes
        self.state = replace(self.state.after(changes), version=self.state.version + 1)
        self.has_changed.set()
        if not self._expected & self.state.groups.keys():
            self.are_gone.set()
        return self.state.group(decision.group)


class _Topics:
    async def resolve(self, members: Any) -> Subscriptions:
        return Subscriptions(topics={member.member_id: frozenset() for member in members}, counts={})

    async def resolve_all(self, groups: Any) -> list[Subscriptions]:
        return [Subscriptions(topics={}, counts={}) for _ in groups]


class _Ownership:
    """Of everything but what is ``another's``; ``adopts_groups``."""

    def __init__(self, *, anothers: str = "", adopts_groups: bool = True) -> None:
        self._anothers = anothers
        self.adopts_groups = adopts_groups

    def coordinates(self, group: str) -> bool:
        return group != self._anothers

    def view(self) -> tuple[str, ...]:
        return ()


def _coordinator(
    commits: _Commits,
    clock: ManualClock | None = None,
    ownership: _Ownership | None = None,
    **bounds: int,
) -> tuple[Coordinator, Any]:
    """A coordinator, and what it does beside requests."""
    table: Any = commits
    topics: Any = _Topics()
    parts = GroupParts(
        table=table,
        subscribed=topics,
        regrouping=Regrouping(topics, table.budget),
        deadlines=Deadlines(),
        clock=clock or ManualClock(),
        metrics=GroupMetrics(CollectorRegistry()),
        bounds=GroupBounds(**bounds),
    )
    owned: Any = ownership or _Ownership()
    coordinator = Coordinator(parts, coordinator_id="me")
    return coordinator, Upkeep(coordinator, parts, ownership=owned)


def _offset(group: str, age_ms: int) -> OffsetRow:
    return OffsetRow(group=group, topic="t", partition=0, topic_id="i", offset=1, committed_at_ms=NOW_MS - age_ms)


def _row(group: str, age_ms: int, *members: MemberRow) -> GroupRow:
    return GroupRow(
        group=group,
        epoch=1,
        coordinator="another",
        generation=1,
        assignor=None,
        members=members,
        changed_at_ms=NOW_MS - age_ms,
    )


MEMBER = member_row("m", session_timeout_ms=1_000_000, acknowledged=1)


async def test_what_nobody_uses_is_forgotten_after_seven_days() -> None:
    """Not a millisecond earlier; never with members, while a transaction is pending, or where another gateway is preferred."""
    old_ms = OFFSETS_RETENTION_MS + 1
    pending = PendingOffsets(
        transaction_id="x",
        group="pending",
        offsets=(_offset("pending", old_ms),),
        prepared_at_ms=NOW_MS - old_ms,
    )
    changes = GroupChanges(
        groups=(_row("left", old_ms), _row("alive", old_ms, MEMBER), _row("left lately", 5)),
        offsets=(
            _offset("left", old_ms),
            _offset("alive", old_ms),
            _offset("committed only", old_ms),
            _offset("just in time", OFFSETS_RETENTION_MS),
            _offset("left lately", old_ms),
            _offset("another's", old_ms),
        ),
        pending=(pending,),
    )
    commits = _Commits(GroupsState(version=9).after(changes), {"left", "committed only"})
    _, upkeep = _coordinator(commits, ownership=_Ownership(anothers="another's"), expiry_ms=1)
    upkeep.start()
    await commits.are_gone.wait()
    upkeep.stop()
    assert commits.state.groups.keys() == {"alive", "just in time", "left lately", "pending", "another's"}


@pytest.mark.parametrize("adopts", [True, False])
async def test_groups_are_taken_over_only_where_requests_about_them_come(adopts: bool) -> None:
    """Whose requests are passed on to one gateway have one coordinator; else each keeps what it was asked about."""
    changes = GroupChanges(groups=(_row("another's", 5, MEMBER),))
    commits = _Commits(GroupsState(version=9).after(changes), set())
    _, upkeep = _coordinator(commits, ownership=_Ownership(adopts_groups=adopts), adoption_ms=1, expiry_ms=2)
    rounds, enough = 0, asyncio.Event()
    adopt = upkeep._adopt

    async def count() -> None:
        nonlocal rounds
        await adopt()
        rounds += 1
        if rounds == 3:
            enough.set()

    upkeep._adopt = count
    upkeep.start()
    await enough.wait()
    upkeep.stop()
    row = commits.state.group("another's").row
    assert row is not None
    assert row.coordinator == ("me" if adopts else "another")


async def test_a_member_whose_client_left_while_it_joined_is_taken_out() -> None:
    """A join without a received answer, and no other member: its session ends all the same, and its partitions are free."""
    commits = _Commits(GroupsState(version=0), set())
    clock = ManualClock()

    def members() -> tuple[MemberRow, ...]:
        row = commits.state.group("g").row
        return row.members if row is not None else ()

    async def until_there_are(count: int) -> None:
        async with asyncio.timeout(20):
            while len(members()) != count:
                commits.has_changed.clear()
                await commits.has_changed.wait()

    coordinator, upkeep = _coordinator(commits, clock, tick_ms=1, pause_ms_min=10_000_000)
    upkeep.start()
    group = await coordinator.live("g")
    commits.may_decide.clear()
    joining = asyncio.ensure_future(group.join(msgspec.structs.replace(MEMBER, acknowledged=-1), "range"))
    async with asyncio.timeout(20):
        await commits.regroups.wait()
    joining.cancel()
    commits.may_decide.set()
    await until_there_are(1)
    clock.elapsed_ms = MEMBER.session_timeout_ms + 1
    await until_there_are(0)
    upkeep.stop()


async def test_a_group_is_this_gateways_only_while_a_recent_look_says_so() -> None:
    """Another gateway may have claimed it: a coordinator asks the table as of ``lease_ms`` ago at most, each time."""
    commits = _Commits(GroupsState(version=0), set())
    coordinator, _ = _coordinator(commits)
    group = await coordinator.live("g")
    assert await coordinator.live("g") is group
    assert await coordinator.is_current(group)
    await commits.decide(ClaimGroup(group="g", coordinator="another"))
    commits.ages.clear()
    assert not await coordinator.is_current(group)
    taken_back = await coordinator.live("g")
    assert taken_back is not group
    assert group.is_lost
    assert taken_back.row.coordinator == "me"
    assert taken_back.row.epoch > group.row.epoch
    assert commits.ages
    assert max(commits.ages) <= GroupBounds().lease_ms


@pytest.mark.parametrize("is_classic", [False, True])
async def test_first_members_that_come_at_once_join_one_group(is_classic: bool) -> None:
    """Also while the group is still being claimed, of either kind: a second one in memory would never answer its members."""
    commits = _Commits(GroupsState(version=0), set())
    coordinator, _ = _coordinator(commits)
    asked: Any = coordinator.for_classic if is_classic else coordinator.live
    commits.may_decide.clear()
    coming = [asyncio.create_task(asked("g")) for _ in range(3)]
    await asyncio.sleep(0)
    commits.may_decide.set()
    groups = await asyncio.gather(*coming)
    assert [group is groups[0] for group in groups] == [True, True, True]
    assert not groups[0].is_lost
    assert coordinator.known("g") is groups[0]
