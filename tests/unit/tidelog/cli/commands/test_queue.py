"""``tidelog queue``, over the in-process gateway."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog import Record
from tidelog.cli.terminal.exit_code import ExitCode


def fill(gateway: FakeGateway, run: Run, *options: str) -> None:
    """A topic ``t`` of four records, and a queue ``q`` over it."""
    gateway.create("t").records[0] = [Record("t", 0, at, 0, b"k", b"%d" % at) for at in range(4)]
    result = run("queue", "create", "q", "t", "--start", "earliest", *options)
    assert (result.exit_code, result.stderr) == (0, "Queue q delivers the records of t.\n")


def test_queues_from_creation_to_deletion(run: Run, gateway: FakeGateway) -> None:
    """Made with every setting, listed, described, deleted; in words and as JSON."""
    fill(gateway, run)
    given = ["--lock-ms", "5000", "--max-deliveries", "2", "--dead-letter-topic", "d", "--backoff-ms", "1,2"]
    more = ["--max-in-flight", "7", "--order", "key", "--expired", "dead_letter", "--filter", "a=b", "--key", "k"]
    made = json.loads(run("queue", "create", "q", "t", "--start", "@5", *given, *more, "--json").stdout)
    assert made == {
        "queue": "q", "topics": ["t"], "start": {"timestamp": 5}, "lock_ms": 5000, "max_deliveries": 2,
        "dead_letter_topic": "d", "backoff_ms": [1, 2], "max_in_flight": 7, "order": "key", "expired": "dead_letter",
        "filter": {"headers": ["a:b"], "key": "k"}, "partitions": [], "dropped": {"records": 0, "since": 0, "newest": []},
    }  # fmt: skip
    assert run("queue", "list").stdout.split("\n")[1].split() == ["q", "t", "d"]
    assert json.loads(run("queue", "list", "--json").stdout)["queues"] == [made]
    described = run("queue", "describe", "q").stdout
    assert "5,000 ms" in described
    assert described.splitlines()[-1].split() == ["t/0", "0", "0", "0", "4"]
    assert run("queue", "delete", "q", "--yes").exit_code == 0
    assert run("queue", "delete", "q", "--yes", "--if-exists").exit_code == 0
    assert run("queue", "describe", "q").exit_code == ExitCode.REFUSED
    assert "no queues" in run("queue", "list").stderr


def test_what_receive_could_not_write_is_not_delivered(
    run: Run, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output that breaks off behind the first record leaves the others as they were."""
    fill(gateway, run)
    write, written = typer.echo, list[object]()

    def breaks_off(text: object = None, **more: Any) -> None:
        if written:
            raise BrokenPipeError
        written.append(text)
        write(text, **more)

    with monkeypatch.context() as patched:
        patched.setattr(typer, "echo", breaks_off)
        run("queue", "receive", "q")
    assert written == ["t/0@0  delivery 1  0"]
    plain = run("queue", "receive", "q").stdout
    assert plain.splitlines() == [f"t/0@{at}  delivery 1  {at}" for at in (1, 2, 3)]


def test_records_are_taken_and_settled(run: Run, gateway: FakeGateway) -> None:
    """What ``receive --json`` writes ``settle`` reads; a lease that is over is said, and the rest is settled."""
    fill(gateway, run, "--dead-letter-topic", "d")
    taken = run("queue", "receive", "q", "--max", "2", "--json").stdout
    assert [json.loads(line)["delivery_count"] for line in taken.splitlines()] == [1, 1]
    first = taken.splitlines()[0]
    assert run("queue", "settle", "q", "reject", "--reason", "bad", given=first).stderr == "1 record settled.\n"
    assert [reason for _, reason in gateway.queues["q"].dead] == ["bad"]
    again = run("queue", "settle", "q", "accept", "--json", given=taken)
    assert again.exit_code == ExitCode.FAILED
    assert [one["settled"] for one in json.loads(again.stdout)["results"]] == [False, True]
    assert "t/0@0" in again.stderr
    plain = run("queue", "receive", "q", "--accept")
    assert plain.stdout.splitlines() == ["t/0@2  delivery 1  2", "t/0@3  delivery 1  3"]
    assert gateway.queues["q"].settled == {("t", 0, 0): "reject"} | {("t", 0, at): "accept" for at in (1, 2, 3)}
    assert "No records are available" in run("queue", "receive", "q").stderr
    assert run("queue", "redrive", "q").stderr == "1 dead letter redriven.\n"
    assert json.loads(run("queue", "receive", "q", "--json").stdout)["value"] == "0"


def test_wrong_usage(run: Run, gateway: FakeGateway) -> None:
    """What is no record, no number and no time is said; nothing is settled."""
    fill(gateway, run)
    for given in ("{", "[]", '{"topic":"t"}'):
        assert run("queue", "settle", "q", "accept", given=given).exit_code == ExitCode.USAGE
    assert run("queue", "create", "q", "t", "--backoff-ms", "1,x").exit_code == ExitCode.USAGE
    for given in ("soon", "@soon"):
        refused = run("queue", "create", "q", "t", "--start", given)
        assert (refused.exit_code, f"--start '{given}' is not latest, " in refused.stderr) == (ExitCode.USAGE, True)
    assert run("queue", "redrive", "q").exit_code == ExitCode.REFUSED
    assert gateway.queues["q"].settled == {}
