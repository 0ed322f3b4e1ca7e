"""Ctrl-C at any moment of the start of ``tidelog``: no traceback, and the end that a shell calls 130.

Moments are counted in imports and not in milliseconds, so they are the same on a machine of any speed. The first is
where the command line's own module has set what Ctrl-C does. What is before it, the interpreter's start and the installed script
with its ``import re``, no program can keep quiet.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "from tidelog.__main__ import main; main()"
INTERRUPTED = {130, -signal.SIGINT}
"""A shell calls both 130."""
MOMENTS = (1, 30, 150, 300, 450)
"""By the number of imports; ``--help`` makes some 600."""
COUNTING = """
import _signal, os, sys

imports, last = 0, int(os.environ["IMPORTS"])

def count(event, arguments):
    global imports
    if event == "import" and (imports or _signal.getsignal(_signal.SIGINT) != _signal.default_int_handler):
        imports += 1
        if imports == last:
            os.kill(os.getpid(), _signal.SIGINT)

sys.addaudithook(count)
"""
"""A ``sitecustomize`` that sends SIGINT at an import."""
AT_ONCE = """
import os, signal, sys

if sys.orig_argv[1:3] == ["-m", os.environ["MODULE"]]:
    os.kill(os.getpid(), signal.SIGINT)
"""
"""Of a program that ``tidelog`` becomes: while its interpreter starts."""


def started(directory: Path, custom: str, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
    """The command line as its script begins it, with that ``sitecustomize``."""
    if not (customized := directory / "sitecustomize.py").exists():  # others of it may be starting
        customized.write_text(custom)
    paths = os.pathsep.join([str(directory), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1", "PYTHONHASHSEED": "0", **variables}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_moment_of_the_start_is_as_any_other(tmp_path: Path) -> None:
    """From the first import on: while modules are imported, commands are put together, and help is written."""
    processes = {at: started(tmp_path, COUNTING, "--help", IMPORTS=str(at)) for at in MOMENTS}
    ends = {at: (process.communicate(timeout=60)[1], process.returncode) for at, process in processes.items()}
    assert {at: said for at, (said, _) in ends.items() if b"Traceback" in said or b"KeyboardInterrupt" in said} == {}
    assert {at: code for at, (_, code) in ends.items() if code not in INTERRUPTED} == {}


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("gateway", ["serve", "--store", "memory://x"]),
        ("compaction", ["maintain", "--store", "log", "--workers", "local"]),
        ("spark_pipeline.jobs.pipeline", ["pipeline"]),
    ],
)
def test_what_it_becomes_begins_quietly_too(tmp_path: Path, module: str, arguments: list[str]) -> None:
    """Ctrl-C while that interpreter starts waits until the program's first line, and ends it there."""
    process = started(tmp_path, AT_ONCE, *arguments, MODULE=module)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error) == (-signal.SIGINT, b"", b"")


def test_a_job_in_the_background_is_not_interrupted(tmp_path: Path) -> None:
    """A shell starts it with SIGINT ignored: Ctrl-C is for the job in front, so this one runs on to its end."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = started(tmp_path, COUNTING, "version", IMPORTS="1")
    finally:
        signal.signal(signal.SIGINT, before)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, b"")
    assert out.startswith(b"tidelog ")
