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
    assert re.search(r"retention.ms +5 +604800000 \(7d\)\n", shown.stdout), "what differs has its default beside it"
    assert re.search(r"deleted.file.retention.ms +86400000 \(1d\) *\n", shown.stdout), "Tidelog's own, too"
    altered = run("topic", "alter", "orders", "-p", "3", "--reset-config", "retention.ms", "--json")
    assert json.loads(altered.stdout)["config"]["retention.ms"] == 604800000
    assert run("topic", "alter", "orders").exit_code == ExitCode.USAGE
    cut = run("topic", "delete-records", "orders", "--before", "0:end", "--before", "1:0", "--yes", "--json")
    assert json.loads(cut.stdout)["partitions"][0] == {"partition": 0, "log_start_offset": 1}
    assert run("topic", "delete-records", "orders", "--before", "0").exit_code == ExitCode.USAGE
    assert run("topic", "delete", "orders", "--yes").exit_code == 0
    assert run("topic", "delete", "orders", "--yes").exit_code == ExitCode.REFUSED
    assert run("topic", "delete", "orders", "--yes", "--if-exists").exit_code == 0
    assert "no topics" in run("topic", "list").stderr


def test_a_description_says_where_a_topics_commits_go(run: Run, gateway: FakeGateway) -> None:
    """Its own or a journal's, since when, why, and how far the table is behind: for people and, with ``--json``, for programs."""
    assert run("topic", "create", "orders", "--config", "commit.mode=shared").exit_code == 0
    assert gateway.topics["orders"].config == {"commit.mode": "shared"}
    shown = run("topic", "describe", "orders").stdout
    assert "commits  to the table directly since 2025-11-21T00:00:00Z (created so)\n" in shown
    place = {"mode": "shared", "journal": 0, "since": 1763683200000, "reason": "commit.mode is shared"}
    gateway.topics["orders"].commit = {**place, "undrained_records": 1200, "drained_until_ms": 1763683260000}
    shown = run("topic", "describe", "orders").stdout
    assert "commits  through journal 0 since 2025-11-21T00:00:00Z (commit.mode is shared); " in shown
    assert "1,200 records not in the table yet, since 2025-11-21T00:01:00Z" in shown.replace("\n", " ")
    assert "flushes " not in shown
    told = json.loads(run("topic", "describe", "orders", "--json").stdout)["commit"]
    assert told == {**gateway.topics["orders"].commit, "flush_savings_ms": None, "savings_spent": None}
    assert run("topic", "alter", "orders", "--config", "commit.mode=own").exit_code == 0
    assert gateway.topics["orders"].config == {"commit.mode": "own"}


def test_a_description_says_what_is_saved_for_early_flushes(run: Run, gateway: FakeGateway) -> None:
    """How long, by the gateway that was asked, and whether the timer is back; without a word where it does not know."""
    run("topic", "create", "orders")
    gateway.topics["orders"].commit = {"mode": "own", "flush_savings_ms": 3_599_876, "savings_spent": False}
    shown = " ".join(run("topic", "describe", "orders").stdout.split())
    assert "flushes early, whenever all senders wait (savings of the gateway that answered: 59m59s" in shown
    gateway.topics["orders"].commit = {"mode": "own", "flush_savings_ms": 120, "savings_spent": True}
    shown = " ".join(run("topic", "describe", "orders").stdout.split())
    assert "flushes after flush.ms, since the savings for early flushes are spent until senders pause" in shown


def test_a_gateway_before_journals_is_understood(run: Run, gateway: FakeGateway) -> None:
    """It does not say where commits go: they are the topic's own."""
    run("topic", "create", "orders")
    gateway.topics["orders"].commit = {}
    assert "commits  to the table directly\n" in run("topic", "describe", "orders").stdout
    assert "journals     none in use\n" in run("cluster").stdout


def test_the_cluster_says_what_is_at_journals(run: Run, gateway: FakeGateway) -> None:
    """How many, and why there can't be more; programs get the same."""
    gateway.journals = {"in_use": 2, "topics": 10_007, "held_back": None}
    assert "journals     2 in use, with 10,007 topics\n" in run("cluster").stdout
    gateway.journals["held_back"] = "this gateway has the setting journals=off"
    said = run("cluster").stdout.replace("\n", " ")
    assert "10,007 topics; no further topic can use one: this gateway has the setting journals=off " in said
    assert json.loads(run("cluster", "--json").stdout)["journals"] == gateway.journals


def test_places_are_named_behind_the_sentence(run: Run, gateway: FakeGateway) -> None:
    """Each where it is; what is wrong with the whole request was said by the sentence."""
    errors = [{"where": "", "what": "all of it"}, {"where": "/config/a", "what": "is not a setting"}]
    gateway.misbehave("POST", gateway.refuse(400, "INVALID_CONFIG", errors=errors))
    lines = run("topic", "create", "t").stderr.splitlines()
    assert [line for line in lines if "request id" not in line][1:] == ["  --config a: is not a setting"]


def test_a_typed_topic_is_created_and_described_by_its_subjects(run: Run, gateway: FakeGateway) -> None:
    """The options are the settings; a description names the subject and the column of values and of keys."""
    assert run("topic", "create", "orders", "--value-schema", "orders-value", "--key-schema", "k").exit_code == 0
    assert gateway.topics["orders"].config == {"value.schema": "orders-value", "key.schema": "k"}
    shown = run("topic", "describe", "orders").stdout
    assert "values   orders-value, in column data; 'tidelog schema show orders-value' shows it\n" in shown
    assert "keys     k, in column key_data; " in shown
    assert run("topic", "create", "plain").exit_code == 0
    assert "in column" not in run("topic", "describe", "plain").stdout
