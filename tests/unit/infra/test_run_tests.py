"""``make test`` forgives a few tests that fail beside other work and pass alone, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FORGIVEN = "red beside other work, green alone: "
FAILS_ONCE = """
import pathlib, pytest

@pytest.mark.parametrize("one", range({}))
def test_busy(one):
    seen = pathlib.Path(f"seen-{{one}}")
    first = not seen.exists()
    seen.touch()
    assert not first, f"too slow, {{one}}"
"""
PASSES = "\ndef test_quick():\n    pass\n"
FAILS = "\ndef test_wrong():\n    assert 1 == 2\n"
SKIPPED = """
def test_skipped():
    if pathlib.Path("gone").exists():
        pytest.skip("gone")
    pathlib.Path("gone").touch()
    assert 1 == 2
"""
LITTERS = """
import traceback

class Litter:
    def __init__(self):
        self.itself = self

    def __del__(self):
        try:
            1 / 0 + len("a")
        except ZeroDivisionError:
            traceback.format_exc()

def test_littering():
    litter = [Litter() for _ in range(5000)]
    litter.clear()
    assert 1 == 2
""" + "\nLINES = [{}]\n".format("\n".join(["[1, 2, 3],"] * 2000))
"""Its source is long, so that its syntax tree takes the collector of garbage to the finalizers."""
WRONG = {
    "fails twice": FAILS_ONCE.format(1) + FAILS,
    "six fail": FAILS_ONCE.format(6),
    "is skipped then": FAILS_ONCE.format(1) + SKIPPED,
    "can't be collected": FAILS_ONCE.format(1) + "\nassert 1 == 2\n",
    "a process ends": FAILS_ONCE.format(1) + "\ndef test_end():\n    __import__('os')._exit(1)\n",
}


def run(directory: Path, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As ``make test`` runs it, on these tests alone."""
    (directory / "pytest.ini").write_text("[pytest]\n")
    (directory / "test_them.py").write_text(tests)
    command = [sys.executable, "-P", str(ROOT / "scripts" / "run_tests.py"), "-p", "no:cacheprovider", *arguments]
    plugins = {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "xdist.plugin",
    }  # those of others take long to import
    return subprocess.run(
        command, check=False, cwd=directory, env={**os.environ, **plugins}, capture_output=True, text=True, timeout=240
    )


def test_what_passes_alone_is_forgiven_and_named(tmp_path: Path) -> None:
    """The first failure stays in what was printed, and the block names each test."""
    ended = run(tmp_path, FAILS_ONCE.format(5) + PASSES, "-n", "1")
    assert ended.returncode == 0, ended.stdout
    assert [line for line in ended.stdout.splitlines() if line.startswith(FORGIVEN)] == [
        f"{FORGIVEN}test_them.py::test_busy[{one}]" for one in range(5)
    ]
    assert all(f"AssertionError: too slow, {one}" in ended.stdout for one in range(5))


@pytest.mark.parametrize("tests", WRONG.values(), ids=WRONG)
def test_anything_else_is_red(tmp_path: Path, tests: str) -> None:
    """Of what fails once and another thing, both are told apart, and the other thing decides."""
    ended = run(tmp_path, tests, "-n", "1")
    assert ended.returncode != 0
    once = "test_wrong" in tests or "test_skipped" in tests
    assert (f"{FORGIVEN}test_them.py::test_busy[0]\n" in ended.stdout) == once, ended.stdout
    assert ("\nred twice: test_them.py::test_" in ended.stdout) == once


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_that_stopped_early_is_red(tmp_path: Path, workers: int) -> None:
    """What did not run may be wrong, too."""
    ended = run(tmp_path, FAILS_ONCE.format(1) + PASSES, "-x", "-n", str(workers))
    assert ended.returncode != 0
    assert FORGIVEN not in ended.stdout


def test_a_failure_is_told_beside_finalizers(tmp_path: Path) -> None:
    """Finalizers that format tracebacks while pytest reads the failed test's source don't end the run."""
    ended = run(tmp_path, LITTERS + PASSES, "-n", "1")
    assert "INTERNALERROR" not in ended.stdout
    assert "\nred twice: test_them.py::test_littering" in ended.stdout


def test_all_that_passes_runs_once(tmp_path: Path) -> None:
    """And says nothing more than pytest does."""
    ended = run(tmp_path, PASSES, "-n", "0")
    assert ended.returncode == 0
    assert " 1 passed in " in ended.stdout.splitlines()[-1]
