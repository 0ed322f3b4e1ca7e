"""A signal ends maintenance wherever it comes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import os, signal, sys
from compaction import __main__ as program
from compaction.report import LogReporter
from log_format.clock import SystemClock

class Garbage:
    def __del__(self):
        os.kill(os.getpid(), signal.{signal})
        for _ in range(100):
            pass
"""

WITHIN_A_ROUND = """
told = LogReporter.event

def event(self, *arguments, **members):
    told(self, *arguments, **members)
    Garbage()

LogReporter.event = event
"""

BEHIND_THE_LAST_LOOK = """
sleep = SystemClock.sleep_ms

def sleep_ms(self, duration_ms):
    global garbage
    garbage = None
    sleep(self, duration_ms)

garbage = Garbage()
SystemClock.sleep_ms = sleep_ms
"""

END = """
sys.exit(program.main(["--store", sys.argv[1], "--every", "10m"]))
"""


@pytest.mark.parametrize(
    ("signal", "when"),
    [
        pytest.param("SIGINT", WITHIN_A_ROUND, id="within a round"),
        pytest.param("SIGTERM", BEHIND_THE_LAST_LOOK, id="between the last look and the sleep"),
    ],
)
def test_a_signal_within_a_finalizer_ends_it_too(tmp_path: Path, signal: str, when: str) -> None:
    """Python swallows what a finalizer raises: the signal would be lost, and the sleep or the next round follow."""
    program = BEGIN.format(signal=signal) + when + END
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    assert b"Exception ignored in" in ended.stderr
