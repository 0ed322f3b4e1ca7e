"""Members of Kafka's classic protocol beside others: the group goes over and back with its members, no partition goes to another
before its holder joins again without it, and who can't go over is left alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.groups.calls.epochs import UnknownAssignor, UnreleasedInstance
from gateway.groups.classic.consumer_protocol import assignment_of, subscription_of
from gateway.groups.classic.group import ClassicGroup
from gateway.groups.classic.refusal import Rebalancing
from gateway.groups.membership.live_group import LiveGroup
from log_format.errors import BackOff, ErrorCode, RequestRefused
from tests.support.classic_groups import settled
from tests.support.group_world import PARTITIONS, Classic, GroupWorld, reading


async def _code(work: Any) -> ErrorCode:
    with pytest.raises(RequestRefused) as refused:
        await work
    return refused.value.code


async def _targets(world: GroupWorld) -> list[tuple[int, ...]]:
    """What the gateway assigned to each member, in order of ids."""
    return [one.target["t"] for one in (await world.coordinator.claimed("g")).row.members]


async def test_a_group_goes_over_when_another_member_joins() -> None:
    """The newcomer gets a partition once the classic member that has it has joined again without it. That one commits for it
    until then, and no longer."""
    world = GroupWorld()
    first, second = await world.classic_alone()
    assert sorted((*first.partitions, *second.partitions)) == list(range(PARTITIONS))
    new = await world.join("new")
    assert (new.epoch, new.assigned) == (first.joined.generation + 1, {})
    moved = (await world.row("new")).target["t"]
    loser, other = (first, second) if set(moved) & set(first.partitions) else (second, first)
    assert await loser.is_called()
    assert await loser.commits(moved[0]) is None
    assert (await world.beat("new", new.epoch)).assigned is None
    before = loser.partitions
    kept = await loser.rejoins()
    assert (loser.joined.generation, loser.joined.leader, loser.joined.protocol) == (new.epoch, "", "range")
    assert set(kept) == set(before) - set(moved)
    assert (await world.beat("new", new.epoch)).assigned == {"t": moved}
    assert await loser.commits(moved[0]) is not None
    assert await loser.commits(kept[0]) is None
    assert await other.is_called()
    assert await other.rejoins() == other.partitions
    for one in (loser, other):
        assert not await one.is_called()


async def test_a_member_that_joins_with_what_it_is_to_give_up_keeps_its_generation() -> None:
    """A cooperative client reads on while it joins: it is told what is left, gives up the rest, and joins once more."""
    world = GroupWorld()
    pair = await world.classic_alone()
    new = await world.join("new")
    moved = (await world.row("new")).target["t"]
    loser = next(one for one in pair if set(moved) & set(one.partitions))
    generation, before = loser.joined.generation, loser.partitions
    left = await loser.rejoins(*before)
    assert (loser.joined.generation, set(left)) == (generation, set(before) - set(moved))
    assert await loser.is_called()
    assert (await world.beat("new", new.epoch)).assigned is None
    assert await loser.commits(moved[0]) is None
    assert await loser.rejoins(*left) == left
    assert loser.joined.generation == new.epoch
    assert (await world.beat("new", new.epoch)).assigned == {"t": moved}
    assert not await loser.is_called()


async def test_a_member_is_called_for_a_partition_that_another_let_go() -> None:
    """A classic member joins a group of others, with its id or without, and gets its share as they let go."""
    world = GroupWorld()
    await world.join("a")
    classic = await world.classic_join(requires_id=True)
    assert (classic.joined.generation, await classic.synced()) == (2, ())
    assert not await classic.is_called()
    told = await world.beat("a", 1)
    assert (await world.beat("a", 1, owned=told.assigned)).epoch == 2
    assert await classic.is_called()
    assert len(await classic.rejoins()) == PARTITIONS // 2
    assert not await classic.is_called()


@pytest.mark.parametrize("has_heard", [False, True])
async def test_a_group_goes_over_amid_a_rebalance(*, has_heard: bool) -> None:
    """Who waits is told to join again. What members read by the generation in the table they hold until they have done so."""
    world = GroupWorld()
    pair = await world.classic_alone()
    before = {one.id: one.partitions for one in pair}
    third = asyncio.create_task(world.classic_join())
    await settled()
    again = [asyncio.create_task(world.classic_join(member=one.id)) for one in pair[: 2 if has_heard else 1]]
    await settled()
    new = await world.join("new")
    assert new.assigned == {}
    if has_heard:
        assert (await third).joined.generation == pair[0].joined.generation + 1 < new.epoch
        for one in pair:
            assert await one.is_called(), "its answer is on the way yet"
            one.joined = (await again.pop(0)).joined
            with pytest.raises(Rebalancing):
                await one.synced()
            assert await one.is_called()
    else:
        for waiting in (third, *again):
            with pytest.raises(Rebalancing):
                await waiting
    assert {name: (await world.row(name)).held.get("t", ()) for name in before} == before
    given = [await one.rejoins() for one in pair]
    told = (await world.beat("new", new.epoch)).assigned
    assert told is not None
    assert sorted([*told["t"], *(number for one in given for number in one)]) == list(range(PARTITIONS))


async def test_a_group_goes_back_when_its_last_other_member_has_left() -> None:
    """First the members take over what it had, then they are told to join again, and one of them assigns once more. They commit
    for what they have all the while."""
    world = GroupWorld()
    await world.join("new")
    pair = [await world.classic_join() for _ in range(2)]
    told = await world.beat("new", 1)
    await world.beat("new", 1, owned=told.assigned)
    for one in pair:
        assert await one.rejoins()
    await world.beat("new", -1)
    for one in pair:
        assert isinstance(await world.coordinator.claimed("g"), LiveGroup)
        assert await one.is_called()
        assert await one.commits(one.partitions[0]) is None
        one.joined = (await world.classic_join(member=one.id)).joined
    assert isinstance(group := await world.coordinator.claimed("g"), ClassicGroup)
    assert group.state == "Reconciling"
    for one, partitions in zip(pair, await _targets(world), strict=True):
        with pytest.raises(Rebalancing):
            await one.synced()
        assert await one.is_called()
        assert await one.commits(partitions[0]) is None
    again = [asyncio.create_task(world.classic_join(member=one.id)) for one in pair]
    await settled()
    pair = [await one for one in again]
    assert sum(bool(one.joined.members) for one in pair) == 1
    await world.led(*pair)
    assert [await one.is_called() for one in pair] == [False, False]
    assert sorted((*pair[0].partitions, *pair[1].partitions)) == list(range(PARTITIONS))
    assert await pair[0].commits(pair[0].partitions[0]) is None


async def test_a_group_goes_back_and_forth_before_its_members_hear_of_it() -> None:
    """What members read stays their own, whatever was meant for them meanwhile."""
    world = GroupWorld()
    first, second = await world.classic_alone(order=-1)
    assert (first.partitions, second.partitions) == ((2, 3), (0, 1))
    new = await world.join("a", assignor="range")
    await world.beat("a", -1)
    newer = await world.join("a", assignor="range")
    assert (newer.epoch, newer.assigned) == (new.epoch + 2, {})
    for one in (first, second):
        assert (await world.row(one.id)).held["t"] == one.partitions
        assert await one.commits(one.partitions[0]) is None
        assert await one.is_called()
    await world.beat("a", -1)
    for one in (first, second):
        one.joined = (await world.classic_join(member=one.id)).joined
    targets = await _targets(world)
    assert isinstance(await world.coordinator.claimed("g"), ClassicGroup)
    newest = await world.join("a", assignor="range")
    assert newest.assigned == {}
    for one, partitions in zip((first, second), targets, strict=True):
        assert (await world.row(one.id)).held["t"] == partitions
        assert await one.is_called()


async def test_what_the_gateway_assigned_is_found_again_by_the_next_coordinator() -> None:
    """Of a mixed group, and of one that is about to go back: members join again, and nothing that they read goes to others."""
    world = GroupWorld()
    await world.classic_alone()
    new = await world.join("new")
    later = world.taken_over()
    group = await later.group()
    assert {one.classic is not None for one in group.row.members} == {True, False}
    classic = [one.member_id for one in group.row.members if one.classic is not None]
    assert (await later.beat("new", new.epoch)).assigned == {}
    for name in classic:
        known = await later.classic_join(member=name)
        assert not await known.is_called() or await known.rejoins()
    assert (await later.beat("new", new.epoch)).assigned
    await later.beat("new", -1)
    last = later.taken_over()
    for name in classic:
        assert isinstance(await last.coordinator.claimed("g"), LiveGroup)
        await last.classic_join(member=name)
    assert isinstance(await last.coordinator.claimed("g"), ClassicGroup)
    again = [asyncio.create_task(last.classic_join(member=name)) for name in classic]
    await settled()
    await last.led(*[await one for one in again])


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param(
            {"protocols": (("own", reading()),), "assigned": assignment_of({"t": (0,)})[:-4] + b"\0\0\0\1x"}, id="data"
        ),
        pytest.param({"protocols": (("own", b"x"),), "assigned": b"y"}, id="unreadable"),
        pytest.param({"protocols": (("own", b"x"),), "protocol_type": "connect", "assigned": b"y"}, id="connect"),
    ],
)
async def test_members_that_are_no_plain_consumers_stay_among_themselves(wish: dict[str, Any]) -> None:
    """Kafka Streams' leader tells its members more than partitions, and Connect's are no consumers: others can't join them."""
    world = GroupWorld()
    assigned = wish.pop("assigned")
    joining = asyncio.create_task(world.classic_join(**wish))
    await settled()
    world.clock.pass_ms(1_000)
    await (await world.coordinator.claimed("g")).end_sessions()
    member = await joining
    protocol = (wish.get("protocol_type", "consumer"), "own")
    speaker = member.speaker
    await world.classic.sync("g", speaker, member.joined.generation, protocol, {member.id: assigned})
    assert await _code(world.join("new")) is ErrorCode.INCONSISTENT_ASSIGNOR
    assert not await member.is_called()


async def test_a_join_that_can_not_be_disturbs_nobody() -> None:
    """An unknown assignor, or no room: the classic members go on."""
    world = GroupWorld(partitions_max=PARTITIONS)
    pair = await world.classic_alone()
    with pytest.raises(UnknownAssignor):
        await world.join("new", assignor="none")
    with pytest.raises(BackOff):
        await world.join("new", topics=("t", "u"))
    assert [await one.is_called() for one in pair] == [False, False]


async def test_a_write_that_fails_leaves_the_group_to_its_members() -> None:
    """The newcomer is not in; the classic members join again, and assign among themselves."""
    world = GroupWorld()
    pair = await world.classic_alone()
    world.table.fails = BackOff("The store is away.")
    with pytest.raises(BackOff):
        await world.join("new")
    assert [await one.is_called() for one in pair] == [True, True]
    again = [asyncio.create_task(world.classic_join(member=one.id)) for one in pair]
    await settled()
    await world.led(*[await one for one in again])


async def test_who_may_join_beside_others() -> None:
    """Consumers that have a protocol in common with the other classic members. One that reads something, and is none, must give
    that up first."""
    world = GroupWorld()
    await world.join("new")
    await world.classic_join()
    for wish in (
        {"protocols": (("own", reading()),)},
        {"protocols": ()},
        {"protocols": (("range", b"x"),)},
        {"protocol_type": "connect"},
    ):
        assert await _code(world.classic_join(**wish)) is ErrorCode.INCONSISTENT_ASSIGNOR
    assert await _code(world.classic_join(0, member="gone")) is ErrorCode.UNKNOWN_MEMBER
    known = await world.classic_join(member="promised", protocols=(("own", reading()), ("range", reading())))
    assert known.id == "promised"
    assert await _code(world.classic_join(member="new")) is ErrorCode.UNKNOWN_MEMBER
    assert await _code(world.beat("promised", 1)) is ErrorCode.UNKNOWN_MEMBER
    assert await _code(Classic(world, known.joined, "i").beats()) is ErrorCode.UNKNOWN_MEMBER


async def test_a_member_is_told_what_is_wrong_with_its_generation_and_protocol() -> None:
    """As a broker tells it."""
    world = GroupWorld()
    await world.join("new")
    member = await world.classic_join()
    speaker = member.speaker
    for generation in (1, 7):
        for call in (
            world.classic.sync("g", speaker, generation, None, {}),
            world.classic.heartbeat("g", speaker, generation),
        ):
            assert await _code(call) is ErrorCode.STALE_GENERATION
    wrong = world.classic.sync("g", speaker, member.joined.generation, ("consumer", "own"), {})
    assert await _code(wrong) is ErrorCode.INCONSISTENT_ASSIGNOR
    newer = await world.join("newer")
    with pytest.raises(Rebalancing):
        await world.classic.sync("g", speaker, newer.epoch, None, {})


async def test_a_member_that_does_not_come_is_out() -> None:
    """It has its rebalance time-out to join again; then what it holds is free."""
    world = GroupWorld()
    first, second = await world.classic_alone(rebalance_ms=20_000)
    new = await world.join("new")
    for _ in range(4):
        assert await first.is_called()
        await second.rejoins()
        world.clock.pass_ms(5_000)
        await world.beat("new", new.epoch)
    await second.rejoins()
    await (await world.group()).end_sessions()
    assert await _code(first.beats()) is ErrorCode.UNKNOWN_MEMBER


async def test_a_static_member_changes_its_protocol() -> None:
    """Each next instance takes the place of the one before, which is fenced, and has what that one had."""
    world = GroupWorld()
    (classic,) = await world.classic_alone(1, instance="i")
    new = await world.join("new", instance_id="i")
    assert new.assigned == {"t": tuple(range(PARTITIONS))}
    assert await _code(classic.beats()) is ErrorCode.FENCED_MEMBER
    with pytest.raises(UnreleasedInstance):
        await world.join("newer", instance_id="i")
    back = await world.classic_join(instance="i")
    assert await _code(world.beat("new", new.epoch)) is ErrorCode.UNKNOWN_MEMBER
    assert isinstance(await world.coordinator.claimed("g"), ClassicGroup)
    assert await back.is_called()
    back.joined = (await world.classic_join(member=back.id, instance="i")).joined
    await world.led(back)
    assert len(back.partitions) == PARTITIONS


async def test_members_subscribe_to_other_topics() -> None:
    """By their metadata, when they join again."""
    world = GroupWorld()
    await world.join("new")
    member = await world.classic_join()
    await member.rejoins(protocols=(("range", subscription_of(["t", "u"])),))
    assert (await world.row(member.id)).topics == ("t", "u")
