"""``tidelog topic …``, over the in-process gateway."""

from __future__ import annotations

import json
import re

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog import Record
from tidelog.cli.terminal.exit_code import ExitCode


def test_topics_from_creation_to_deletion(run: Run, gateway: FakeGateway) -> None:
    """Each command does its call and reports the result, to the user and, with ``--json``, to programs."""
    assert run("topic", "create", "orders", "-p", "2", "-c", "retention.ms=5").exit_code == 0
    assert gateway.topics["orders"].config == {"retention.ms": "5"}
    gateway.topics["orders"].records[0].append(Record("orders", 0, 0, 0, None, b"x"))
    again = run("topic", "create", "orders", "-p", "2", "-c", "retention.ms=5")
    assert again.exit_code == ExitCode.REFUSED
    assert "TOPIC_ALREADY_EXISTS" in again.stderr
    again = run("topic", "create", "orders", "-p", "2", "-c", "retention.ms=5", "--if-not-exists", "--json")
    assert json.loads(again.stdout)["partition_count"] == 2
    listed = run("topic", "list")
    assert re.search(r"orders +2 +1 +20\n", listed.stdout)
    listed = run("topic", "list", "--json", "--prefix", "o")
    assert [topic["name"] for topic in json.loads(listed.stdout)["topics"]] == ["orders"]
    shown = run("topic", "describe", "orders")
    assert "memory:///topics/orders" in shown.stdout
    assert re.search(r"retention.ms +5", shown.stdout)
    altered = run("topic", "alter", "orders", "-p", "3", "--reset-config", "retention.ms", "--json")
    assert json.loads(altered.stdout)["config"]["retention.ms"] == 604800000
    assert run("topic", "alter", "orders").exit_code == ExitCode.USAGE
    cut = run("topic", "delete-records", "orders", "--before", "0:end", "--before", "1:0", "--json")
    assert json.loads(cut.stdout)["partitions"][0] == {"partition": 0, "log_start_offset": 1}
    assert run("topic", "delete-records", "orders", "--before", "0").exit_code == ExitCode.USAGE
    assert run("topic", "delete", "orders").exit_code == 0
    assert run("topic", "delete", "orders").exit_code == ExitCode.REFUSED
    assert run("topic", "delete", "orders", "--if-exists").exit_code == 0
    assert "no topics" in run("topic", "list").stderr


def test_places_are_named_behind_the_sentence(run: Run, gateway: FakeGateway) -> None:
    """Each where it is; what is wrong with the whole request was said by the sentence."""
    errors = [{"where": "", "what": "all of it"}, {"where": "/config/a", "what": "is not a setting"}]
    gateway.misbehave("POST", gateway.refuse(400, "INVALID_CONFIG", errors=errors))
    lines = run("topic", "create", "t").stderr.splitlines()
    assert [line for line in lines if "request id" not in line][1:] == ["  --config a: is not a setting"]
