"""What commands say when something is not as it should be: at once, truly, and in words that can be typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer

from log_format.errors import UnknownTopic
from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog.cli.terminal.console import CommandFailed, note, reporting
from tidelog.cli.terminal.exit_code import ExitCode


@pytest.mark.parametrize("command", [("topic", "list"), ("produce", "t"), ("consume", "t"), ("group", "list")])
def test_waiting_for_a_gateway_is_told_at_once(run: Run, dead_url: str, command: tuple[str, ...]) -> None:
    """The user is told once, before the time is over; programs get the one error at the end."""
    arguments = [*command, "--url", dead_url, "--timeout", "0.6"]
    ended = run(*arguments, given=b"x\n")
    assert ended.exit_code == ExitCode.UNREACHABLE
    first = ended.stderr.splitlines()[0]
    assert re.fullmatch(rf"{dead_url}: Connection refused\. Retrying for up to \d+ s\.", first)
    assert ended.stderr.count("Retrying") == 1
    ended = run(*arguments, "--json", given=b"x\n")
    assert len(ended.stderr.splitlines()) == 1
    assert json.loads(ended.stderr)["error"]["retryable"]


def test_the_end_of_the_wait_is_told(run: Run, gateway: FakeGateway) -> None:
    """So that a person knows that it goes on."""
    gateway.misbehave("GET /v1/topics", gateway.lose(done=False))
    ended = run("topic", "list")
    assert ended.exit_code == ExitCode.OK
    assert "Retrying" in ended.stderr
    assert f"{gateway.url} answers." in ended.stderr


def test_an_unknown_topic_is_made_by_a_command(run: Run) -> None:
    """The user can type what the error says; a program that reads the store itself, such as Spark, gets the same error."""
    said = run("topic", "describe", "nope").stderr
    assert "'tidelog topic create nope'" in said
    assert "/v1/" not in said
    assert "'tidelog topic create nope'" in str(UnknownTopic("nope"))


def test_settings_are_named_as_options(run: Run, gateway: FakeGateway) -> None:
    """Neither pointers into JSON nor the same thing twice."""
    one = {"where": "/config/a", "what": "is not a setting"}
    gateway.misbehave("POST", gateway.refuse(400, "INVALID_CONFIG", detail="a is not a setting.", errors=[one]))
    lines = run("topic", "create", "t", "-c", "a=1").stderr.splitlines()
    assert [line for line in lines if "request id" not in line] == ["a is not a setting. [INVALID_CONFIG]"]


def test_members_of_a_request_are_named_as_options(run: Run, gateway: FakeGateway) -> None:
    """As the running command has them; what it has not, keeps its place."""
    gateway.create("t")
    wrong = [{"where": f"/{name}", "what": "is too small"} for name in ("lock_ms", "max_deliveries", "topics")]
    gateway.misbehave("PUT", gateway.refuse(400, "INVALID_REQUEST", detail="lock_ms is too small.", errors=wrong))
    lines = run("queue", "create", "q", "t", "--lock-ms", "1").stderr.splitlines()
    assert lines[:-1] == [
        "--lock-ms is too small. [INVALID_REQUEST]",
        "  --max-deliveries: is too small",
        "  /topics: is too small",
    ]


def test_a_record_of_a_request_is_no_place_in_a_file(run: Run, gateway: FakeGateway) -> None:
    """The line of the input is named instead of the place in the request, and nothing is said twice."""
    gateway.create("t")
    wrong = [{"where": "/records/0/deliver_after_ms", "what": "is too far ahead"}]
    detail = "Nothing was stored. /records/0/deliver_after_ms: is too far ahead."
    gateway.misbehave("POST", gateway.refuse(400, "INVALID_RECORD", detail=detail, errors=wrong))
    said = run("produce", "t", "--deliver-after", "400d", given=b"x\n").stderr
    assert "\nline 1, deliver_after_ms: is too far ahead. [INVALID_RECORD]\n" in said
    assert "/records/" not in said


def test_an_empty_name_is_said(run: Run) -> None:
    """The error does not speak of a route, since the user typed none."""
    said = run("group", "describe", "").stderr
    assert "Is a name empty" in said
    assert "route" not in said


def test_a_topic_that_exists_is_enough(run: Run, gateway: FakeGateway) -> None:
    """``--if-not-exists`` succeeds whatever it has, and says what differs; without it the command fails."""
    assert run("topic", "create", "t", "-p", "2", "-c", "retention.ms=5").exit_code == 0
    other = ("topic", "create", "t", "-p", "4", "-c", "retention.ms=6", "-c", "flush.ms=1")
    ended = run(*other, "--if-not-exists")
    assert ended.exit_code == 0
    assert "partitions is 2, not 4; retention.ms is 5, not 6; flush.ms is " in ended.stderr
    ended = run(*other, "--if-not-exists", "--json")
    assert json.loads(ended.stdout)["partition_count"] == 2
    assert "retention.ms is 5" in json.loads(ended.stderr)["warning"]["detail"]
    assert run(*other).exit_code == ExitCode.REFUSED
    assert gateway.topics["t"].config == {"retention.ms": "5"}


def test_standard_output_is_called_by_a_dash(
    run: Run, gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in other commands; no file of that name is made."""
    monkeypatch.chdir(tmp_path)
    gateway.create("t")
    run("produce", "t", given=b"hello\n")
    assert run("consume", "t", "-o", "-").stdout == "hello\n"
    assert json.loads(run("consume", "t", "-o", "-", "--json").stdout)["value"] == "hello"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_gets_advice_that_helps(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    """``--append`` is offered where it works, and not for Parquet."""
    gateway.create("t")
    run("produce", "t", given=b"hello\n")
    for name, offers in (("a.parquet", False), ("a.ndjson", True)):
        arguments = ("consume", "t", "--output", str(tmp_path / name))
        assert run(*arguments).exit_code == 0
        ended = run(*arguments)
        assert ended.exit_code == ExitCode.FAILED
        assert ("--append" in ended.stderr) is offers
        assert (run(*arguments, "--append").exit_code == 0) is offers


@pytest.mark.parametrize("command", [("doctor",), ("verify", "t")])
def test_a_store_that_is_not_there_is_not_made(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    """A misspelt directory is said to be none."""
    ended = run(*command, "--store", str(tmp_path / "lgo"))
    assert ended.exit_code == ExitCode.USAGE
    assert f"there is no store: the directory {tmp_path / 'lgo'} does not exist" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_name_that_was_meant(run: Run, gateway: FakeGateway) -> None:
    """Of a topic or a group, where one is like what was typed; programs get the gateway's own words."""
    gateway.create("orders")
    said = run("consume", "oders").stderr
    assert "Did you mean 'orders'? [UNKNOWN_TOPIC]" in said
    assert "meant" not in run("consume", "zebra").stderr
    assert "meant" not in run("consume", "oders", "--json").stderr


def test_a_terminal_interprets_nothing_in_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    """Refusals and notes quote what others stored, such as the names in a schema: escapes and turned text are shown as such."""
    with pytest.raises(typer.Exit), reporting(as_json=False):
        raise CommandFailed("The type at '\x1b]0;t\x07\u202e' differs.\n  Keep it.")
    note("at '\x9b31m'")
    assert capsys.readouterr().err == "The type at '\\x1b]0;t\\x07\\u202e' differs.\n  Keep it.\nat '\\x9b31m'\n"
