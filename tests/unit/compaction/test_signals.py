"""A signal ends maintenance wherever it comes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SIGNALLED_IN_A_FINALIZER = """
import os, signal, sys
from compaction import __main__ as program
from compaction.report import LogReporter

class Garbage:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):
            pass

told = LogReporter.event

def event(self, *arguments, **members):
    told(self, *arguments, **members)
    Garbage()

LogReporter.event = event
sys.exit(program.main(["--store", sys.argv[1], "--every", "10m"]))
"""


SIGNALLED_BEHIND_THE_LAST_LOOK = """
import os, signal, sys
from compaction import __main__ as program
from log_format.clock import SystemClock

class Garbage:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(100):
            pass

sleep = SystemClock.sleep_ms

def sleep_ms(self, duration_ms):
    global garbage
    garbage = None
    sleep(self, duration_ms)

garbage = Garbage()
SystemClock.sleep_ms = sleep_ms
sys.exit(program.main(["--store", sys.argv[1], "--every", "10m"]))
"""


def test_a_signal_that_is_swallowed_between_the_last_look_and_the_sleep_ends_it_too(tmp_path: Path) -> None:
    """It does not sleep on for the whole interval."""
    command = [sys.executable, "-c", SIGNALLED_BEHIND_THE_LAST_LOOK, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    assert b"Exception ignored in" in ended.stderr


def test_a_signal_within_a_finalizer_ends_it_too(tmp_path: Path) -> None:
    """Python swallows what a finalizer raises: the signal would be lost, and the next round follow."""
    command = [sys.executable, "-c", SIGNALLED_IN_A_FINALIZER, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    assert b"Exception ignored in" in ended.stderr
