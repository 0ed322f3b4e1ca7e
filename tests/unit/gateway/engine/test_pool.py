"""Calls in threads: results, errors, cancellation, and how many may wait."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from contextlib import suppress

import pytest

from gateway.call import begin_call, mark_committed
from gateway.engine.bounds import MAP_AHEAD
from gateway.engine.pool import Pool
from log_format.errors import BackOff, ErrorCode
from tests.support.waiting import until


def failing() -> None:
    raise KeyError("a")


def interrupted() -> None:
    raise KeyboardInterrupt


async def test_a_call_gives_its_result_or_its_error() -> None:
    """Arguments are passed on, and no call is counted once it has ended."""
    pool = Pool("test", 1)
    assert await pool.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(KeyError):
        await pool.run(failing)
    with pytest.raises(KeyboardInterrupt):
        await pool.run(interrupted)
    assert (pool.waiting_count, pool._calls) == (0, 0)
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
    await asyncio.to_thread(until, lambda: pool._calls == 0)


async def test_a_caller_that_went_away_is_told_nothing() -> None:
    """Not even an error in the event loop."""
    pool, going, problems = Pool("test", 1), threading.Event(), list[dict[str, object]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
    caller = asyncio.create_task(pool.run(going.wait, 30))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    going.set()
    assert await pool.run(lambda: 7) == 7
    assert problems == []


async def test_a_call_behind_the_present_calls_change_is_a_defect() -> None:
    """It would be an error behind a change that stands."""
    pool, ran = Pool("test", 1), list[str]()
    begin_call()
    mark_committed()
    with pytest.raises(RuntimeError):
        await pool.run(ran.append, "after")
    assert ran == []


def test_many_calls_are_a_few_ahead_of_who_takes_their_results() -> None:
    """In order, and an error comes in its place."""
    pool, begun = Pool("test", 2), list[str]()

    def call(key: str) -> bytes:
        begun.append(key)
        if key == "70":
            raise KeyError(key)
        return key.encode()

    results = pool.map(call, map(str, range(1_000)))
    assert next(results) == b"0"
    assert len(begun) <= MAP_AHEAD
    for number in range(1, 70):
        assert next(results) == b"%d" % number
    with pytest.raises(KeyError):
        next(results)
    assert len(begun) <= 2 * MAP_AHEAD


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


async def test_a_pool_is_bounded() -> None:
    """Beyond its threads and those that may wait a call is refused, and nothing of it happens."""
    pool, gate = Pool("write", 1, waiting_max=1), threading.Event()
    calls = [asyncio.create_task(pool.run(gate.wait, 30)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(BackOff):
        await pool.run(gate.wait, 30)
    gate.set()
    assert await asyncio.gather(*calls) == [True, True]
    assert await pool.run(gate.wait, 30) is True


async def test_an_error_leaves_no_cycle() -> None:
    """It holds the frames of the call, and these the records."""

    class Record:
        pass

    kept = list[weakref.ref[Record]]()

    def failing() -> None:
        record = Record()
        kept.append(weakref.ref(record))
        raise ValueError

    pool = Pool("write", 1)
    gc.disable()
    try:
        with suppress(ValueError):
            await pool.run(failing)
        await asyncio.to_thread(until, lambda: kept[0]() is None)
    finally:
        gc.enable()
