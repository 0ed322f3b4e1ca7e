"""A classic group: which members are asked to join when, which one leads, what each is given.

No commit of an older generation succeeds.
"""

from __future__ import annotations

import asyncio

import pytest

from gateway.groups.classic.consumer_protocol import assigned_partitions, assignment_of, subscription_of
from gateway.groups.classic.member import ClassicGeneration
from gateway.groups.classic.phase import Phase
from gateway.groups.classic.refusal import Rebalancing
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, RequestRefused, TidelogError
from log_format.groups.changes import CoordinatorFenced
from tests.support.classic_groups import FIRST_JOIN_MS, REBALANCE_MS, SESSION_MS, ClassicWorld, Client, settled, wish_of

SUBSCRIPTION = subscription_of(["t"])


async def _world() -> ClassicWorld:
    world = ClassicWorld()
    await world.claim()
    return world


def _code(refused: pytest.ExceptionInfo[TidelogError]) -> ErrorCode:
    return refused.value.code


async def _rejoin(world: ClassicWorld, *clients: Client) -> list[asyncio.Task[ClassicGeneration | None]]:
    return [await world.member(member_id=one.id) for one in clients]


async def test_two_members_join_and_the_leader_assigns() -> None:
    """The first to come leads and hears of both. Each gets what the leader gave it, and the table says so."""
    world = await _world()
    first, second = await world.stable({}, {})
    assert first.joined.leader == second.joined.leader == first.id
    assert [name for name, _, _ in first.joined.members] == [first.id, second.id]
    assert not second.joined.members
    assert first.generation == second.generation == 1
    assert [assigned_partitions(one.assignment) for one in (first, second)] == [{"t": (0,)}, {"t": (1,)}]
    row = world.table.state.group("g").row
    assert row is not None
    assert [(one.member_id, one.topics, one.target) for one in row.members] == [
        (first.id, ("t",), {"t": (0,)}),
        (second.id, ("t",), {"t": (1,)}),
    ]
    assert (row.generation, row.assignor) == (1, "range")
    world.group.heartbeat(first.id, None, 1)
    assert world.table.reserved_bytes == 0


async def test_an_empty_group_waits_for_further_members() -> None:
    """Each that comes has it wait anew, so that a fleet that starts is one rebalance."""
    world = await _world()
    first = await world.member()
    await world.passes(FIRST_JOIN_MS - 1)
    second = await world.member()
    await world.passes(FIRST_JOIN_MS - 1)
    assert not first.done()
    await world.passes(1)
    clients = await world.synced(first, second)
    assert len(clients[0].joined.members) == 2


async def test_a_member_that_comes_has_the_others_join_again() -> None:
    """They hear of it by their heartbeats. Until then they may commit; once all have joined, the old generation may not."""
    world = await _world()
    (first,) = await world.stable({})
    joining = await world.member()
    with pytest.raises(Rebalancing):
        world.group.heartbeat(first.id, None, 1)
    world.group.check_commit(first.id, 1)
    assert await world.table.commit(first.id, 1, 5) is None
    (again,) = await _rejoin(world, first)
    with pytest.raises(RequestRefused) as refused:
        world.group.check_commit(first.id, 1)
    assert _code(refused) is ErrorCode.STALE_GENERATION
    clients = await world.synced(again, joining)
    assert {one.generation for one in clients} == {2}
    refusal = await world.table.commit(first.id, 1, 6)
    assert refusal is not None
    assert refusal.code is ErrorCode.STALE_GENERATION
    assert await world.table.commit(first.id, 2, 7) is None
    assert world.table.offset == 7


async def test_a_member_that_crashes_is_out_after_its_session() -> None:
    """The others go on; what the crashed one still commits is refused."""
    world = await _world()
    first, second = await world.stable({}, {})
    await world.passes(SESSION_MS - 1)
    world.group.heartbeat(first.id, None, 1)
    await world.passes(1)
    with pytest.raises(Rebalancing):
        world.group.heartbeat(first.id, None, 1)
    with pytest.raises(RequestRefused) as refused:
        world.group.heartbeat(second.id, None, 1)
    assert _code(refused) is ErrorCode.UNKNOWN_MEMBER
    (alone,) = await world.synced(*await _rejoin(world, first))
    assert alone.generation == 2
    refusal = await world.table.commit(second.id, 1, 5)
    assert refusal is not None
    assert refusal.code is ErrorCode.UNKNOWN_MEMBER


async def test_the_leader_goes_and_another_leads() -> None:
    """Whether it leaves or does not join again in time."""
    world = await _world()
    first, second, third = await world.stable({}, {}, {})
    assert await world.group.leave([(first.id, None)]) == [None]
    joining = await _rejoin(world, second)
    await world.passes(SESSION_MS - 1)
    world.group.members.find(third.id, None).seen_ms = world.clock.monotonic_ms() + REBALANCE_MS
    await world.passes(REBALANCE_MS - SESSION_MS)
    assert not joining[0].done()
    await world.passes(1)
    (left,) = await world.synced(*joining)
    assert (left.joined.leader, left.generation) == (second.id, 2)
    assert [name for name, _, _ in left.joined.members] == [second.id]


async def test_a_leader_that_does_not_sync_is_out() -> None:
    """The others, which wait for its assignment, join again without it."""
    world = await _world()
    joining = [await world.member(), await world.member()]
    await world.passes(FIRST_JOIN_MS)
    first, second = [await one for one in joining]
    assert first is not None
    assert second is not None
    waiting = asyncio.create_task(world.group.sync(second.member_id, None, 1, None, {}))
    for _ in range(REBALANCE_MS // (SESSION_MS - 1) + 1):
        await world.passes(SESSION_MS - 1)
    with pytest.raises(Rebalancing):
        await waiting
    with pytest.raises(RequestRefused) as refused:
        world.group.heartbeat(first.member_id, None, 1)
    assert _code(refused) is ErrorCode.UNKNOWN_MEMBER


async def test_a_new_member_gets_its_id_first() -> None:
    """Only a promised id joins. A rebalance waits for it until its session would end."""
    world = await _world()
    assert await world.group.join(wish_of(requires_id=True), "m-promised") is None
    with pytest.raises(RequestRefused) as refused:
        await world.group.join(wish_of("m-other", requires_id=True), "x")
    assert _code(refused) is ErrorCode.UNKNOWN_MEMBER
    joining = await world.member(member_id="m-promised", requires_id=True)
    await world.passes(FIRST_JOIN_MS)
    (first,) = await world.synced(joining)
    assert first.id == "m-promised"
    assert await world.group.join(wish_of(requires_id=True), "m-late") is None
    (again,) = await _rejoin(world, first)
    assert not again.done()
    await world.passes(SESSION_MS)
    assert again.done()


async def test_members_vote_for_a_protocol() -> None:
    """Of those that all know, the one that most prefer. A member that knows none of them is refused, and other kinds are."""
    world = await _world()
    both = (("range", SUBSCRIPTION), ("sticky", SUBSCRIPTION))
    other = (("sticky", SUBSCRIPTION), ("range", SUBSCRIPTION))
    (first, *_) = await world.stable({"protocols": both}, {"protocols": other}, {"protocols": other})
    assert first.joined.protocol == "sticky"
    for wish in (wish_of(protocols=(("uniform", b""),)), wish_of(protocol_type="connect"), wish_of(protocols=())):
        with pytest.raises(RequestRefused) as refused:
            await world.group.join(wish, "x")
        assert _code(refused) is ErrorCode.INCONSISTENT_ASSIGNOR
    assert world.group.phase is Phase.STABLE


async def test_opaque_protocols_are_handed_on_as_they_are() -> None:
    """Connect's bytes mean nothing here."""
    world = await _world()
    joining = await world.member(protocol_type="connect", protocols=(("sessioned", b"\xff\x00meta"),))
    await world.passes(FIRST_JOIN_MS)
    joined = await joining
    assert joined is not None
    assert [metadata for _, _, metadata in joined.members] == [b"\xff\x00meta"]
    assert await world.group.sync(joined.member_id, None, 1, None, {joined.member_id: b"\x00plan"}) == b"\x00plan"
    row = world.table.state.group("g").row
    assert row is not None
    assert (row.members[0].topics, row.members[0].target) == ((), {})


async def test_answers_that_were_lost_are_given_again() -> None:
    """A member that joins as it did, or syncs again, hears the same. A leader that joins again begins a rebalance."""
    world = await _world()
    first, second = await world.stable({}, {})
    assert await world.group.join(wish_of(second.id), "x") == second.joined
    assert await world.group.sync(second.id, None, 1, None, {}) == second.assignment
    again = await world.member(member_id=first.id)
    assert not again.done()
    assert world.group.phase is Phase.PREPARING


async def test_the_last_member_leaves() -> None:
    """Then the group is empty, in the table too, and a consumer without membership may commit."""
    world = await _world()
    (first,) = await world.stable({})
    refusal = await world.table.commit(None, None, 3)
    assert refusal is not None
    assert await world.group.leave([(first.id, None), ("m-unknown", None)]) != [None, None]
    assert world.group.state == "Empty"
    assert world.group.is_idle
    row = world.table.state.group("g").row
    assert row is not None
    assert (row.members, row.generation) == ((), 2)
    assert await world.table.commit(None, None, 3) is None


async def test_an_empty_group_that_could_not_be_written_is_written_later() -> None:
    """The call that left says so; time does it again."""
    world = await _world()
    (first,) = await world.stable({})
    world.table.fails = BackOff("not now")
    with pytest.raises(BackOff):
        await world.group.leave([(first.id, None)])
    await world.passes(1)
    row = world.table.state.group("g").row
    assert row is not None
    assert row.members == ()


async def test_an_assignment_that_could_not_be_written_is_no_generation() -> None:
    """Its members hear so and join again; none reads under it."""
    world = await _world()
    joining = await world.member()
    await world.passes(FIRST_JOIN_MS)
    world.table.fails = BackOff("not now")
    with pytest.raises(BackOff):
        await world.synced(joining)
    assert world.group.phase is Phase.PREPARING
    world.table.fails = OutcomeUnknown("perhaps")
    (again,) = [await world.member(member_id="m01")]
    with pytest.raises(CoordinatorFenced):
        await world.synced(again)
    assert world.group.is_lost
    with pytest.raises(CoordinatorFenced):
        world.group.heartbeat("m01", None, 2)


async def test_a_member_that_comes_while_the_assignment_is_written() -> None:
    """What was written late counts for no member: all join again, and the generation after has both."""
    world = await _world()
    joining = await world.member()
    await world.passes(FIRST_JOIN_MS)
    joined = await joining
    assert joined is not None
    world.table.may_decide.clear()
    syncing = asyncio.create_task(world.group.sync("m01", None, 1, None, {"m01": assignment_of({"t": (0,)})}))
    await settled()
    late = await world.member()
    with pytest.raises(Rebalancing):
        await syncing
    world.table.may_decide.set()
    clients = await world.synced(late, await world.member(member_id="m01"))
    assert {one.generation for one in clients} == {2}
    row = world.table.state.group("g").row
    assert row is not None
    assert (row.generation, len(row.members)) == (2, 2)


async def test_another_gateway_takes_the_group_over() -> None:
    """It goes on with the members that the table has, without a rebalance. What the former one does then comes to nothing."""
    world = await _world()
    first, second = await world.stable({}, {})
    former = world.group
    waiting = [await world.member()]
    group = await world.claim("b")
    group.heartbeat(first.id, None, 1)
    assert await group.sync(second.id, None, 1, None, {}) == second.assignment
    again = [asyncio.create_task(former.join(wish_of(one.id), "x")) for one in (first, second)]
    third, leader, _ = await asyncio.gather(*waiting, *again)
    assert leader is not None
    assert third is not None
    follows = asyncio.create_task(former.sync(third.member_id, None, 2, None, {}))
    with pytest.raises(CoordinatorFenced):
        await former.sync(leader.member_id, None, 2, None, {third.member_id: b"assigned"})
    with pytest.raises(CoordinatorFenced):
        await follows
    assert former.is_lost
    with pytest.raises(CoordinatorFenced):
        former.heartbeat(first.id, None, 2)
    row = world.table.state.group("g").row
    assert row is not None
    assert len(row.members) == 2
    await world.passes(SESSION_MS)
    assert len(group.members) == 2, "a takeover gives each member so much more time"


async def test_a_call_whose_client_has_gone_leaves_the_group_as_it_was() -> None:
    """The member that it was for joins all the same, and is out after its session."""
    world = await _world()
    (first,) = await world.stable({})
    joining = await world.member()
    joining.cancel()
    await settled()
    (again,) = await _rejoin(world, first)
    joined = await again
    assert joined is not None
    assert len(world.group.members) == 2
    await world.passes(SESSION_MS)
    assert len(world.group.members) <= 1


@pytest.mark.parametrize("damaged", [b"", b"\x00", b"\xff" * 9, b"\x00\x00\x00\x00\x00\x01\x7f\xff", SUBSCRIPTION[:-6]])
async def test_bytes_that_consumers_do_not_write(damaged: bytes) -> None:
    """They are handed on as any; the table shows nothing of them."""
    world = await _world()
    (first,) = await world.stable({"protocols": (("range", damaged),)})
    assert first.joined.members[0][2] == damaged
    assert assigned_partitions(damaged) == {}


def test_partitions_are_read_back() -> None:
    """What Tidelog writes for a client of the classic protocol is what it reads of one."""
    assert assigned_partitions(assignment_of({"a": (0, 7), "b": (2,)})) == {"a": (0, 7), "b": (2,)}
