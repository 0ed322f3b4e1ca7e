"""Errors of usage are a sentence in the commands' words, and name the help that explains it; nothing is done."""

from __future__ import annotations

import json

import pytest
import typer

from log_format.errors import UnknownTopic
from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog.cli.terminal.exit_code import ExitCode

TYPER = (
    *(
        "Invalid value",
        "Try '",
        "Usage:",
        "Input should",
        "No such command",
        "No such option",
        "Missing",
        "Got unexpected",
    ),
    "\N{BOX DRAWINGS LIGHT VERTICAL}",
)
"""Words and lines that are Typer's."""


@pytest.mark.parametrize(
    ("typed", "said", "help_"),
    [
        ("topic create t -p 0", "--partitions must be at least 1.", "topic create"),
        ("topic create t -p x", "--partitions must be a whole number.", "topic create"),
        ("serve --store s --port 70000", "--port must be at most 65535.", "serve"),
        ("serve --store s --log-level loud", "--log-level must be debug, info, warning or error, not 'loud'.", "serve"),
        ("topic create", "NAME is missing.", "topic create"),
        ("topic delete-records t", "--before is missing.", "topic delete-records"),
        ("topic list --prefix", "--prefix needs a value.", None),
        ("topic list a b", "There are too many arguments: a b.", "topic list"),
        ("topic nope", "There is no command 'nope'.", "topic"),
        ("topic lst", "There is no command 'lst'. Did you mean 'list'?", "topic"),
        ("topic list --jso", "There is no option --jso. Did you mean --json?", "topic list"),
        ("whoami --me", "There is no option --me.", "whoami"),
        ("lag --every soon", "--every: 'soon' is not a duration", "lag"),
        ("topic erase t", "give --key, --header or --where.", "topic erase"),
        ("--config no/such/file topic list", "the settings file no/such/file: No such file or directory.", ""),
    ],
)
def test_it_is_said_in_a_sentence(run: Run, gateway: FakeGateway, typed: str, said: str, help_: str | None) -> None:
    """And in no box."""
    ended = run(*typed.split())
    assert ended.exit_code == ExitCode.USAGE
    assert ended.stderr.startswith(said), ended.stderr
    assert not any(word in ended.stderr for word in TYPER)
    if help_ is not None:
        assert f"{help_} --help' explains it.\n" in ended.stderr
    assert ended.stdout == ""
    assert gateway.asked == []


def test_programs_get_it_as_json(run: Run) -> None:
    """One line, as of any other error."""
    ended = run("topic", "create", "t", "-p", "0", "--json")
    assert json.loads(ended.stderr)["error"]["detail"].startswith("--partitions must be at least 1.")


def test_a_name_may_begin_with_a_dash(run: Run, gateway: FakeGateway) -> None:
    """It is no option, and the error says how it is typed; that works, and so does what other errors advise."""
    said = run("topic", "create", "-x").stderr
    assert "There is no option -x. A name that begins with a dash stands behind --:" in said
    assert "topic create -- -x'." in said
    assert "'tidelog topic create -- -x' creates it" in run("topic", "describe", "--", "-x").stderr
    assert run("topic", "create", "--", "-x").exit_code == 0
    assert "-x" in gateway.topics


@pytest.mark.parametrize("name", ["a b", "..", "caf\u00e9", "x" * 250])
def test_no_command_is_advised_for_a_name_that_no_topic_can_have(run: Run, name: str) -> None:
    """The rule is said instead, by the command and by programs that read the store."""
    for said in (run("topic", "describe", name).stderr, str(UnknownTopic(name))):
        assert "topic create" not in said
        assert "No topic can: a name must be 1 to 249 characters of A-Z a-z 0-9 . _ -" in said


def test_a_no_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In words, not as an abortion."""
    monkeypatch.setattr("tidelog.cli.commands.topic.confirm", _decline)
    ended = run("topic", "delete", "t")
    assert (ended.exit_code, ended.stderr) == (ExitCode.FAILED, "Nothing was changed.\n")


def _decline(*_: object, **__: object) -> None:
    raise typer.Abort
