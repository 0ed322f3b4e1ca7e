"""Unit tests of settings from environment and file, of ``cluster``, ``completion`` and ``bench``, and of docs/cli.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.text import Text

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog.cli.app import app
from tidelog.cli.bench.measured import Measured
from tidelog.cli.terminal.exit_code import ExitCode

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "cli.md"


def test_options_win_over_the_environment_and_that_over_the_file(
    gateway: FakeGateway, run: Run, tmp_path: Path
) -> None:
    """In this order, for shared settings and for those of one command."""
    file = tmp_path / "config.toml"
    file.write_text('timeout = 3\n[topic.create]\npartitions = 4\nconfig = ["flush.ms=7"]\n[consume]\nmax = 1\n')
    settings = {"TIDELOG_CONFIG": str(file)}
    assert run("topic", "create", "a", **settings).exit_code == 0
    assert len(gateway.topics["a"].records) == 4
    assert gateway.topics["a"].config == {"flush.ms": "7"}
    assert run("topic", "create", "b", TIDELOG_TOPIC_CREATE_PARTITIONS="3", **settings).exit_code == 0
    assert len(gateway.topics["b"].records) == 3
    arguments = ("--config", str(file), "topic", "create", "c", "-p", "2")
    assert run(*arguments, TIDELOG_TOPIC_CREATE_PARTITIONS="3").exit_code == 0
    assert len(gateway.topics["c"].records) == 2
    file.write_text(f'url = "{gateway.url}"\n')
    assert run("topic", "list", TIDELOG_URL="", **settings).exit_code == 0


def test_the_file_is_found_where_it_belongs(
    run: Run, gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below XDG_CONFIG_HOME, and it need not be there."""
    monkeypatch.delenv("TIDELOG_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert run("topic", "create", "a").exit_code == 0
    (tmp_path / "tidelog").mkdir()
    (tmp_path / "tidelog" / "config.toml").write_text("[topic.create]\npartitions = 5\n")
    assert run("topic", "create", "b").exit_code == 0
    assert [len(gateway.topics[name].records) for name in "ab"] == [1, 5]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('ulr = "x"', "ulr"),
        ("[consume]\nformt = 'json'", "consume.formt"),
        ("[consume]\nmax = 'many'", "consume.max"),
        ("[topic.create]\nconfig = 'a=b'", "topic.create.config"),
        ("[topic.creat]\npartitions = 1", "topic.creat"),
        ("topic = 1", "topic"),
        ("url =", "config.toml"),
    ],
)
def test_what_means_nothing_is_refused_by_name(run: Run, tmp_path: Path, text: str, said: str) -> None:
    """A typing error in the file never passes silently, whatever command is run."""
    file = tmp_path / "config.toml"
    file.write_text(text)
    result = run("--config", str(file), "topic", "list")
    assert result.exit_code == ExitCode.USAGE
    assert said in re.sub(r"[\s│]+", "", result.stderr)
    assert run("--config", str(tmp_path / "none"), "topic", "list").exit_code == ExitCode.USAGE


def test_cluster(gateway: FakeGateway, run: Run) -> None:
    """For the user, and as the API has it for programs."""
    shown = run("cluster")
    assert shown.exit_code == 0, shown.stderr
    found = json.loads(run("cluster", "--json").stdout)
    assert {"gateways", "store", "version", "limits"} <= found.keys()
    assert found["store"] in shown.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run: Run, shell: str) -> None:
    """Each shell gets a script that asks tidelog."""
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_TIDELOG_COMPLETE" in result.stdout
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=result.stdout.encode(), check=True)
    assert run("completion", "csh").exit_code == ExitCode.USAGE


def test_completion_answers() -> None:
    """What the bash script asks gets the commands that begin so."""
    asked = {"_TIDELOG_COMPLETE": "complete_bash", "COMP_WORDS": "tidelog top", "COMP_CWORD": "1"}
    answer = subprocess.run(
        [sys.executable, "-m", "tidelog"], env={**os.environ, **asked}, capture_output=True, check=True
    )
    assert answer.stdout.split() == [b"top", b"topic"]


def test_bench_counts_what_it_does(gateway: FakeGateway, run: Run) -> None:
    """As many records as asked for, of the size asked for; and it ends at its time."""
    gateway.create("t", 2)
    for more in ((), ("--tables",)):
        said = json.loads(run("bench", "produce", "t", "-n", "500", "--size", "20", "--json", *more).stdout)
        assert (said["record_count"], said["value_bytes"]) == (500, 10_000)
        assert 0 < said["latency_ms"]["p50"] <= said["latency_ms"]["p99"] <= said["latency_ms"]["max"]
    assert sum(len(value or b"") for values in gateway.values("t") for value in values) == 20_000
    for more in ((), ("--tables",)):
        said = json.loads(run("bench", "consume", "t", "--json", *more).stdout)
        assert said["record_count"] == 1000
    assert "records/s" in run("bench", "consume", "t").stdout
    assert run("bench", "produce", "none").exit_code == ExitCode.REFUSED


def test_percentiles() -> None:
    """The smallest value that so many of a hundred don't exceed."""
    measured = Measured(
        record_count=1, value_bytes=1, elapsed_s=1, latency_of="x", latencies_ms=list(map(float, range(100, 0, -1)))
    )
    assert [measured.percentile_ms(percent) for percent in (50, 95, 99, 100)] == [50, 95, 99, 100]


def test_the_document_names_everything() -> None:
    """Every command and every long option of the commands it describes stands in docs/cli.md, and every exit code."""
    text = DOCUMENT.read_text()
    missing = [f"| {code.value} |" for code in ExitCode if f"| {code.value} |" not in text]

    def below(command: Any, path: str) -> None:
        for name, each in command.commands.items():
            if hasattr(each, "commands"):
                below(each, f"{path}{name} ")
                continue
            if f"`{name}`" not in text and f"`{path}{name}`" not in text:
                missing.append(path + name)
            described = name not in {"collect", "serve", "demo"}
            options = [option for parameter in each.params for option in parameter.opts if option.startswith("--")]
            missing.extend(option for option in options if described and option not in text)

    below(typer.main.get_command(app), "")
    assert not missing
    assert "$ tidelog produce orders orders.csv" in text


def test_no_help_loses_a_word_to_markup() -> None:
    """What stands in brackets is markup for the library that prints the help: ``tidelog[kafka]`` would be printed as tidelog."""
    lost: list[tuple[str, str]] = []

    def below(command: Any, path: str) -> None:
        texts = [command.help, command.epilog, *(getattr(each, "help", None) for each in command.params)]
        kept = [text.replace("\b", "") for text in texts if text]
        lost.extend((path, text) for text in kept if Text.from_markup(text).plain != text)
        for name, each in getattr(command, "commands", {}).items():
            below(each, f"{path} {name}")

    below(typer.main.get_command(app), "tidelog")
    assert not lost
