"""Threads for calls that block: each call wakes one, in order, and none is lost at the end."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from contextlib import suppress

import pytest

from gateway.engine.pool import Pool
from gateway.engine.threads import Threads
from log_format.errors import BackOff
from tests.support.waiting import until

PROGRAM = """
import time
from gateway.engine.threads import Threads
threads = Threads(1, "t")
for number in range(3):
    threads.begin(lambda number=number: (time.sleep(0.2), print(number, flush=True)))
"""


def _who(threads: Threads) -> str:
    return threads.submit(lambda: threading.current_thread().name).result(30)


def test_a_call_goes_to_the_thread_that_came_to_rest_last() -> None:
    """What it used is still in a cache; and no other thread is woken."""
    threads = Threads(4, "t")
    gate = threading.Barrier(5)
    for _ in range(4):
        threads.begin(lambda: (gate.wait(30), None)[1])
    gate.wait(30)
    until(lambda: len(threads._work._resting) == 4)
    last = threads._work._resting[-1].thread.name
    for _ in range(10):
        assert _who(threads) == last
        until(lambda: len(threads._work._resting) == 4)
    threads.shutdown()


def test_calls_beyond_the_threads_wait_in_order() -> None:
    """Two at once, and each as soon as one ends."""
    threads = Threads(2, "t")
    gate, at_once, done = threading.Event(), threading.Semaphore(0), list[int]()

    def held() -> None:
        at_once.release()
        gate.wait(30)

    for _ in range(2):
        threads.begin(held)
    for _ in range(2):
        assert at_once.acquire(timeout=30)
    for number in range(20):
        threads.begin(lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == []
    gate.set()
    threads.shutdown()
    assert sorted(done) == list(range(20))


def test_forgotten_threads_end() -> None:
    """A gateway of a test leaves none behind."""
    threads = Threads(3, "forgotten")
    _who(threads)
    del threads
    gc.collect()
    until(lambda: not [one for one in threading.enumerate() if one.name.startswith("forgotten")])


def test_nothing_is_taken_after_the_end() -> None:
    """Whoever asks is told."""
    threads = Threads(1, "t")
    threads.shutdown()
    with pytest.raises(RuntimeError):
        threads.begin(lambda: None)


def test_the_program_waits_for_what_has_begun_and_what_waits() -> None:
    """A commit under way is not cut off."""
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, timeout=60, check=True)
    assert said.stdout.split() == [b"0", b"1", b"2"]


async def test_a_pool_gives_what_the_call_gives() -> None:
    """Its result or its error, also what is no ``Exception``."""
    pool = Pool("write", 2)
    assert await pool.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await pool.run(divmod, 7, 0)
    with pytest.raises(KeyboardInterrupt):
        await pool.run(_interrupted)
    assert pool._calls == 0


async def test_a_call_that_is_cancelled_while_it_waits_never_runs() -> None:
    """One that has begun goes on to its end; both leave the pool's count."""
    pool, gate, done = Pool("write", 1), threading.Event(), list[str]()

    def held() -> None:
        gate.wait(30)
        done.append("first")

    first = asyncio.create_task(pool.run(held))
    await asyncio.sleep(0)
    second = asyncio.create_task(pool.run(done.append, "second"))
    await asyncio.sleep(0)
    assert pool.waiting_count == 1
    first.cancel()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    gate.set()
    await asyncio.to_thread(until, lambda: pool._calls == 0)
    assert done == ["first"]


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


def _interrupted() -> None:
    raise KeyboardInterrupt
