"""What can't be undone is asked about on a terminal, and needs ``--yes`` where nobody can be asked."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
import typer.main

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog.cli.app import app
from tidelog.cli.terminal.confirmation import confirm
from tidelog.cli.terminal.exit_code import ExitCode

DESTRUCTIVE = {"delete", "delete-records", "remove", "revoke", "forget", "erase", "cancel"}
"""Words of commands after which something is gone."""
COMMANDS = [
    ("topic", "delete", "t"),
    ("topic", "delete-records", "t", "--before", "0:end"),
    ("topic", "erase", "t", "--key", "k"),
    ("topic", "scheduled", "cancel", "t", "id"),
    ("pin", "delete", "t", "p"),
    ("schema", "delete", "s"),
    ("group", "delete", "g"),
    ("group", "forget", "g", "t"),
    ("queue", "delete", "q"),
    ("token", "revoke", "abcd1234"),
    ("role", "remove", "r"),
    ("acl", "remove", "--principal", "User:a"),
    ("share", "delete", "s"),
]


def destructive() -> Iterator[tuple[str, ...]]:
    """The commands with such a word, as they are typed."""

    def below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for name, each in getattr(command, "commands", {}).items():
            if hasattr(each, "commands"):
                yield from below(each, (*words, name))
            elif name in DESTRUCTIVE:
                yield (*words, name)

    return below(typer.main.get_command(app), ())


def test_every_destructive_command_is_tried_below() -> None:
    """A new one is in the list of this file."""
    assert {
        command[: len(words)] for command in COMMANDS for words in destructive() if command[: len(words)] == words
    } == set(destructive())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_a_terminal_it_needs_a_yes(gateway: FakeGateway, run: Run, command: tuple[str, ...]) -> None:
    """It says so, and asks the gateway for no change."""
    gateway.create("t")
    gateway.will_answer("GET /v1/access/acls", {"acls": []})
    refused = run(*command)
    assert refused.exit_code == ExitCode.USAGE
    assert "There is no terminal to ask at, so nothing was changed: give --yes to do it." in refused.stderr
    assert [asked.method for asked in gateway.asked if asked.method != "GET"] == []


@pytest.mark.parametrize(("answer", "agrees"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch, answer: str, agrees: bool) -> None:
    """Only a yes goes on."""
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    if agrees:
        confirm("Delete it?", yes=False)
    else:
        with pytest.raises(typer.Abort):
            confirm("Delete it?", yes=False)
