"""Rotating files into a real gateway's topic while both the agent and the gateway are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = "--megabytes 16 --files 8 --rotate-bytes 400000 --megabytes-per-second 4 --kill-every 0.3 1.2"

pytestmark = pytest.mark.timeout(280)


def test_killed_at_any_moment_each_line_is_in_the_topic_once() -> None:
    """Lines in = lines out, in order in each file, through rotation in every way and SIGKILL of agent and gateway."""
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks", "collect-kills", *OPTIONS.split()],
        cwd=ROOT, capture_output=True, text=True, timeout=270, check=False,
    )  # fmt: skip
    assert ended.stdout, ended.stderr[-3000:]
    result = json.loads(ended.stdout)
    assert result["problems"] == [], result
    assert ended.returncode == 0
    # The kills met traffic and rotations, or this proved nothing.
    assert result["agent_kills"] + result["gateway_kills"] >= 3
    assert sum(result["rotations"].values()) >= 10
