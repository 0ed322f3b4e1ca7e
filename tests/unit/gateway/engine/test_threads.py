"""Threads for calls that block: each call wakes one, in order, and none is lost at the end."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import pytest

from gateway.engine.threads import Threads
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
    """The caller gets an error."""
    threads = Threads(1, "t")
    threads.shutdown()
    with pytest.raises(RuntimeError):
        threads.begin(lambda: None)


def test_the_program_waits_for_what_has_begun_and_what_waits() -> None:
    """A commit under way is not cut off."""
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, timeout=60, check=True)
    assert said.stdout.split() == [b"0", b"1", b"2"]
