"""The report of the dearest test files counts what processes take, also while they run."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.support.cpu_of_files import cpu_seconds

SPENDS = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
"""Takes 0.3 s of a processor, says so, and waits."""


def test_what_a_child_takes_counts_while_it_runs_and_afterwards() -> None:
    """A server of the session is part of what a file costs, and so is a program that has ended: each counts once."""
    before = cpu_seconds()
    child = subprocess.Popen([sys.executable, "-c", SPENDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.readline()
    own = time.process_time()
    running = cpu_seconds()
    assert running - before >= 0.25
    child.communicate("\n")
    assert 0 <= cpu_seconds() - running < 0.25 + time.process_time() - own
