"""A system table's commits, on a virtual clock: who comes alone waits for its commit alone, and a day has its bound."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

import pytest

from gateway.engine.early_flush import PACED_SAVINGS_SECONDS_MAX, EarlyFlush, PacedSchedule
from gateway.engine.group_commit import IMMEDIATELY, EntryQueue, Group, GroupCommit, Pending
from tests.support.virtual_loop import run_virtually

COMMIT_SECONDS = 0.01
HOUR = 3_600.0
DAY = 24 * HOUR
PER_SECOND = 5.0


class Table:
    """Decisions that share commits. ``commits``: when each began, and its decisions."""

    def __init__(self, *, saved: float = HOUR) -> None:
        self.early = EarlyFlush(saved, PACED_SAVINGS_SECONDS_MAX, label="groups", advice="wait")
        self.commits: list[tuple[float, int]] = []
        self._decisions: GroupCommit[int, None] = GroupCommit(
            self._commit, schedule=PacedSchedule(self.early, PER_SECOND), label="groups", waiting_max=100_000
        )

    async def decide(self, sender: str) -> float:
        """Have it committed; how many seconds that took."""
        began = asyncio.get_running_loop().time()
        await self._decisions.submit(1, sender=sender).settled
        return asyncio.get_running_loop().time() - began

    async def _commit(self, group: Group[int, None]) -> None:
        self.commits.append((asyncio.get_running_loop().time(), len(group.pending)))
        try:
            await asyncio.sleep(COMMIT_SECONDS)
        finally:
            self.early.on_ended(self._decisions.waiting, group.pending, asyncio.get_running_loop().time())
        group.settle([None] * len(group.pending))


def ran(work: Callable[[Table], Awaitable[Any]], **table: Any) -> tuple[Table, Any]:
    made = Table(**table)
    return made, run_virtually(work(made))  # type: ignore[arg-type]


async def one_by_one(table: Table, sender: str, until: float, think: float) -> list[float]:
    """What each decision took a caller that waits for it, and then thinks."""
    took = []
    while asyncio.get_running_loop().time() < until:
        took.append(await table.decide(sender))
        await asyncio.sleep(think)
    return took


@pytest.mark.parametrize("think", [0.0, 0.03, 0.3, 7.0])
def test_a_lone_caller_waits_for_its_commit_alone(think: float) -> None:
    """However soon it comes again."""
    table, took = ran(lambda table: one_by_one(table, "a", 100 * think + 10, think))
    assert max(took) == pytest.approx(COMMIT_SECONDS)
    assert len(table.commits) == len(took)


def test_callers_that_wait_share_a_commit() -> None:
    """Once all have come; nobody waits for the pace."""

    async def work(table: Table) -> list[list[float]]:
        return await asyncio.gather(*(one_by_one(table, f"c{number}", 5, 0.001) for number in range(50)))

    table, took = ran(work)
    assert median(second for each in took for second in each) < 2.5 * COMMIT_SECONDS
    assert median(count for _, count in table.commits) == 50


def test_many_that_come_by_chance_are_gathered() -> None:
    """An early commit would help few of them: hardly more commits than by the pace, and savings stay."""

    async def work(table: Table) -> list[float]:
        chance, took = random.Random(1), []
        while asyncio.get_running_loop().time() < 60:
            await asyncio.sleep(chance.expovariate(200))
            took.append(asyncio.ensure_future(table.decide(f"c{chance.randrange(1_000)}")))
        return list(await asyncio.gather(*took))

    table, took = ran(work)
    assert len(table.commits) < 1.4 * 60 * PER_SECOND
    assert max(took) < 1 / PER_SECOND + 3 * COMMIT_SECONDS
    assert table.early.saved_seconds(60) > HOUR - 60


def test_who_comes_seldom_waits_for_no_pace_without_savings() -> None:
    """The pace is one from commit to commit: after a pause it is over."""
    _, took = ran(lambda table: one_by_one(table, "a", 60, 0.3), saved=0.0)
    assert max(took) == pytest.approx(COMMIT_SECONDS)


def test_without_savings_the_pace_is_back() -> None:
    """A caller that never pauses has a commit each ``1 / per_second``, or a little more."""
    table, took = ran(lambda table: one_by_one(table, "a", 60, 0.0), saved=0.0)
    assert median(took) == pytest.approx(25 / 24 / PER_SECOND, rel=0.1)
    assert len(table.commits) <= 60 * PER_SECOND
    assert table.early.is_spent(60)


@pytest.mark.parametrize("saved", [0.0, HOUR])
@pytest.mark.parametrize("per_second", [1.0, 5.0])
def test_no_day_has_more_commits_than_the_pace_allows(saved: float, per_second: float) -> None:
    """Of callers who never pause, with commits that take hardly any time: savings are within the day's bound."""
    early = EarlyFlush(saved, PACED_SAVINGS_SECONDS_MAX, label="", advice="")
    paced, waiting, now, count = PacedSchedule(early, per_second), EntryQueue[int](), 0.0, 0
    entry: Pending[int, None] = Pending(1, 0, None)  # type: ignore[arg-type]
    entry.sender = "a"
    while count <= DAY * per_second + 1:
        entry.arrived = now
        waiting.append(entry)
        due = paced.due(waiting, now)
        now = now if due == IMMEDIATELY else max(now, due)
        if now > DAY:
            break
        taken = waiting.take(paced.take(waiting, now))
        now += 0.001
        early.on_ended(waiting, taken, now)
        count += 1
    assert count <= DAY * per_second + 1
    assert count > 0.95 * DAY * per_second
