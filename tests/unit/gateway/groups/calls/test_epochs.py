"""Members of KIP-848: no partition goes to another before its holder has said that it reads it no more; epochs, instances and
assignors are checked."""

from __future__ import annotations

import asyncio

import pytest

from gateway.groups.calls.epochs import (
    FencedEpoch,
    UnknownAssignor,
    UnreleasedInstance,
)
from log_format.errors import ErrorCode, RequestRefused
from log_format.groups.row import Partitions, Reader
from tests.support.classic_groups import settled
from tests.support.group_world import PARTITIONS, REBALANCE_MS, GroupWorld


def _size(partitions: Partitions | None) -> int:
    return sum(len(numbers) for numbers in (partitions or {}).values())


async def test_a_partition_moves_once_its_holder_has_let_it_go() -> None:
    """The holder keeps its epoch and is told what is left. Only when it owns no more does the other get the rest."""
    world = GroupWorld()
    first = await world.join("a")
    assert (first.epoch, _size(first.assigned)) == (1, PARTITIONS)
    second = await world.join("b")
    assert (second.epoch, second.assigned) == (2, {})
    told = await world.beat("a", 1)
    assert (told.epoch, _size(told.assigned)) == (1, 2)
    assert told.assigned is not None
    for owned in (None, first.assigned, None):
        assert (await world.beat("a", 1, owned=owned)).epoch == 1
    assert (await world.beat("b", 2)).assigned is None
    done = await world.beat("a", 1, owned=told.assigned)
    assert (done.epoch, done.assigned) == (2, told.assigned)
    given = await world.beat("b", 2)
    assert (given.epoch, _size(given.assigned)) == (2, 2)
    assert (await world.beat("b", 2)).assigned is None
    assert given.assigned is not None
    assert set(given.assigned["t"]).isdisjoint(told.assigned["t"])


async def test_what_was_given_counts_as_read_before_the_client_says_so() -> None:
    """It may be about to begin: that it reads nothing yet does not free what it was given."""
    world = GroupWorld()
    await world.join("a")
    await world.join("b")
    told = await world.beat("a", 1, owned={})
    assert (told.epoch, _size(told.assigned)) == (1, 2)
    assert (await world.beat("b", 2)).assigned is None
    assert (await world.beat("a", 1, owned={})).epoch == 2


async def test_an_answer_that_was_lost_is_given_again() -> None:
    """A member with the epoch before, which owns nothing that it was not given, hears the same once more. Others are fenced."""
    world = GroupWorld()
    await world.join("a")
    await world.join("b")
    left = (await world.beat("a", 1)).assigned
    first = await world.beat("a", 1, owned=left)
    assert first.epoch == 2
    assert await world.beat("a", 1, owned=left) == first
    for epoch, owned in ((1, None), (1, {"t": (0, 1, 2, 3)}), (3, None), (7, {})):
        with pytest.raises(FencedEpoch):
            await world.beat("a", epoch, owned=owned)


async def test_a_member_that_was_fenced_joins_again_with_its_id() -> None:
    """It owns nothing, so what it had is free at once, and it is assigned as a new one."""
    world = GroupWorld()
    await world.join("a")
    again = await world.join("a")
    assert (again.epoch, _size(again.assigned)) == (2, PARTITIONS)
    assert len((await world.group()).row.members) == 1
    assert (await world.beat("a", 2)).epoch == 2


async def test_a_member_may_take_its_rebalance_time_out() -> None:
    """It has as long as it asked for to let go, as long as it is heard of; then it is out."""
    world = GroupWorld()
    await world.join("a")
    await world.join("b")
    group = await world.group()
    for _ in range(REBALANCE_MS // 40_000):
        await world.beat("a", 1)
        world.clock.pass_ms(40_000)
    assert group.sessions["a"].learned_ms is not None
    world.clock.pass_ms(40_000)
    await group.end_sessions()
    with pytest.raises(RequestRefused) as refused:
        await world.beat("a", 1)
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER


async def test_a_static_member_that_goes_comes_back_to_what_it_had() -> None:
    """Its next instance takes its place once it has said so; before that it is refused."""
    world = GroupWorld()
    first = await world.join("a", instance_id="i")
    with pytest.raises(UnreleasedInstance):
        await world.join("b", instance_id="i")
    assert (await world.beat("a", -2, instance_id="i")).epoch == -2
    back = await world.join("b", instance_id="i")
    assert (back.epoch, back.assigned) == (1, first.assigned)
    with pytest.raises(RequestRefused) as refused:
        await world.beat("a", 1, instance_id="i")
    assert refused.value.code is ErrorCode.FENCED_MEMBER


async def _settled_pair(world: GroupWorld) -> Partitions:
    """``a`` and ``b`` share ``t``, then ``b`` goes: ``a`` acknowledges generation 3, which takes nothing from it. Of ``a``'s
    epochs the table has 2."""
    await world.join("a")
    await world.join("b")
    left = (await world.beat("a", 1)).assigned
    assert left is not None
    assert (await world.beat("a", 1, owned=left)).epoch == 2
    await world.beat("b", 2)
    await world.beat("b", -1)
    told = await world.beat("a", 2)
    assert (told.epoch, _size(told.assigned)) == (3, PARTITIONS)
    assert (await world.row("a")).acknowledged == 2
    assert told.assigned is not None
    return told.assigned


async def test_a_member_goes_on_at_the_next_coordinator() -> None:
    """Its epoch is newer than the table's, since only memory had it. It may commit under it, goes on, and is told all anew."""
    world = GroupWorld()
    assigned = await _settled_pair(world)
    later = world.taken_over()
    await later.epochs.check("g", "a", 3, None)
    told = await later.beat("a", 3)
    assert (told.epoch, told.assigned) == (3, assigned)
    assert (await later.row("a")).acknowledged <= 3
    assert (await later.beat("a", 3)).assigned is None


async def test_a_member_goes_on_though_the_group_changed_first() -> None:
    """The next coordinator takes another in before it hears of the member, whose epoch then is between table and generation."""
    world = GroupWorld()
    assigned = await _settled_pair(world)
    later = world.taken_over()
    assert (await later.join("c")).epoch == 4
    await later.epochs.check("g", "a", 3, None)
    told = await later.beat("a", 3, owned=assigned)
    assert (told.epoch, _size(told.assigned)) == (3, 2)
    assert (await later.beat("c", 4)).assigned is None, "the member reads it still"
    assert (await later.beat("a", 3, owned=told.assigned)).epoch == 4
    assert _size((await later.beat("c", 4)).assigned) == 2


async def test_epochs_that_no_coordinator_gave_are_fenced() -> None:
    """Above the generation; the present one while the member has not let go; and each but its own once it was heard of."""
    world = GroupWorld()
    assigned = await _settled_pair(world)
    later = world.taken_over()
    await later.join("c")
    for epoch in (4, 5):
        with pytest.raises(FencedEpoch):
            await later.beat("a", epoch, owned=assigned)
    assert (await later.beat("a", 2)).epoch == 2
    with pytest.raises(FencedEpoch):
        await later.beat("a", 3)
    with pytest.raises(RequestRefused) as refused:
        await later.epochs.check("g", "a", 3, None)
    assert refused.value.code is ErrorCode.STALE_GENERATION


async def test_a_member_that_leaves_frees_what_it_had() -> None:
    """Over HTTP it is gone as well."""
    world = GroupWorld()
    await world.join("a")
    assert (await world.beat("a", -1)).epoch == -1
    assert (await world.group()).state == "Empty"
    with pytest.raises(RequestRefused):
        await world.beat("a", 1)


async def test_a_member_wants_other_topics() -> None:
    """Names, a pattern, or both; nothing that it keeps is taken from it."""
    world = GroupWorld()
    await world.join("a")
    more = await world.beat("a", 1, topics=("t", "u"))
    assert (more.epoch, _size(more.assigned)) == (2, 2 * PARTITIONS)
    await world.beat("a", 2, topics=("t",), pattern="u.*")
    row = await world.row("a")
    assert (row.topics, row.pattern) == (("t",), "u.*")
    less = await world.beat("a", 3, pattern="", owned={"t": (0, 1, 2, 3), "u": (0, 1, 2, 3)})
    assert (less.epoch, less.assigned) == (3, {"t": (0, 1, 2, 3)})
    assert (await world.beat("a", 3, owned={"t": (0, 1, 2, 3)})).epoch == 4


async def test_assignors() -> None:
    """Kafka's names. A member that names none takes the group's; one that names another is refused."""
    world = GroupWorld()
    await world.join("a", assignor="range")
    assert (await world.group()).row.assignor == "range"
    await world.join("b")
    for assignor in ("uniform", "none"):
        with pytest.raises(UnknownAssignor):
            await world.join("c", assignor=assignor)


async def test_a_member_lets_go_in_the_moment_in_which_another_joins() -> None:
    """One row may take in both. Then the member's epoch is the one that it acknowledged, and it goes on with that."""
    world = GroupWorld()
    await world.join("a")
    await world.join("b")
    left = (await world.beat("a", 1)).assigned
    assert left is not None
    world.table.may_decide.clear()
    busy = asyncio.create_task(world.join("c"))
    await settled()
    letting_go = asyncio.create_task(world.beat("a", 1, owned={"t": left["t"][:1]}))
    joining = asyncio.create_task(world.join("d"))
    await settled()
    world.table.may_decide.set()
    told = await letting_go
    await asyncio.gather(busy, joining)
    again = await world.beat("a", told.epoch, owned=told.assigned)
    assert again.epoch in (told.epoch, (await world.group()).row.generation)


async def test_anothers_member_is_unknown() -> None:
    """Clients choose their ids, so the principal that joined is compared."""
    world = GroupWorld()
    await world.join("a", reader=Reader("User:one"))
    for epoch in (0, 1, -1):
        with pytest.raises(RequestRefused) as refused:
            await world.beat("a", epoch, reader=Reader("User:two"), topics=("t",))
        assert refused.value.code is ErrorCode.UNKNOWN_MEMBER
    assert (await world.beat("a", 1, reader=Reader("User:one"))).epoch == 1
