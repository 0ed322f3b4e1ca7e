"""Static members (KIP-345): one that comes back goes on with what it had, and the others do not notice."""

from __future__ import annotations

import pytest

from gateway.groups.classic.consumer_protocol import subscription_of
from gateway.groups.classic.phase import Phase
from log_format.errors import ErrorCode, RequestRefused
from tests.support.classic_groups import REBALANCE_MS, SESSION_MS, ClassicWorld, wish_of

SUBSCRIPTION = subscription_of(["t"])


async def test_a_static_member_comes_back_without_a_rebalance() -> None:
    """It gets a new id and what it had; the old id is fenced in memory and in the table. A leader need not assign anew."""
    world = ClassicWorld()
    await world.claim()
    first, second = await world.stable({"instance": "i1"}, {"instance": "i2"})
    back = await world.group.join(wish_of(instance="i1", can_skip=True), "m-back")
    assert back is not None
    assert (back.generation, back.leader, back.skip_assignment) == (1, "m-back", True)
    assert len(back.members) == 2
    assert await world.group.sync("m-back", "i1", 1, ("consumer", "range"), {}) == first.assignment
    world.group.heartbeat(second.id, "i2", 1)
    with pytest.raises(RequestRefused) as refused:
        world.group.heartbeat(first.id, "i1", 1)
    assert refused.value.code is ErrorCode.FENCED_MEMBER
    with pytest.raises(RequestRefused) as refused:
        world.group.check_commit(first.id, 1)
    assert refused.value.code is ErrorCode.FENCED_MEMBER
    refusal = await world.table.commit(first.id, 1, 5)
    assert refusal is not None
    assert refusal.code is ErrorCode.FENCED_MEMBER
    assert await world.table.commit("m-back", 1, 5) is None


async def test_a_static_leader_whose_client_can_not_skip_does_not_lead() -> None:
    """It is told that the id that it had leads, so it does not assign."""
    world = ClassicWorld()
    await world.claim()
    (first,) = await world.stable({"instance": "i1"})
    back = await world.group.join(wish_of(instance="i1"), "m-back")
    assert back is not None
    assert (back.leader, list(back.members)) == (first.id, [])


async def test_a_static_member_with_other_metadata_is_no_rebalance() -> None:
    """KIP-345: Java's sticky assignors put what they own there, so each start brings other bytes. The others do not notice, the
    table has the new bytes, and a client whose topics changed joins again by itself: that is a rebalance."""
    world = ClassicWorld()
    await world.claim()
    _, second = await world.stable({}, {"instance": "i2"})
    other = (("range", subscription_of(["u"])),)
    joining = await world.member(instance="i2", protocols=other)
    assert joining.done(), "a rebalance"
    back = await joining
    assert back is not None
    assert back.generation == 1
    assert await world.group.sync(back.member_id, "i2", 1, None, {}) == second.assignment
    assert world.group.phase is Phase.STABLE
    row = world.table.state.group("g").row
    assert row is not None
    assert row.members[1].topics == ("u",)
    again = await world.member(
        member_id=back.member_id, instance="i2", protocols=(("range", subscription_of(["u", "v"])),)
    )
    assert not again.done()
    again.cancel()


async def test_a_static_member_that_changes_the_chosen_protocol_is_a_rebalance() -> None:
    """It still knows the present one, and brings the same bytes for it, but prefers another."""
    world = ClassicWorld()
    await world.claim()
    both = (("range", SUBSCRIPTION), ("roundrobin", SUBSCRIPTION))
    await world.stable({"instance": "i1", "protocols": both})
    assert world.group.protocol == "range"
    back = await world.member(instance="i1", protocols=both[::-1])
    clients = await world.synced(back)
    assert {one.generation for one in clients} == {2}
    assert world.group.protocol == "roundrobin"


async def test_a_static_member_comes_back_after_a_takeover() -> None:
    """The next coordinator knows the chosen protocol's bytes only. A member that brings further protocols is no rebalance."""
    world = ClassicWorld()
    await world.claim()
    both = (("range", SUBSCRIPTION), ("roundrobin", SUBSCRIPTION))
    await world.stable({"protocols": both}, {"instance": "i2", "protocols": both})
    await world.claim("b")
    joining = await world.member(instance="i2", protocols=both)
    assert joining.done(), "a rebalance"
    back = await joining
    assert back is not None
    assert (back.generation, world.group.phase) == (1, Phase.STABLE)


async def test_a_static_member_may_be_away_during_a_rebalance() -> None:
    """It stays a member until its session ends, and no dynamic one does."""
    world = ClassicWorld()
    await world.claim()
    first, _, _ = await world.stable({}, {"instance": "i2", "session_ms": 10 * REBALANCE_MS}, {})
    joining = [await world.member(), await world.member(member_id=first.id)]
    for _ in range(REBALANCE_MS // (SESSION_MS - 1) + 1):
        await world.passes(SESSION_MS - 1)
    clients = await world.synced(*joining)
    assert {one.wish.instance_id for one in world.group.members} == {None, "i2"}
    assert len(clients) == 2
    assert len(world.group.members) == 3
