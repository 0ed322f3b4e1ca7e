"""Reservations: never more than the budget, never leaked, served in order."""

from __future__ import annotations

import asyncio

import pytest

from gateway.memory_budget import MemoryBudget, Reservation
from log_format.errors import BackOff


def test_reservations_never_exceed_the_budget() -> None:
    """What does not fit is refused and leaves the budget as it was; what is released can be had again."""
    budget = MemoryBudget(100, "tests")
    first = budget.reserve(60)
    with pytest.raises(BackOff) as caught:
        budget.reserve(41)
    assert caught.value.status == 503
    assert budget.used_bytes == 60
    with pytest.raises(BackOff):
        first.grow(41)
    assert (first.size_bytes, budget.used_bytes) == (60, 60)
    first.release()
    budget.reserve(100)
    assert budget.used_bytes == 100


def test_releasing_twice_gives_back_once() -> None:
    """A reservation released by its owner and by the block's end does not free another's bytes."""
    budget = MemoryBudget(100, "tests")
    other = budget.reserve(40)
    with budget.reserve(50) as mine:
        mine.release()
    mine.release()
    assert budget.used_bytes == other.size_bytes == 40


def test_a_part_of_a_reservation_is_one_of_its_own() -> None:
    """Splitting takes nothing from the budget while the whole has enough, and what is missing where it has not."""
    budget = MemoryBudget(100, "things")
    whole = budget.reserve(60)
    part = whole.split(40)
    assert (whole.size_bytes, part.size_bytes, budget.used_bytes) == (20, 40, 60)
    more = whole.split(50)
    assert (whole.size_bytes, more.size_bytes, budget.used_bytes) == (0, 50, 90)
    with pytest.raises(BackOff):
        whole.split(11)
    part.release()
    more.release()
    whole.release()
    assert budget.used_bytes == 0


def test_shrinking_gives_back_the_surplus_only() -> None:
    """An estimate that was too high is corrected; one that was too low stays."""
    budget = MemoryBudget(100, "tests")
    reservation = budget.reserve(80)
    reservation.shrink_to(30)
    reservation.shrink_to(90)
    assert (reservation.size_bytes, budget.used_bytes) == (30, 30)


async def test_those_who_wait_are_served_in_order() -> None:
    """A large request is not overtaken for ever by small ones that would fit."""
    budget = MemoryBudget(100, "tests")
    holder = budget.reserve(50)
    served: list[str] = []

    async def take(name: str, size: int) -> None:
        with await budget.reserve_in_turn(size, wait_ms=5_000):
            served.append(name)
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(take("large", 90)), asyncio.create_task(take("small", 10))]
    await asyncio.sleep(0.01)
    assert served == []
    holder.release()
    await asyncio.gather(*tasks)
    assert budget.used_bytes == 0
    assert served == ["large", "small"]


async def test_more_than_the_whole_budget_is_served_alone() -> None:
    """The largest permitted request waits for everything, instead of never fitting."""
    budget = MemoryBudget(100, "tests")
    with await budget.reserve_in_turn(1_000, wait_ms=10):
        assert budget.used_bytes == 100
    assert budget.used_bytes == 0


async def test_waiting_ends_with_the_time_or_the_queue() -> None:
    """No request waits longer than it said or in a queue longer than allowed; both are OVERLOADED and leave no trace."""
    budget = MemoryBudget(100, "tests")
    holder = budget.reserve(100)
    with pytest.raises(BackOff):
        await budget.reserve_in_turn(1, wait_ms=10)
    waiting = asyncio.create_task(budget.reserve_in_turn(1, wait_ms=5_000, waiting_max=1))
    await asyncio.sleep(0)
    with pytest.raises(BackOff):
        await budget.reserve_in_turn(1, wait_ms=5_000, waiting_max=1)
    holder.release()
    (await waiting).release()
    assert (budget.used_bytes, budget.waiting_count) == (0, 0)


@pytest.mark.parametrize("served_first", [False, True])
async def test_cancelled_waiters_leave_no_trace(served_first: bool) -> None:
    """A client that goes away while it waits, even in the moment in which it is served, takes nothing from the budget."""
    budget = MemoryBudget(100, "tests")
    holder = budget.reserve(100)
    waiting = asyncio.create_task(budget.reserve_in_turn(60, wait_ms=5_000))
    behind = asyncio.create_task(budget.reserve_in_turn(60, wait_ms=5_000))
    await asyncio.sleep(0)
    if served_first:
        holder.release()
        waiting.cancel()
    else:
        waiting.cancel()
        holder.release()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    (await behind).release()
    assert (budget.used_bytes, budget.waiting_count) == (0, 0)


async def test_a_part_is_kept_for_who_holds_little() -> None:
    """A client that holds more than its share waits for its own, others pass it; no client gets more than there is."""
    budget = MemoryBudget(100 << 20, "tests", kept_bytes=20 << 20)
    greedy, modest = budget.of("greedy"), budget.of("modest")
    held = [await greedy.reserve_in_turn(40 << 20, wait_ms=10) for _ in range(2)]
    blocked = asyncio.create_task(greedy.reserve_in_turn(15 << 20, wait_ms=5_000))
    await asyncio.sleep(0)
    with await modest.reserve_in_turn(15 << 20, wait_ms=10):
        assert budget.used_bytes == 95 << 20
        with pytest.raises(BackOff):
            await modest.reserve_in_turn(10 << 20, wait_ms=10)
    assert not blocked.done()
    held[0].release()
    (await blocked).release()
    held[1].release()
    assert (budget.used_bytes, budget.held_by("greedy"), budget.held_by("modest")) == (0, 0, 0)


async def test_who_waits_is_served_of_the_kept_part_when_that_is_free_again() -> None:
    """Behind others in the queue, too: they wait for what they may not have."""
    budget = MemoryBudget(100 << 20, "tests", kept_bytes=20 << 20)
    all_of_it = await budget.reserve_in_turn(80 << 20, wait_ms=10, client="greedy")
    first = await budget.reserve_in_turn(20 << 20, wait_ms=10, client="first")
    blocked = asyncio.create_task(budget.reserve_in_turn(30 << 20, wait_ms=5_000, client="greedy"))
    second = asyncio.create_task(budget.reserve_in_turn(20 << 20, wait_ms=5_000, client="second"))
    await asyncio.sleep(0)
    first.release()
    (await second).release()
    assert not blocked.done()
    all_of_it.release()
    (await blocked).release()
    assert budget.used_bytes == 0


async def test_what_is_brief_passes_those_who_wait() -> None:
    """A large reservation that shrinks whatever its client does counts as small: it waits for others of its kind at most."""
    budget = MemoryBudget(100 << 20, "tests", kept_bytes=40 << 20)
    greedy = budget.of("greedy")
    held = await greedy.reserve_in_turn(60 << 20, wait_ms=10)
    blocked = asyncio.create_task(greedy.reserve_in_turn(12 << 20, wait_ms=5_000))
    brief = await greedy.reserve_in_turn(12 << 20, wait_ms=10, is_brief=True)
    next_brief = asyncio.create_task(greedy.reserve_in_turn(12 << 20, wait_ms=5_000, is_brief=True))
    await asyncio.sleep(0.05)
    assert not next_brief.done()
    assert budget.longest_wait_ms() >= 50
    brief.shrink_to(1 << 20)
    (await next_brief).release()
    assert not blocked.done()
    for one in (brief, held, await _after(held, blocked)):
        one.release()
    assert budget.longest_wait_ms() >= 50, "waits that ended between two looks are missed"
    assert (budget.used_bytes, budget.longest_wait_ms()) == (0, 0)


async def _after(held: Reservation, waiting: asyncio.Task[Reservation]) -> Reservation:
    held.release()
    return await waiting


async def test_little_is_served_at_once_whoever_asks() -> None:
    """Half of the kept part is for small reservations, also of the client that holds all the rest."""
    budget = MemoryBudget(100 << 20, "tests", kept_bytes=20 << 20)
    greedy = budget.of("greedy")
    large = await greedy.reserve_in_turn(80 << 20, wait_ms=10)
    small = [await greedy.reserve_in_turn(256 << 10, wait_ms=10) for _ in range(40)]
    with pytest.raises(BackOff):
        await greedy.reserve_in_turn(256 << 10, wait_ms=10)
    for one in [large, *small]:
        one.release()
    assert budget.used_bytes == 0


def test_a_client_has_its_share_and_one_reservation_of_any_size() -> None:
    """A principal can't fill the memory with many requests; its largest permitted request is served all the same."""
    budget = MemoryBudget(100, "tests", of_client_max=25)
    mine, other = budget.of("mine"), budget.of("other")
    alone = mine.reserve(10)
    alone.grow(50)
    with pytest.raises(BackOff):
        mine.reserve(1)
    alone.shrink_to(20)
    second = mine.reserve(5)
    for held in (alone, second):
        with pytest.raises(BackOff):
            held.grow(1)
    other.reserve(25)
    alone.release()
    second.grow(40)


async def test_what_waits_for_its_own_client_holds_up_no_other() -> None:
    """Another client's reservation passes it, also when that one came later; it is served once its client gives back."""
    budget = MemoryBudget(100, "tests", kept_bytes=20, of_client_max=25)
    first = budget.of("mine").reserve(25)
    late = asyncio.create_task(budget.of("mine").reserve_in_turn(25, wait_ms=5_000))
    await asyncio.sleep(0.01)
    for _ in range(2):
        (await budget.of("other").reserve_in_turn(25, wait_ms=0)).release()
    assert not late.done()
    filler = budget.reserve(55)
    waiting = asyncio.create_task(budget.of("other").reserve_in_turn(80, wait_ms=5_000))
    await asyncio.sleep(0.01)
    first.release()
    await asyncio.sleep(0.01)
    assert late.done()
    assert not waiting.done()
    (await late).release()
    filler.release()
    assert (await waiting).size_bytes == 80
