"""``python -m benchmarks pace``: each load runs, or says what is missing for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OF_PYTHON = ("commit-floor", "http", "sdk", "librdkafka", "each-100-ms", "each-2-s")
OF_OTHERS = ("java", "perf-test", "debezium", "faststream", "registry")


def rows(tmp_path: Path, *arguments: str) -> list[dict[str, Any]]:
    """What it prints, where no program of others has been fetched."""
    command = [sys.executable, "-m", "benchmarks", "pace", "--stores", "directory", "--json", *arguments]
    # The tables go to standard error: what failed is told there.
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "TIDELOG_CACHE": str(tmp_path)},
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(ended.stdout)
    return found


def test_each_load_runs_on_a_directory(tmp_path: Path) -> None:
    """Records are acknowledged, two PUTs or more are counted for each and priced; what is not at hand is named."""
    found = {row["load"]: row for row in rows(tmp_path, "--seconds", "0.5", "--only", *OF_PYTHON, *OF_OTHERS)}
    assert set(found) == {*OF_PYTHON, *OF_OTHERS}
    for load in OF_PYTHON:
        told = found[load]["tidelog"]
        assert told["records"] > 0
        assert 0 < told["p50_ms"] <= told["p99_ms"]
        assert told["segments"] >= told["records"]
        assert told["puts"] >= 2 * told["segments"]
        assert told["dollars_a_million_records"] >= 10
        assert found[load]["kafka"] is None
    for load in OF_OTHERS:
        assert "make kafka-clients" in found[load]["not run"]


def test_many_topics_run_with_early_flushes_and_by_timer(tmp_path: Path) -> None:
    """A few topics: all is acknowledged either way, and the price is that of what was counted."""
    found = rows(tmp_path, "--seconds", "1", "--topics", "5", "--only", "1000x1")
    assert [row["flushes"] for row in found] == ["early", "by timer"]
    for row in found:
        figures = row["figures"]
        assert figures["acknowledged/s"] > 0
        assert figures["not acknowledged"] == 0
        asked = figures["PUT/s"] * 0.005 + figures["GET/s"] * 0.0004
        assert abs(row["dollars_an_hour"] - asked * 3.6) < 1e-9
