"""Work on many things side by side, but no more of it at a time than others bear."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


async def side_by_side(
    work: Callable[[ItemT], Awaitable[ResultT]], items: Iterable[ItemT], *, at_once: int
) -> list[ResultT]:
    """What ``work`` gives for each, in order, ``at_once`` of them at a time. Raises as ``work``."""
    turns = asyncio.Semaphore(at_once)

    async def one(item: ItemT) -> ResultT:
        async with turns:
            return await work(item)

    return await asyncio.gather(*map(one, items))
