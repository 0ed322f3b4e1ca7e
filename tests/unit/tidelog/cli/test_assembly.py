"""A program that runs one command imports no other, and nothing shows it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tests.support.fake_gateway import FakeGateway
from tidelog.cli.app import app
from tidelog.cli.assembly import assembled, needed_alone

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
ALL = "tidelog", "tidelog --url x topic list", "tidelog --help", "tidelog help topic", "tidelog ls", "tidelog nope"


def shown(command: Any) -> list[object]:
    """What the help of a command has, and of each below it."""
    options = [(one.name, one.opts, one.default, getattr(one, "help", None)) for one in command.params]
    below = getattr(command, "commands", {})
    return [command.name, command.help, command.epilog, options, *(shown(one) for one in below.values())]


@pytest.fixture(autouse=True)
def _without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_CONFIG", os.devnull)


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"help", "completion"}))
def test_a_command_alone_is_what_it_is_among_all(name: str) -> None:
    """Its help, its options and what is below it."""
    assert needed_alone([name, "--help"]) == name
    alone = typer.main.get_command(assembled(name)).commands  # type: ignore[attr-defined]
    assert list(alone) == [name]
    found, expected = alone[name], COMMANDS[name]
    assert shown(found) == shown(expected)


@pytest.mark.parametrize("typed", ALL)
def test_what_names_no_command_first_needs_all(typed: str) -> None:
    """Help of the program, aliases, errors with a hint."""
    assert needed_alone(typed.split()[1:]) is None


def test_all_are_needed_where_all_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a shell that completes, and where a settings file may name any of them."""
    assert needed_alone(["lag"]) == "lag"
    with monkeypatch.context() as completing:
        completing.setenv("_TIDELOG_COMPLETE", "complete_bash")
        assert needed_alone(["lag"]) is None
    monkeypatch.setenv("TIDELOG_CONFIG", str(tmp_path / "config.toml"))
    assert needed_alone(["lag"]) is None
    monkeypatch.delenv("TIDELOG_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert needed_alone(["lag"]) == "lag"
    (tmp_path / "tidelog").mkdir()
    (tmp_path / "tidelog/config.toml").write_text("")
    assert needed_alone(["lag"]) is None


def test_a_program_imports_its_command_alone() -> None:
    """A third of the commands' modules are those of records, which no command of rights needs."""
    code = "import sys; sys.argv = ['tidelog', 'role', '--help']; from tidelog.cli.assembly import run\ntry: run()\n"
    code += "finally: print('|', *(name for name in sys.modules if name.startswith('tidelog.cli.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    imported = done.stdout.rpartition("|")[2].split()
    assert "tidelog.cli.commands.role" in imported
    assert not {"tidelog.cli.commands.consume", "tidelog.cli.bench", "tidelog.cli.sources.rows"}.intersection(imported)


@pytest.mark.parametrize("command", ["produce t", "consume t", "topic ls"])
def test_streams_that_are_closed_are_empty(gateway: FakeGateway, command: str) -> None:
    """A program of a service manager may have none: what it reads ends at once, what it writes is dropped."""
    gateway.create("t")
    typed = f'exec "$0" -m tidelog {command} --url {gateway.url} <&- >&-'
    done = subprocess.run(["sh", "-c", typed, sys.executable], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Error" not in done.stderr
