"""A group commit of numbers, for its own tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gateway.engine.group_commit import EntryQueue, Group, GroupCommit, ImmediateSchedule, Pending

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
    return GroupCommit(work, schedule=schedule or ImmediateSchedule(), label="the numbers", waiting_max=waiting_max)


async def settled(pending: Sequence[Pending[int, int]]) -> list[int | BaseException]:
    return await asyncio.gather(*(each.settled for each in pending), return_exceptions=True)


class OneByOne(ImmediateSchedule):
    """Groups of one; ``room``: whether another may be taken."""

    room = True

    def has_room(self, waiting: EntryQueue[Any]) -> bool:
        return self.room

    def take(self, waiting: EntryQueue[Any], now: float) -> int:
        return 1
