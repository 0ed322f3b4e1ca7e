"""CPU time: of other processes, and of a function in this one. Linux only.

The CPU of a process is read from the scheduler's clock, in nanoseconds. Its user and system times are told in steps of 10 ms: a
gateway that takes 15 ms a second would be measured by their noise.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import psutil


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, ended threads too. Raises ``ProcessLookupError`` without such a process."""
    try:
        # The process's clock, as clock_getcpuclockid(3) names it.
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e9
    except OSError as gone:
        raise ProcessLookupError(f"process {pid} is gone") from gone


def children_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of all living processes below a process."""
    seconds = 0.0
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(ProcessLookupError):
            seconds += cpu_seconds(child.pid)
    return seconds


def best_cpu_us(run: Callable[[int], object], *, calls: int, rounds: int) -> float:
    """Return the microseconds of CPU that one call takes in the best of several rounds: other work on the machine only adds.

    Args:
        run: makes as many calls as it is told.
        calls: the number of calls in a round.
        rounds: the number of rounds.
    """
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time_ns()
        run(calls)
        best = min(best, (time.process_time_ns() - began) / calls / 1000)
    return best


def repeated(call: Callable[[], object]) -> Callable[[int], None]:
    """Return a function for ``best_cpu_us`` that makes this call so often."""

    def run(calls: int) -> None:
        for _ in range(calls):
            call()

    return run
