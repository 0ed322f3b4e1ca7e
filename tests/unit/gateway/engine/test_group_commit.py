"""Group commit by itself: order, bounds, pace, and that each item is settled exactly once, whatever happens to its commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from gateway.call import begin_call, stands
from gateway.engine.group_commit import AT_ONCE, AtOnce, Group, GroupCommit, Pace, Pending, TokenBucket, Waiting
from gateway.engine.outcome import TimeLimits
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, RequestRefused

Numbers = Group[int, int]


class Planted(Exception):
    """A defect."""


class Store:
    """Commits groups of numbers; the outcome of each is ten times the number. ``gate`` holds commits up while it is not set."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()
        self.defect: BaseException | None = None

    async def commit(self, group: Numbers) -> None:
        self.begun.set()
        await self.gate.wait()
        if self.defect is not None:
            defect, self.defect = self.defect, None
            raise defect
        self.groups.append(group.items)
        group.settle([10 * number for number in group.items])


def commits(work: Callable[[Numbers], Awaitable[None]], schedule: Any = None, waiting_max: int = 100) -> Any:
    return GroupCommit(work, schedule=schedule or AtOnce(), label="the numbers", waiting_max=waiting_max)


async def settled(pending: Sequence[Pending[int, int]]) -> list[int | BaseException]:
    return await asyncio.gather(*(each.settled for each in pending), return_exceptions=True)


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


@pytest.mark.parametrize("broken", ["due", "has_room", "take"])
async def test_a_defect_of_the_schedule_refuses_what_waits(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it happened, and what comes once the schedule works is committed."""

    def defect(*_: Any) -> Any:
        raise Planted

    store, schedule = Store(), AtOnce()
    numbers = commits(store.commit, schedule)
    with monkeypatch.context() as planted:
        planted.setattr(schedule, broken, defect)
        (outcome,) = await settled([numbers.submit(1)])
    assert isinstance(outcome, BackOff)
    assert await settled([numbers.submit(2)]) == [20]
    assert store.groups == [[2]]


async def test_what_is_withdrawn_at_once_is_in_no_group() -> None:
    """Not even in an empty one."""
    store = Store()
    numbers = commits(store.commit)
    assert numbers.withdraw(numbers.submit(1))
    await asyncio.sleep(0.01)
    assert store.groups == []
    assert await settled([numbers.submit(2)]) == [20]


@pytest.mark.parametrize("due_in", [0.0, 0.01])
async def test_a_group_is_no_part_of_the_call_that_brought_it_about(due_in: float) -> None:
    """It takes other calls' items, too."""
    call = begin_call()

    async def commit(group: Numbers) -> None:
        stands()
        group.settle(group.items)

    numbers = commits(commit, At(asyncio.get_running_loop().time() + due_in))
    await settled([numbers.submit(1)])
    assert not call.stands


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
        group.make_way()
        await ready[number].wait()
        await group.turn()
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
            group.make_way()
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
            group.make_way()
            await is_later_taken.wait()
            raise Planted
        is_later_taken.set()
        await group.turn()
        group.settle(group.items)

    numbers = commits(commit, OneByOne())
    first, *others = await settled([numbers.submit(number) for number in (1, 2, 3)])
    assert isinstance(first, OutcomeUnknown)
    assert others == [2, 3]


class OneByOne(AtOnce):
    """Groups of one; ``room``: whether another may be taken."""

    room = True

    def has_room(self, waiting: Waiting[Any]) -> bool:
        return self.room

    def take(self, waiting: Waiting[Any], now: float) -> int:
        return 1


async def test_no_group_is_taken_without_room() -> None:
    """Until the schedule has some, and is asked again."""
    store, schedule = Store(), OneByOne()
    schedule.room = False
    numbers = commits(store.commit, schedule)
    pending = numbers.submit(1)
    await asyncio.sleep(0.01)
    assert store.groups == []
    schedule.room = True
    numbers.reconsider()
    assert await settled([pending]) == [10]


class At:
    """Due at a time, or once there are ``bytes_max``."""

    def __init__(self, due: float, bytes_max: int = 1 << 30) -> None:
        self.time = due
        self.bytes_max = bytes_max
        self.room = True

    def due(self, waiting: Waiting[Any], now: float) -> float:
        return AT_ONCE if waiting.size_bytes >= self.bytes_max else self.time

    def has_room(self, waiting: Waiting[Any]) -> bool:
        return self.room

    def take(self, waiting: Waiting[Any], now: float) -> int:
        return len(waiting.entries)


async def test_a_group_is_taken_when_it_is_due() -> None:
    """At its time, not before; at once when what arrives makes it due, or when the schedule is another one now."""
    store, loop = Store(), asyncio.get_running_loop()
    schedule = At(loop.time() + 0.05, bytes_max=100)
    numbers = commits(store.commit, schedule)
    await settled([numbers.submit(1, 10)])
    assert loop.time() >= schedule.time - 0.001
    schedule.time = loop.time() + 3_600
    pending = [numbers.submit(2, 60)]
    await asyncio.sleep(0.01)
    assert store.groups == [[1]]
    pending.append(numbers.submit(3, 60))
    await settled(pending)
    assert store.groups == [[1], [2, 3]]
    withdrawn, left = numbers.submit(4, 60), numbers.submit(5, 30)
    await asyncio.sleep(0.01)
    assert numbers.withdraw(withdrawn)
    assert not numbers.withdraw(pending[0])
    last = numbers.submit(6, 30)
    await asyncio.sleep(0.01)
    assert store.groups == [[1], [2, 3]], "what was withdrawn is counted still"
    schedule.time = loop.time()
    numbers.reconsider()
    assert await settled([left, last]) == [50, 60]


async def test_what_has_been_due_remains_so_until_it_is_taken_or_withdrawn() -> None:
    """Where there was no room, and the schedule has another time since."""
    store, loop = Store(), asyncio.get_running_loop()
    schedule = At(loop.time())
    numbers = commits(store.commit, schedule)
    schedule.room = False
    pending = numbers.submit(1)
    schedule.time = loop.time() + 3_600
    schedule.room = True
    numbers.reconsider()
    assert await settled([pending]) == [10]
    schedule.time, schedule.room = loop.time(), False
    assert numbers.withdraw(numbers.submit(2))
    schedule.time, schedule.room = loop.time() + 3_600, True
    numbers.submit(3)
    await asyncio.sleep(0.01)
    assert store.groups == [[1]]
    await numbers.drain()
    assert store.groups == [[1], [3]]


async def test_one_timer_does_for_all_that_waits() -> None:
    """A timer for each item would cost more than the item. A new one is set where the schedule is another one now."""
    store = Store()
    schedule = At(asyncio.get_running_loop().time() + 3_600)
    numbers = commits(store.commit, schedule)
    pending = [numbers.submit(0)]
    timer = numbers._alarm
    pending += [numbers.submit(number) for number in range(1, 5)]
    assert numbers._alarm is timer is not None
    schedule.time -= 1
    pending.append(numbers.submit(5))
    assert numbers._alarm is not timer
    assert timer[1].cancelled()
    await numbers.drain()
    assert store.groups == [[0, 1, 2, 3, 4, 5]]
    assert len(await settled(pending)) == 6


async def test_draining_takes_what_waits_at_once_and_returns_when_all_is_settled() -> None:
    """Also what is submitted meanwhile."""
    store = Store()
    numbers = commits(store.commit, At(asyncio.get_running_loop().time() + 3_600))
    store.gate.clear()
    first = numbers.submit(1)
    draining = asyncio.create_task(numbers.drain())
    await store.begun.wait()
    second = numbers.submit(2)
    await asyncio.sleep(0.01)
    assert not draining.done()
    store.gate.set()
    await draining
    assert (first.settled.result(), second.settled.result()) == (10, 20)
    assert numbers.is_idle


def test_a_pace_is_kept_in_the_long_run() -> None:
    """A burst at once, then one each ``1 / per_second``; what was not used is kept, up to the burst."""
    bucket, waiting = TokenBucket(Pace(burst=3, per_second=2.0)), Waiting[int]()
    taken = []
    for start in (100.0, 200.0):
        now = start
        for _ in range(6):
            now = max(now, bucket.due(waiting, now))
            bucket.take(waiting, now)
            taken.append(now)
    assert taken == pytest.approx([100, 100, 100, 100.5, 101, 101.5, 200, 200, 200, 200.5, 201, 201.5])


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
