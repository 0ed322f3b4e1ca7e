"""Unit tests of ``tidelog verify``: what it says of a topic, and with which exit code it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_runs import Run
from tidelog.cli.terminal.exit_code import ExitCode


def test_verify_tells_whole_from_damaged(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Exit code 1 when anything is wrong, with each problem named; 0 when all is there; both as JSON too."""
    from log_format.inspection import verify

    problems: tuple[str, ...] = ()

    def fake(store: Any, topic: str, *, progress: Any) -> verify.VerifyReport:
        progress(1, 2)
        return verify.VerifyReport(
            ok=not problems,
            problems=problems,
            segment_count=2,
            record_count=30,
            size_bytes=100,
            orphan_count=1,
            partitions=(verify.VerifiedPartition(partition=0, log_start_offset=5, next_offset=35, record_count=30),),
        )

    monkeypatch.setattr(verify, "verify_topic", fake)
    result = run("verify", "t", "--store", str(tmp_path))
    assert result.exit_code == 0
    assert re.search(r"0 +5 +35 +30\n2 segments, 30 records, 1 orphan\nt is intact", result.stdout)
    problems = ("segment [x] is missing",)
    result = run("verify", "t", "--store", str(tmp_path))
    assert result.exit_code == ExitCode.FAILED
    assert "problem: segment [x] is missing" in result.stdout
    result = run("verify", "t", "--store", str(tmp_path), "--json")
    assert result.exit_code == ExitCode.FAILED
    assert json.loads(result.stdout)["problems"] == ["segment [x] is missing"]


def test_verify_of_what_is_not_there(run: Run, tmp_path: Path) -> None:
    """A topic or a store that does not exist is an error, not a whole topic."""
    assert run("verify", "t", "--store", str(tmp_path)).exit_code == ExitCode.REFUSED
    assert run("verify", "t", "--store", "ftp://x").exit_code == ExitCode.USAGE


def test_a_journal_is_verified_by_its_number(run: Run, tmp_path: Path) -> None:
    """With how much of it no topic's table has yet; a journal that is not there is no whole one."""
    from log_format.stores import open_store
    from tests.support.shared_bench import SharedBench

    bench = SharedBench(open_store(str(tmp_path)))
    bench.create("a")
    bench.append("a", b"0", b"1")
    result = run("verify", "--journal", "0", "--store", str(tmp_path))
    assert result.exit_code == 0
    assert "1 topic, 1 object, 2 records in no topic's table yet, 0 orphans" in " ".join(result.stdout.split())
    assert "journal 0 is intact" in result.stdout
    result = run("verify", "--journal", "1", "--store", str(tmp_path), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"] == ["There is no journal 1."]
    assert run("verify", "a", "--journal", "0", "--store", str(tmp_path)).exit_code == 2
    assert run("verify", "--store", str(tmp_path)).exit_code == 2
