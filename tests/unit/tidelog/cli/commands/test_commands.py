"""What holds for every command, over the in-process gateway: its help, its exit codes, what it imports."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import typer.main

from log_format.errors import ErrorCode, TidelogError
from log_format.version import __version__
from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog.cli.app import app
from tidelog.cli.terminal.exit_code import ExitCode, exit_code_for
from tidelog.errors import BackOff, DeliveryTimeout, GatewayUnreachable, OutcomeUnknown, UnknownTopic


def every_command() -> list[tuple[str, ...]]:
    def below(command: Any, path: tuple[str, ...]) -> list[tuple[str, ...]]:
        commands = getattr(command, "commands", None)
        if commands is None:
            return [path]
        return [found for name, each in commands.items() for found in below(each, (*path, name))]

    return below(typer.main.get_command(app), ())


@pytest.mark.parametrize("command", every_command(), ids=" ".join)
def test_every_command_explains_itself(run: Run, command: tuple[str, ...]) -> None:
    """The help text is enough: what it does, every option in words, and (but for the demo) an example."""
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert command == ("demo",) or f"tidelog {' '.join(command)}" in result.stdout
    node: Any = typer.main.get_command(app)
    for name in command:
        node = node.commands[name]
    for parameter in node.params:
        assert parameter.help, parameter.name


def test_errors_and_their_exit_codes(run: Run, gateway: FakeGateway, dead_url: str) -> None:
    """The user gets a sentence on standard error, programs the contract's fields there; results are never mixed with them."""
    result = run("topic", "describe", "nope", "--json")
    assert result.exit_code == ExitCode.REFUSED
    assert result.stdout == ""
    error = json.loads(result.stderr)["error"]
    assert (error["error_code"], error["status"], error["may_have_happened"]) == ("UNKNOWN_TOPIC", 404, False)
    assert error["request_id"]
    result = run("topic", "list", "--url", dead_url, "--timeout", "0.2")
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "tidelog serve" in result.stderr
    gateway.create("t")
    gateway.misbehave("DELETE", gateway.lose(done=True))
    result = run("topic", "delete", "t", "--yes")
    assert result.exit_code == ExitCode.OUTCOME_UNKNOWN
    assert "may have been made nevertheless" in result.stderr
    assert run("topic", "list", "--url", "ftp://x").exit_code == ExitCode.USAGE
    assert run("topic", "create", "t", "-c", "x").exit_code == ExitCode.USAGE
    assert run("topic", "create", "t", "-p", "0").exit_code == ExitCode.USAGE
    assert run("nonsense").exit_code == ExitCode.USAGE


def test_exit_codes_follow_the_cause() -> None:
    """Also when the producer wrapped it."""
    timeout = DeliveryTimeout("late")
    assert exit_code_for(timeout) is ExitCode.REFUSED
    timeout.__cause__ = GatewayUnreachable("gone")
    assert exit_code_for(timeout) is ExitCode.UNREACHABLE
    assert exit_code_for(BackOff("later")) is ExitCode.REFUSED
    assert exit_code_for(UnknownTopic("no")) is ExitCode.REFUSED
    assert exit_code_for(OutcomeUnknown("perhaps")) is ExitCode.OUTCOME_UNKNOWN
    assert exit_code_for(TidelogError("inside", code=ErrorCode.INTERNAL)) is ExitCode.OUTCOME_UNKNOWN


def test_versions(run: Run) -> None:
    """Both ways to ask."""
    assert run("--version").stdout == f"tidelog {__version__}\n"
    assert json.loads(run("version", "--json").stdout)["tidelog"] == __version__
    assert "pyarrow" in run("version").stdout


def test_the_command_line_starts_without_what_it_does_not_need(run: Run) -> None:
    """``tidelog --help`` imports neither pyarrow nor Spark nor the gateway."""
    code = "import sys; import tidelog.cli.app; import tidelog; print(sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    for name in ("pyarrow", "numpy", "pyspark", "fastapi", "boto3", "gateway", "spark_pipeline"):
        assert f"'{name}'" not in modules
