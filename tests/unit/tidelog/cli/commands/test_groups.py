"""Unit tests of the commands about groups, over the in-process gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog import Record
from tidelog.cli.sinks.output_file import OutputFile
from tidelog.errors import UnknownGroup


def fill(gateway: FakeGateway, count: int = 20) -> None:
    topic = gateway.create("t", 2)
    for number in range(2):
        topic.records[number] = [Record("t", number, at, at, None, b"%d-%d" % (number, at)) for at in range(count)]


def test_a_group_goes_on_behind_what_was_written(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    """One run after the other, onto standard output and into a file: each record once, and all at the end."""
    fill(gateway)
    first = run("consume", "t", "--group", "g", "--max", "7")
    assert first.exit_code == 0, first.output
    assert sum(gateway.groups["g"].offsets.values()) == 7
    file = tmp_path / "rest.txt"
    second = run("consume", "t", "--group", "g", "--output", file)
    assert second.exit_code == 0, second.output
    lines = first.stdout.splitlines() + file.read_text().splitlines()
    assert sorted(lines) == sorted(f"{number}-{at}" for number in range(2) for at in range(20))
    assert gateway.groups["g"].offsets == {("t", 0): 20, ("t", 1): 20}
    assert run("consume", "t", "--group", "g").stdout == ""
    assert gateway.groups["g"].members == {}


def test_what_was_not_written_is_not_committed(
    gateway: FakeGateway, run: Run, tmp_path: Path, monkeypatch: Any
) -> None:
    """The disk fails in the middle: the file does not appear, and the group is where it was."""
    fill(gateway)

    def fail(file: OutputFile) -> None:
        file.discard()
        raise OSError("the disk is full")

    monkeypatch.setattr("tidelog.cli.sinks.output_file.OutputFile.close", fail)
    result = run("consume", "t", "--group", "g", "--output", tmp_path / "out.txt")
    assert result.exit_code == 1, result.output
    assert gateway.groups["g"].offsets == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ("consume", "t", "--group", "g", "--from", "end"),
        ("consume", "t", "--group", "g", "--last", "3"),
        ("consume", "t", "--group", "g", "--partition", "0"),
        ("group", "reset", "g", "--to", "somewhere", "--topic", "t"),
        ("group", "reset", "g", "--to", "@x", "--topic", "t"),
        ("group", "reset", "g", "--to", "earliest", "--topic", "t", "--partition", "t:0"),
        ("group", "reset", "g", "--to", "earliest", "--partition", "0"),
        ("group", "reset", "g", "--to", "earliest"),
    ],
)
def test_wrong_usage(gateway: FakeGateway, run: Run, arguments: tuple[str, ...]) -> None:
    """Exit code 2, and nothing is joined, committed or reset."""
    fill(gateway)
    assert run(*arguments).exit_code == 2
    assert not any(group.events for group in gateway.groups.values())


def test_a_new_group_begins_where_one_says(run: Run, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """``group reset`` of a group that is not there makes it, at clamped offsets; a shift has nothing to move."""
    gateway.create("t", 2).records[0] = [Record("t", 0, at, 1_700_000_000_000 + at, None, b"") for at in range(5)]

    def unknown(*_: object, **__: object) -> None:
        raise UnknownGroup("There is no consumer group 'new'.")  # as gateways do; the fake one makes it

    monkeypatch.setattr("tidelog.admin.Admin.reset_group", unknown)
    for to, offset in (("earliest", 0), ("latest", 5), ("3", 3), ("99", 5), ("@1700000000002", 2)):
        result = run("group", "reset", "new", "--to", to, "--topic", "t", "--json")
        assert result.exit_code == 0, result.stderr
        assert {each["partition"]: each["offset"] for each in json.loads(result.stdout)["offsets"]} == {0: offset, 1: 0}
    gateway.groups.clear()
    tried = run("group", "reset", "new", "--to", "2", "--partition", "t:0", "--dry-run")
    assert tried.exit_code == 0, tried.stderr
    assert "t/0 would continue at offset 2" in tried.stderr
    assert not gateway.groups
    assert run("group", "reset", "new", "--to", "2", "--partition", "t:0").exit_code == 0
    assert run("group", "reset", "new", "--to", "-1", "--topic", "t").exit_code == 2
