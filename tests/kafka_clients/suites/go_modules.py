"""A Go module in a copy of its own, and what ``go test`` tells."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.kafka_clients.suites.reasons import left_out
from tests.kafka_clients.suites.suite import NothingRan, Outcomes, output_of
from tests.kafka_clients.tried.programs import HERE

GO: Final = HERE / "go"
"""Where go.mod names the versions."""
_SECONDS_MAX: Final = 1500
_WORDS: Final = ("pass", "fail", "skip")


def module(name: str) -> Path:
    """Its directory in Go's own cache, which is read only."""
    listed = ["go", "list", "-m", "-f", "{{.Dir}}", name]
    subprocess.run(["go", "mod", "download", name], cwd=GO, check=True, capture_output=True)
    told = subprocess.run(listed, cwd=GO, check=True, capture_output=True, text=True)
    return Path(told.stdout.strip())


def copied(name: str, directory: Path) -> Path:
    """The module in ``directory``, to be written to."""
    copy = directory / "module"
    shutil.copytree(module(name), copy)
    for path in (copy, *copy.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    return copy


def run_tests(
    suite: str, directory: Path, arguments: Sequence[str], environment: Mapping[str, str], log: Path
) -> Outcomes:
    """What ``go test`` tells of each test, of one with parts of its parts; without those that the suite leaves out.

    Raises ``NothingRan``.
    """
    skipped = "|".join("/".join(_exactly(part) for part in pattern.split("/")) for pattern in left_out(suite))
    options = ["-json", "-count=1", f"-timeout={_SECONDS_MAX}s", *(["-skip", skipped] if skipped else [])]
    command = ["go", "test", *options, *arguments]
    told = output_of(command, directory, os.environ | environment, log, seconds=_SECONDS_MAX + 60)
    found = outcomes(told.splitlines())
    if not found:
        raise NothingRan(told[-3000:])
    return found


def choosing(tests: Sequence[str]) -> str:
    """Their tests as a whole, for ``-run``."""
    return "|".join(sorted({f"^{test.partition('/')[0]}$" for test in tests}))


def _exactly(pattern: str) -> str:
    """A pattern of the shell's kind as one of Go's."""
    return "^" + ".*".join(re.escape(part) for part in pattern.split("*")) + "$"


def outcomes(lines: Iterable[str]) -> Outcomes:
    """Of the lines of ``-json``. A test that began and has no end failed. One that has parts is left out, unless it failed and
    none of its parts did."""
    found: Outcomes = {}
    for line in lines:
        event = json.loads(line) if line.startswith("{") else {}
        test, action = event.get("Test"), event.get("Action")
        if test is None:
            continue
        if action == "run":
            found[test] = "fail"
        elif action in _WORDS:
            found[test] = action
    parents = {test.rpartition("/")[0] for test in found if "/" in test}
    parents |= {parent.rpartition("/")[0] for parent in parents}
    blamed = {
        parent
        for parent in parents
        if found.get(parent) == "fail"
        and not any(word == "fail" for test, word in found.items() if test.startswith(f"{parent}/"))
    }
    return {test: word for test, word in found.items() if test not in parents or test in blamed}
