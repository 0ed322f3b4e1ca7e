"""Run pytest, and rerun a few failed tests alone, so that a busy machine does not fail the run.

python scripts/run_tests.py ARGUMENTS-OF-PYTEST...

The first run decides, with one exception: if pytest ended because at most ``AGAIN_MAX`` tests failed (exit code 1), these run
once more, one after another with nothing concurrent. A test that fails again is red. Tests that then pass are listed for a
developer to fix: they depend on the machine's speed. A crash of pytest or of a worker, a module that can't be collected, and a
run that stopped early are red immediately.

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
"""Failures above which their cause is not load."""
ALONE = "--alone"


class Outcome:
    """pytest plugin that records a run's results; with workers it runs in the process that started them."""

    def __init__(self) -> None:
        self.failed: dict[str, None] = {}
        self.passed: set[str] = set()
        self.is_whole = True
        """Whether every selected test ran to its own end."""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a failed collection, such as a module that can't be imported."""
        self.is_whole &= not report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a report of set-up, test, tear-down, or of a crashed worker, which xdist reports as "???"."""
        if report.failed:
            self.failed[report.nodeid] = None
        elif report.passed and report.when == "call":
            self.passed.add(report.nodeid)
        self.is_whole &= report.when in ("setup", "call", "teardown")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Record a run that stopped early, for example by ``-x``."""
        self.is_whole &= not (session.shouldfail or session.shouldstop)


def run(arguments: list[str]) -> tuple[int, Outcome]:
    """Run pytest, and return its exit code and the results."""
    outcome = Outcome()
    return int(pytest.main(arguments, plugins=[outcome])), outcome


def passes_alone(test: str) -> bool:
    """Return whether the test passes in a process of its own."""
    return subprocess.run([sys.executable, "-P", __file__, ALONE, test], check=False).returncode == 0


def alone(test: str) -> int:
    """Run one test in this process, and return 0 if it passed and was not skipped."""
    code, outcome = run(["-n", "0", test])
    return code or int(outcome.passed != {test})


def main(arguments: list[str]) -> int:
    """Run pytest with these arguments, and rerun failed tests if allowed."""
    # A shell starts background jobs with SIGINT ignored, which child processes inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Python 3.11 builds a syntax tree to show columns in tracebacks. If a finalizer does so while pytest parses a failed test's
    # source, the parse raises SystemError (python/cpython#106905), which ends the whole run.
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
