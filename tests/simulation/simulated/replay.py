"""A seed is a history: the same one again, also in another process with other hashes, so that a failure can be replayed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.simulation.simulated.world import History

ROOT = Path(__file__).parents[3]


def assert_replays(simulate: Callable[[int], History], seed: int) -> None:
    """``simulate`` gives the same trace elsewhere and here, behind another history, byte for byte; that one differs."""
    program = (
        f"import logging; from {simulate.__module__} import {simulate.__name__} as simulate; "
        "from tests.simulation.simulated.replay import digest; "
        f"logging.disable(logging.CRITICAL); print(digest(simulate({seed})))"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": "12345"}, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    another = digest(simulate(seed + 1))
    assert digest(simulate(seed)) == other.stdout.strip() != another


def digest(history: History) -> str:
    """Of the trace."""
    return hashlib.sha256("\n".join(history.trace).encode()).hexdigest()
