"""Unit tests of ``tidelog doctor``: what it tells operators and programs, and with which exit code it ends."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command_runs import Run
from tidelog.cli.terminal.exit_code import ExitCode


def test_a_directory_that_can_be_used_is_well(run: Run, tmp_path: Path) -> None:
    """Every check is a line that says what is good, and the code is 0."""
    ended = run("doctor", "--store", str(tmp_path))
    assert ended.exit_code == ExitCode.OK
    assert [line[:6] for line in ended.stdout.splitlines()] == ["good  "] * 9


def test_programs_get_all_findings_at_once(run: Run, tmp_path: Path) -> None:
    """``--json`` is one value with a verdict for each check; ``--reader`` writes nothing."""
    ended = run("doctor", "--store", str(tmp_path), "--reader", "--json")
    assert ended.exit_code == ExitCode.OK
    answer = json.loads(ended.stdout)
    assert answer["ok"] is True
    assert {finding["verdict"] for finding in answer["findings"]} == {"good"}
    assert not list(tmp_path.iterdir())


def test_a_store_that_can_not_be_used_fails_with_advice(run: Run, tmp_path: Path) -> None:
    """What does not work is said with what to do about it, and the code is 1."""
    (tmp_path / "system").write_bytes(b"")
    ended = run("doctor", "--store", str(tmp_path))
    assert ended.exit_code == ExitCode.FAILED
    lines = ended.stdout.splitlines()
    assert [line[:3] for line in lines if not line.startswith(("good", " "))] == ["bad"]
    (advice,) = [line for line in lines if line.startswith("      ")]
    assert "This user must be allowed to" in advice
    assert "s3:" not in advice


def test_a_store_that_does_not_exist_is_wrong_usage(run: Run) -> None:
    """A URI that names no store is said as such."""
    assert run("doctor", "--store", "ftp://x").exit_code == ExitCode.USAGE
