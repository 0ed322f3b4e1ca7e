"""Runs pytest; a few tests that failed run once more, alone, so that no busy machine makes a run red.

python scripts/run_tests.py ARGUMENTS-OF-PYTEST...

The first run decides in every case but one. pytest ended because tests failed (its exit code 1), and those are ``AGAIN_MAX`` at
most. They run once more, one after another with nothing beside them. What fails again is red. What passes then is named in a
block, for a developer to mend: it leans on how quick a machine is. A crash of pytest or of a worker, a module that can't be
collected, and a run that stopped early are red at once.

Exit code: 0, or that of pytest's first run.
"""
# ruff: noqa: INP001, S603, T201 - a program of its own that talks to a terminal and begins pytest again

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

AGAIN_MAX = 5
"""More failures than these have one cause, and it is not load."""
ALONE = "--alone"


class Outcome:
    """What happened, as a plugin of pytest; with workers it is that of the process which started them."""

    def __init__(self) -> None:
        self.failed: dict[str, None] = {}
        self.passed: set[str] = set()
        self.is_whole = True
        """Whether every test that was wanted ran to an end of its own."""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module can't be imported, say."""
        self.is_whole &= not report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of set-up, test and tear-down, or of a worker that crashed: xdist calls that "???"."""
        if report.failed:
            self.failed[report.nodeid] = None
        elif report.passed and report.when == "call":
            self.passed.add(report.nodeid)
        self.is_whole &= report.when in ("setup", "call", "teardown")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """By ``-x``, say."""
        self.is_whole &= not (session.shouldfail or session.shouldstop)


def run(arguments: list[str]) -> tuple[int, Outcome]:
    """pytest's exit code, and what happened."""
    outcome = Outcome()
    return int(pytest.main(arguments, plugins=[outcome])), outcome


def passes_alone(test: str) -> bool:
    """Whether this one does, in a process of its own."""
    return subprocess.run([sys.executable, "-P", __file__, ALONE, test], check=False).returncode == 0


def alone(test: str) -> int:
    """That process: 0 if the test passed, and was not skipped, say."""
    code, outcome = run(["-n", "0", test])
    return code or int(outcome.passed != {test})


def main(arguments: list[str]) -> int:
    """Run pytest with these arguments, and what failed once more if that may be forgiven."""
    # A shell starts what runs in the background with SIGINT ignored, and programs hand that on to those that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Python 3.11 formats a traceback's columns by a syntax tree. Where a finalizer does so while pytest parses a failed
    # test's source, that parse ends in a SystemError (python/cpython#106905), and with it the whole run.
    os.environ["PYTHONNODEBUGRANGES"] = "1"
    code, outcome = run(arguments)
    if code != pytest.ExitCode.TESTS_FAILED or not outcome.is_whole or not 0 < len(outcome.failed) <= AGAIN_MAX:
        return code
    print(f"\nOnce more, alone: {len(outcome.failed)} that failed", flush=True)
    green = [test for test in outcome.failed if passes_alone(test)]
    for test in green:
        print(f"red beside other work, green alone: {test}")
    for test in outcome.failed:
        if test not in green:
            print(f"red twice: {test}")
    return 0 if len(green) == len(outcome.failed) else code


if __name__ == "__main__":
    sys.exit(alone(sys.argv[2]) if sys.argv[1:2] == [ALONE] else main(sys.argv[1:]))
