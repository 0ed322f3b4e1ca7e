"""Symbolic links publish nothing: write access to a collected directory gets no other user's file into the topic."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.support.collect_bench import Workbench
from tidelog.collect.journal import Level


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A directory that no pattern names, with a file of the name of a log."""
    directory = tmp_path / "secret"
    directory.mkdir()
    (directory / "shadow.log").write_bytes(b"secret\n")
    return directory


def left_out(bench: Workbench) -> list[str]:
    return [Path(fields["file"]).name for level, _, fields in bench.journal.told if level is Level.WARNING
            and "--follow-links" in fields.get("reason", "")]  # fmt: skip


@pytest.mark.parametrize("pattern", ["*.log", "**/*.log", "app.log", "*/*.log"])
def test_a_link_is_left_out_and_said_so(tmp_path: Path, secret: Path, pattern: str) -> None:
    """Of its own name and of a directory's, matched by a wildcard or named: not read, told once, with the option for it."""
    bench = Workbench(tmp_path, pattern)
    (bench.logs / "app.log").symlink_to(secret / "shadow.log")
    (bench.logs / "linked").symlink_to(secret)
    bench.run()
    bench.run()
    assert bench.values() == []
    assert left_out(bench)
    assert len(set(left_out(bench))) == len(left_out(bench))


def test_a_log_that_turns_into_a_link(bench: Workbench, secret: Path) -> None:
    """Nothing more is read under its name; what was read before stays, and a real file of that name is read again."""
    path = bench.write("app.log", b"one\n")
    bench.run()
    path.unlink()
    path.symlink_to(secret / "shadow.log")
    bench.run()
    bench.kill()
    bench.run()
    assert bench.values() == [b"one"]
    path.unlink()
    bench.write("app.log", b"two, and longer\n")
    bench.run()
    assert bench.values() == [b"one", b"two, and longer"]


def test_directories_that_are_named_may_be_links(tmp_path: Path) -> None:
    """Where logs lie on another disk, /var/log is a link: that is the operator's own word. Links to what is read anyway are not
    worth a word."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/deep").mkdir()
    (tmp_path / "disk/deep/a.log").write_bytes(b"1\n")
    (tmp_path / "disk/deep/current.log").symlink_to("a.log")
    (tmp_path / "logs").symlink_to(tmp_path / "disk")
    bench = Workbench(tmp_path, "*/*.log")
    bench.run()
    assert bench.values() == [b"1"]
    assert left_out(bench) == []


def test_the_state_is_its_users_alone(bench: Workbench) -> None:
    """With the producer id in it a request passes for this agent's; also when a crash left a file that others may read."""
    left = bench.directory / "agent.state.new"
    left.write_bytes(b"")
    left.chmod(0o666)
    bench.write("app.log", b"one\n")
    bench.run()
    assert bench.values() == [b"one"]
    assert stat.filemode((bench.directory / "agent.state").stat().st_mode) == "-rw-------"
