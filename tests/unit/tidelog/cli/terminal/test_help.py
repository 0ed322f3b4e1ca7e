"""Help texts read as they are meant, and switches look like switches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog.cli.terminal.exit_code import ExitCode


@pytest.mark.parametrize("command", [("topic", "list"), ("doctor",), ("consume",), ("bench", "produce"), ()])
def test_a_switch_takes_no_value(run: Run, command: tuple[str, ...]) -> None:
    """No ``<bool>`` stands behind ``--json`` or ``--help``."""
    shown = run(*command, "--help").stdout
    assert "--help" in shown
    assert "bool" not in shown.lower()


@pytest.mark.parametrize("given", [("topic", "list", "--json", "true"), ("topic", "list", "--json=true")])
def test_a_switch_that_is_given_a_value_is_named(run: Run, given: tuple[str, ...]) -> None:
    """It says which switch, and how it is written; other superfluous words are reported as they were."""
    ended = run(*given)
    assert ended.exit_code == ExitCode.USAGE
    assert "--json takes no value" in ended.stderr
    assert "There are too many arguments: all." in run("topic", "list", "all").stderr


def test_paragraphs_are_as_wide_as_the_terminal(run: Run) -> None:
    """The line breaks of the source are not those of the help, but for examples."""
    lines = [line.strip() for line in run("doctor", "--help").stdout.splitlines()]
    (sentence,) = [line for line in lines if line.startswith("Run it with the credentials")]
    assert "It writes only below system/probes/, and deletes that again." in sentence
    assert "tidelog doctor --store ./log --reader --json" in lines


def test_serve_shows_what_people_need_first(run: Run) -> None:
    """Options that decide how others reach it, and what it logs, are not hidden among those of the gateway, which follow in
    groups; so are those of the pipeline."""
    shown = run("serve", "--help").stdout
    first, _, rest = shown.partition("All settings")
    for option in ("--advertised-url", "--log-level", "--log-format"):
        assert option in first
    for heading, option in (("\nthe gateway:\n", "--in-flight-bytes-max"), ("\nTLS:\n", "--tls-cert")):
        assert option in rest.partition(heading)[2]
    assert "--available-now" in run("pipeline", "--help").stdout


@pytest.mark.parametrize(
    ("options", "extra"),
    [
        (("--workers", "local"), "arrow"),
        (("--workers", "local", "--every", "60s", "--metrics-port", "0"), "collect"),
        (("--workers", "spark"), "spark"),
    ],
)
def test_maintain_names_the_extra_that_is_enough(
    run: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], extra: str
) -> None:
    """Work without Spark needs no installed Spark."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    ended = run("maintain", "--store", "./log", *options)
    assert ended.exit_code == ExitCode.FAILED
    assert f"pip install 'tidelog[{extra}]'" in ended.stderr


def test_help_can_be_asked_by_its_name(run: Run) -> None:
    """``tidelog help topic create`` is ``tidelog topic create --help``; what there is not is named."""
    assert run("help", "topic", "create").stdout == run("topic", "create", "--help").stdout
    assert run("help").stdout == run("--help").stdout
    unknown = run("help", "topic", "nope")
    assert unknown.exit_code == ExitCode.USAGE
    assert "There is no command 'nope'" in unknown.output


def test_the_address_may_stand_before_the_command(run: Run, dead_url: str) -> None:
    """``tidelog --url URL topic list``; the command's own option wins, and the next command has the old address."""
    assert run("topic", "ls").exit_code == 0
    failed = run("--url", dead_url, "topic", "list", "--timeout", "0.3")
    assert failed.exit_code == ExitCode.UNREACHABLE
    assert dead_url in failed.stderr
    assert run("topic", "list").exit_code == 0


def test_ls_and_rm_stand_for_what_a_group_has(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    """In a group of commands its own ``list`` and ``delete``, without one those of topics; settings of those are in force."""
    for name in ("orders", "access"):
        gateway.create(name)
    assert run("ls").stdout == run("topic", "ls").stdout == run("topic", "list").stdout
    assert run("rm", "orders", "--yes").stderr == "Topic orders is deleted.\n"
    assert run("help", "ls").stdout == run("topic", "list", "--help").stdout
    assert run("help", "group", "rm").stdout == run("group", "delete", "--help").stdout
    gateway.create("orders")
    settings = tmp_path / "config.toml"
    settings.write_text('[topic.list]\nprefix = "acc"\n')
    for command in (("ls",), ("topic", "ls"), ("topic", "list")):
        shown = run("--config", settings, *command).stdout
        assert ("access" in shown, "orders" in shown) == (True, False), command


def test_a_command_of_topics_is_meant_where_there_is_none_of_that_name(run: Run) -> None:
    """``tidelog create orders`` is answered by what to type; what topics have not either, is not guessed."""
    asked = run("create", "orders")
    assert asked.exit_code == ExitCode.USAGE
    assert "Did you mean 'topic create'?" in asked.stderr
    assert "topic" not in run("flurb").stderr
    assert "Did you mean 'list'?" in run("topic", "lst").stderr
