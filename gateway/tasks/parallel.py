"""Work on many items in parallel, at most so many at a time that other work is not held up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


async def run_parallel(
    work: Callable[[ItemT], Awaitable[ResultT]], items: Iterable[ItemT], *, limit: int
) -> list[ResultT]:
    """Return what ``work`` returns for each item, in order, ``at_once`` items at a time. Raises what ``work`` raises."""
    turns = asyncio.Semaphore(limit)

    async def one(item: ItemT) -> ResultT:
        async with turns:
            return await work(item)

    return await asyncio.gather(*map(one, items))
