"""Group commit by itself: order, bounds, and that each item is settled exactly once, whatever happens to its commit."""

from __future__ import annotations

import asyncio

import pytest

from gateway.engine.group_commit import Pending
from gateway.engine.outcome import TimeLimits
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, RequestRefused
from tests.support.committed_numbers import Numbers, OneByOne, Planted, Store, commits, settled


async def test_what_comes_while_a_commit_is_under_way_shares_the_next() -> None:
    """In the order in which it came; each gets its own outcome."""
    store = Store()
    numbers = commits(store.commit)
    store.gate.clear()
    first = numbers.submit(1)
    await store.begun.wait()
    others = [numbers.submit(number) for number in (5, 3, 4)]
    store.gate.set()
    assert await settled([first, *others]) == [10, 50, 30, 40]
    assert store.groups == [[1], [5, 3, 4]]
    await asyncio.sleep(0)
    assert numbers.is_idle


async def test_the_queue_is_bounded() -> None:
    """One too many is refused and settled nowhere; once there is room the next is taken."""
    store = Store()
    numbers = commits(store.commit, waiting_max=2)
    store.gate.clear()
    first = numbers.submit(1)
    await store.begun.wait()
    others = [numbers.submit(2), numbers.submit(3)]
    with pytest.raises(BackOff) as caught:
        numbers.submit(4)
    assert caught.value.code is ErrorCode.OVERLOADED
    store.gate.set()
    assert await settled([first, *others]) == [10, 20, 30]
    assert await settled([numbers.submit(5)]) == [50]
    assert store.groups == [[1], [2, 3], [5]]


async def test_each_item_has_an_outcome_of_its_own() -> None:
    """A refusal of one is not another's; the first outcome of an item is its last."""

    async def commit(group: Numbers) -> None:
        group.settle([RequestRefused("odd") if number % 2 else number for number in group.items])
        group.settle([0 for _ in group.items])
        group.fail(BackOff("too late"))

    numbers = commits(commit)
    odd, even = await settled([numbers.submit(1), numbers.submit(2)])
    assert isinstance(odd, RequestRefused)
    assert even == 2


async def test_an_error_is_that_of_the_whole_group_and_of_no_other() -> None:
    """Those that were waiting are committed by the next."""
    store = Store()
    numbers = commits(store.commit)
    store.gate.clear()
    store.defect = BackOff("the store is down")
    first = [numbers.submit(1), numbers.submit(2)]
    await store.begun.wait()
    other = numbers.submit(3)
    store.gate.set()
    assert await settled([*first, other]) == [store_down := first[0].settled.exception(), store_down, 30]
    assert isinstance(store_down, BackOff)


async def test_a_defect_leaves_no_caller_waiting(caplog: pytest.LogCaptureFixture) -> None:
    """What was taken may have happened: ``OutcomeUnknown``. What was not, did not: ``BackOff``."""
    store = Store()
    numbers = commits(store.commit)
    store.gate.clear()
    store.defect = Planted()
    taken = numbers.submit(1)
    await store.begun.wait()
    waiting = numbers.submit(2)
    store.gate.set()
    assert [type(outcome) for outcome in await settled([taken, waiting])] == [OutcomeUnknown, BackOff]
    assert store.groups == []
    assert await settled([numbers.submit(3)]) == [30]
    assert [record.getMessage() for record in caplog.records] == ["a commit of the numbers met a defect"]


async def test_what_a_commit_forgets_to_settle_is_not_known() -> None:
    """Also where it ends as if all were well, and where it has settled some."""

    async def commit(group: Numbers) -> None:
        group.pending[0].settle(1)

    numbers = commits(commit)
    first, second = await settled([numbers.submit(1), numbers.submit(2)])
    assert first == 1
    assert isinstance(second, OutcomeUnknown)


async def test_what_is_withdrawn_at_once_is_in_no_group() -> None:
    """Not even in an empty one."""
    store = Store()
    numbers = commits(store.commit)
    assert numbers.withdraw(numbers.submit(1))
    await asyncio.sleep(0.01)
    assert store.groups == []
    assert await settled([numbers.submit(2)]) == [20]


async def test_a_caller_that_goes_away_takes_nothing_back() -> None:
    """Its item is committed like the others of its group."""
    store = Store()
    numbers = commits(store.commit)
    store.gate.clear()
    pending = [numbers.submit(1), numbers.submit(2)]
    callers = [
        asyncio.create_task(numbers.outcome(each, TimeLimits(), taken_within_ms=5_000, ends_within_ms=5_000))
        for each in pending
    ]
    await store.begun.wait()
    callers[0].cancel()
    await asyncio.sleep(0)
    store.gate.set()
    assert await callers[1] == 20
    assert store.groups == [[1, 2]]
    assert pending[0].settled.result() == 10


async def test_one_that_waits_too_long_is_withdrawn_or_not_known() -> None:
    """Withdrawn while no group has taken it, and never committed; its slot in the queue is free."""
    store = Store()
    numbers = commits(store.commit, waiting_max=1)
    store.gate.clear()
    taken = numbers.submit(1)
    await store.begun.wait()
    waiting = numbers.submit(2)
    with pytest.raises(BackOff):
        await numbers.outcome(waiting, TimeLimits(), taken_within_ms=1, ends_within_ms=60_000)
    last = numbers.submit(3)
    with pytest.raises(OutcomeUnknown):
        await numbers.outcome(taken, TimeLimits(), taken_within_ms=1, ends_within_ms=1)
    store.gate.set()
    assert await settled([taken, last]) == [10, 30]
    assert store.groups == [[1], [3]]


async def test_groups_that_make_way_are_carried_side_by_side_and_end_in_order() -> None:
    """A later one that is ready first waits for its turn."""
    ready = {number: asyncio.Event() for number in (1, 2, 3)}
    prepared: list[int] = []
    all_prepared = asyncio.Event()
    committed: list[int] = []

    async def commit(group: Numbers) -> None:
        (number,) = group.items
        prepared.append(number)
        if number == 3:
            all_prepared.set()
        group.allow_next()
        await ready[number].wait()
        await group.wait_for_earlier()
        committed.append(number)
        group.settle([number])

    numbers = commits(commit, OneByOne())
    pending = [numbers.submit(number) for number in (1, 2, 3)]
    await all_prepared.wait()
    assert prepared == [1, 2, 3]
    for number in (3, 2):
        ready[number].set()
        await asyncio.sleep(0.01)
        assert committed == []
    ready[1].set()
    assert await settled(pending) == [1, 2, 3]
    assert committed == [1, 2, 3]


async def test_a_group_makes_way_once() -> None:
    """Its end lets no group be taken beside a later one that has not made way."""
    ends = {number: asyncio.Event() for number in (1, 2, 3)}
    were_next: dict[int, bool] = {}

    async def commit(group: Numbers) -> None:
        (number,) = group.items
        were_next[number] = group.is_next
        if number == 1:
            group.allow_next()
        await ends[number].wait()
        group.settle([number])

    numbers = commits(commit, OneByOne())
    pending = [numbers.submit(number) for number in (1, 2, 3)]
    await asyncio.sleep(0.01)
    assert were_next == {1: True, 2: False}
    ends[1].set()
    await asyncio.sleep(0.01)
    assert pending[0].settled.done()
    assert 3 not in were_next
    ends[3].set()
    ends[2].set()
    assert await settled(pending) == [1, 2, 3]
    assert were_next[3]


async def test_a_defect_behind_others_refuses_none_of_them() -> None:
    """A group that had made way has no say in what came later."""
    is_later_taken = asyncio.Event()

    async def commit(group: Numbers) -> None:
        if group.items == [1]:
            group.allow_next()
            await is_later_taken.wait()
            raise Planted
        is_later_taken.set()
        await group.wait_for_earlier()
        group.settle(group.items)

    numbers = commits(commit, OneByOne())
    first, *others = await settled([numbers.submit(number) for number in (1, 2, 3)])
    assert isinstance(first, OutcomeUnknown)
    assert others == [2, 3]


async def test_what_comes_as_a_run_ends_is_taken_by_the_next() -> None:
    """A caller that is told submits again in the same turn of the loop, and so does one that comes between a run's end and its
    task's."""
    store = Store()
    numbers = commits(store.commit)
    late: list[Pending[int, int]] = []
    first = numbers.submit(1)
    first.settled.add_done_callback(lambda _: late.append(numbers.submit(2)))
    await settled([first])
    for _ in range(5):
        late.append(numbers.submit(len(late) + 2))
        await asyncio.sleep(0)
    assert await settled(late) == [10 * number for number in range(2, 8)]


async def test_one_timer_keeps_the_limits_of_many_waits() -> None:
    """Each ends in its own time, also one that comes later and is due before; those that are settled in time are left alone."""
    store = Store()
    numbers = commits(store.commit)
    store.gate.clear()
    under_way = numbers.submit(1)
    await store.begun.wait()
    limits = TimeLimits()
    late, early, in_time = (numbers.submit(number) for number in (2, 3, 4))
    waits = [
        asyncio.create_task(numbers.outcome(pending, limits, taken_within_ms=within_ms, ends_within_ms=60_000))
        for pending, within_ms in ((late, 60), (early, 1), (in_time, 60_000))
    ]
    ended, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    assert ended == {waits[1]}
    for wait in (waits[1], waits[0]):
        with pytest.raises(BackOff):
            await wait
    store.gate.set()
    assert await waits[2] == 40
    assert await settled([under_way]) == [10]
    assert store.groups == [[1], [4]]
