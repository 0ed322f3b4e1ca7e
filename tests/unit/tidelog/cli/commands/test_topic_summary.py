"""``tidelog topic summary``: topics in any order, and the sums of all."""

from __future__ import annotations

import json

import pytest

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog.admin import Admin
from tidelog.cli.terminal.exit_code import ExitCode

FIGURES = {"partition_count": 4, "records": 1_200, "size_bytes": 5_000, "segments": 7}
ANSWER = {
    "topics": [
        {"name": "orders", **FIGURES, "rate": 41.6, "lag": 30, "group_count": 2, "groups": [{"group": "g", "lag": 30}]},
        {"name": "audit", **FIGURES, "rate": None, "lag": None, "group_count": 0, "groups": []},
    ],
    "damaged": [{"name": "torn", "error_code": "CORRUPT_SEGMENT", "detail": "It has lost a segment."}],
    "total": {
        "topics": 9, "looked_at": 7, "damaged": 1, "partitions": 20, "records": 10_000, "size_bytes": 77_000,
        "segments": 50, "rate": 50.0,
    },
}  # fmt: skip


def test_topics_and_sums(run: Run, gateway: FakeGateway) -> None:
    """Rates and lags that are not known are dashes; damaged topics, and what the sums leave out, are said."""
    gateway.will_answer("GET /v1/topics:summary", ANSWER)
    result = run("topic", "summary")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["topic", "partitions", "records", "bytes", "segments", "in/s", "groups", "lag"],
        ["orders", "4", "1,200", "5,000", "7", "42", "2", "30"],
        ["audit", "4", "1,200", "5,000", "7", "-", "0", "-"],
        [],
        ["topics", "damaged", "partitions", "records", "bytes", "segments", "in/s"],
        ["9", "1", "20", "10,000", "77,000", "50", "50"],
    ]
    assert "Topic torn is damaged: It has lost a segment." in result.stderr
    assert "leave out 2 topics" in result.stderr
    gateway.will_answer("GET /v1/topics:summary", ANSWER)
    found = json.loads(run("topic", "summary", "--json").stdout)
    assert (found["total"], found["topics"][0]["groups"][0]["lag"]) == (ANSWER["total"], 30)


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ((), {"sort": "name", "order": "asc", "skip": "0", "limit": "20"}),
        (("ord", "--sort", "size", "-n", "5", "--skip", "5"), {"search": "ord", "order": "desc", "skip": "5"}),
        (("--sort", "lag", "--reverse"), {"sort": "lag", "order": "asc"}),
        (("--reverse",), {"sort": "name", "order": "desc"}),
        (("--unread",), {"read": "none"}),
        (("--group", "billing"), {"read": "by", "group": "billing"}),
    ],
)
def test_options_are_the_routes_parameters(
    run: Run, gateway: FakeGateway, typed: tuple[str, ...], asked: dict[str, str]
) -> None:
    """Numbers begin with the largest, names with a, unless they are reversed."""
    gateway.will_answer("GET /v1/topics:summary", ANSWER)
    assert run("topic", "summary", *typed).exit_code == 0
    assert gateway.asked[-1].query.items() >= asked.items()


def test_unread_topics_of_a_group_are_none(run: Run, gateway: FakeGateway) -> None:
    """The contradiction is said instead of asked."""
    assert run("topic", "summary", "--unread", "--group", "g").exit_code == ExitCode.USAGE
    with Admin(gateway.url) as admin, pytest.raises(ValueError, match="exclude each other"):
        admin.summarize_topics(unread=True, group="g")
    assert not gateway.asked
