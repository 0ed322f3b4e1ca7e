"""One worker of pytest-xdist compiles all modules; the others wait for it, where nothing is compiled yet.

In a new checkout each worker would compile each module, all of them at the same time: pytest rewrites the assertions of tests,
which takes longer than all else before the first test. No worker begins its tests before every one has collected them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

WAIT_SECONDS_MAX = 60
"""A worker takes ten seconds of a processor to collect. A worker that waited in vain compiles for itself."""
FIRST = "gw0"
COMPILED_LATE = Path(__file__).resolve().parents[1] / "unit"
"""A folder whose modules are among the last that are collected."""


@contextmanager
def compiled_once(config: pytest.Config) -> Iterator[None]:
    """The block collects all tests."""
    base: str | None = config.option.basetemp
    worker: str | None = getattr(config, "workerinput", {}).get("workerid")
    if worker is None or base is None or sys.dont_write_bytecode:
        yield
        return
    # The workers' own directories lie beside each other.
    has_collected = Path(base).parent / "the first worker has collected"
    if worker != FIRST and not any(COMPILED_LATE.glob("__pycache__/*")):
        _wait_for(has_collected)
    try:
        yield
    finally:
        if worker == FIRST:
            has_collected.touch()


def _wait_for(file: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
