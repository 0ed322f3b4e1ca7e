"""Looks at the log: shared, but never older than the request that asks."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from gateway.engine.log_look import LogLook
from tests.support.virtual_loop import run_virtually


async def test_a_look_that_began_before_is_not_enough() -> None:
    """G4: a request that arrives during a look waits for one that begins later; all such requests share it."""
    begun = 0
    gate = asyncio.Event()

    async def look() -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            await gate.wait()

    looks = LogLook(look)
    first = asyncio.create_task(looks.after_now())
    await asyncio.sleep(0.01)
    assert begun == 1
    later = [asyncio.create_task(looks.after_now()) for _ in range(100)]
    await asyncio.sleep(0.01)
    assert begun == 1
    assert not any(task.done() for task in later)
    gate.set()
    await asyncio.gather(first, *later)
    assert begun == 2
    assert looks.is_idle


async def test_an_error_reaches_everybody_and_the_next_look_is_a_new_one() -> None:
    """A failed look is not remembered, and one that no request waits for any more causes no warning."""
    fail = True

    async def look() -> None:
        await asyncio.sleep(0.01)
        if fail:
            raise OSError("down")

    looks = LogLook(look)
    results = await asyncio.gather(*(looks.after_now() for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [OSError] * 3
    abandoned = asyncio.create_task(looks.after_now())
    await asyncio.sleep(0)
    abandoned.cancel()
    with pytest.raises(asyncio.CancelledError):
        await abandoned
    await asyncio.sleep(0.05)
    fail = False
    await looks.after_now()


def test_looks_begin_a_pause_apart() -> None:
    """However many ask; those who ask during the pause share the look after it, and the first look waits for nothing."""
    begun: list[float] = []

    async def look() -> None:
        begun.append(asyncio.get_running_loop().time())

    async def ask() -> None:
        looks = LogLook(look, 0.1)
        await looks.after_now()
        await asyncio.gather(*(looks.after_now() for _ in range(50)))
        await asyncio.gather(*(looks.after_now() for _ in range(50)))

    run_virtually(ask())
    assert len(begun) == 3
    assert begun[0] == 0
    assert all(later - earlier >= 0.09 for earlier, later in pairwise(begun))
