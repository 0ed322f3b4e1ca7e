"""The CPU of other processes, as the benchmarks read it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from benchmarks.harness.cpu import cpu_seconds

BUSY = """
import sys, threading, time
def burn():
    while time.thread_time() < 0.03:
        pass
thread = threading.Thread(target=burn)
thread.start()
thread.join()
print(time.process_time(), flush=True)
sys.stdin.read()
"""


def test_the_clock_of_another_process_is_its_own() -> None:
    """It counts all threads, also one that has ended, to within less than a step of the system's times."""
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = float(process.stdout.readline())
        time.sleep(0.05)
        seen = cpu_seconds(process.pid)
        process.communicate()
    assert told > 0.03
    assert told <= seen < told + 0.005


def test_a_process_that_is_gone_has_no_clock() -> None:
    """It is an error, and no number."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    with pytest.raises(ProcessLookupError):
        cpu_seconds(process.pid)
