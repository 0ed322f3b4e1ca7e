"""Calls in threads: results, errors, cancellation, and how many may wait."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gateway.engine.pool import Pool
from log_format.errors import BackOff, ErrorCode


def failing() -> None:
    raise KeyError("a")


async def test_a_call_gives_its_result_or_its_error() -> None:
    """Arguments are passed on, and no call is counted once it has ended."""
    pool = Pool("test", 1)
    assert await pool.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(KeyError):
        await pool.run(failing)
    assert pool.waiting_count == 0
    assert await pool.run(sorted, [2, 1], reverse=True) == [2, 1]


async def test_a_call_cancelled_while_it_waits_never_runs() -> None:
    """One that is cancelled while it runs comes to its end, and counts until then. Beyond the bound calls are refused."""
    pool = Pool("test", 1, waiting_max=1)
    begun, going = threading.Event(), threading.Event()
    ran: list[str] = []

    def first() -> None:
        ran.append("first")
        begun.set()
        going.wait(30)
        ran.append("end of first")

    running = asyncio.create_task(pool.run(first))
    await asyncio.to_thread(begun.wait, 30)
    waiting = asyncio.create_task(pool.run(ran.append, "second"))
    await asyncio.sleep(0)
    assert pool.waiting_count == 1
    with pytest.raises(BackOff) as refusal:
        await pool.run(ran.append, "third")
    assert refusal.value.code is ErrorCode.OVERLOADED
    for task in (waiting, running):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert pool.waiting_count == 0
    another = asyncio.create_task(pool.run(ran.append, "fourth"))
    await asyncio.sleep(0)
    assert pool.waiting_count == 1, "the first one has the thread"
    going.set()
    await another
    assert ran == ["first", "end of first", "fourth"]


def test_a_call_may_end_after_its_event_loop() -> None:
    """Nothing is told then, and nothing fails."""
    pool, going, ended = Pool("test", 1), threading.Event(), threading.Event()

    def call() -> None:
        going.wait(30)

    async def begin() -> None:
        asyncio.create_task(pool.run(call)).add_done_callback(lambda _: ended.set())
        await asyncio.sleep(0.01)

    asyncio.run(begin())
    assert ended.is_set()
    going.set()
    assert asyncio.run(pool.run(lambda: 7)) == 7
