"""When a group commit takes a group, and how many timers and calls it takes for that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.call import begin_call, mark_committed
from gateway.engine.group_commit import IMMEDIATELY, EntryQueue, ImmediateSchedule
from log_format.errors import BackOff
from tests.support.committed_numbers import Numbers, OneByOne, Planted, Store, commits, settled


class At:
    """Due at a time, or once there are ``bytes_max``."""

    def __init__(self, due: float, bytes_max: int = 1 << 30) -> None:
        self.time = due
        self.bytes_max = bytes_max
        self.room = True

    def due(self, waiting: EntryQueue[Any], now: float) -> float:
        return IMMEDIATELY if waiting.size_bytes >= self.bytes_max else self.time

    def has_room(self, waiting: EntryQueue[Any]) -> bool:
        return self.room

    def take(self, waiting: EntryQueue[Any], now: float) -> int:
        return len(waiting.entries)


@pytest.mark.parametrize("broken", ["due", "has_room", "take"])
async def test_a_defect_of_the_schedule_refuses_what_waits(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it happened, and what comes once the schedule works is committed."""

    def defect(*_: Any) -> Any:
        raise Planted

    store, schedule = Store(), ImmediateSchedule()
    numbers = commits(store.commit, schedule)
    with monkeypatch.context() as planted:
        planted.setattr(schedule, broken, defect)
        (outcome,) = await settled([numbers.submit(1)])
    assert isinstance(outcome, BackOff)
    assert await settled([numbers.submit(2)]) == [20]
    assert store.groups == [[2]]


@pytest.mark.parametrize("due_in", [0.0, 0.01])
async def test_a_group_is_no_part_of_the_call_that_brought_it_about(due_in: float) -> None:
    """It takes other calls' items, too."""
    call = begin_call()

    async def commit(group: Numbers) -> None:
        mark_committed()
        group.settle(group.items)

    numbers = commits(commit, At(asyncio.get_running_loop().time() + due_in))
    await settled([numbers.submit(1)])
    assert not call.is_committed


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
