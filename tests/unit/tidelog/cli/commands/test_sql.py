"""``tidelog sql``, over the in-process gateway: topics are tables, and what is not asked for is not read."""

from __future__ import annotations

import json

import pytest

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog import Record
from tidelog.cli.terminal.exit_code import ExitCode


@pytest.fixture
def filled(gateway: FakeGateway) -> FakeGateway:
    gateway.create("orders", 2)
    for partition in range(2):
        gateway.topics["orders"].records[partition] = [
            Record(
                "orders",
                partition,
                offset,
                1_700_000_000_000 + offset,
                b"k%d" % offset,
                b'{"n": %d}' % offset,
                (("h", b"1"),),
            )
            for offset in range(5)
        ]
    gateway.create("odd-topic.1").records[0] = [
        Record("odd-topic.1", 0, 0, 1_700_000_000_000, None, b"\xff"),
        Record("odd-topic.1", 0, 1, 1_700_000_000_000, b"k1", b"\x1b[2J"),
    ]
    gateway.create("empty")
    return gateway


def rows(run: Run, query: str, *options: str) -> list[dict[str, object]]:
    result = run("sql", query, "--json", *options)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_topic_is_a_table(run: Run, filled: FakeGateway) -> None:
    """All partitions, each record once, in its columns; a time is in UTC; JSON values can be looked into."""
    (row,) = rows(run, 'select * from orders where partition = 1 and "offset" = 3')
    assert row == {
        "topic": "orders", "partition": 1, "offset": 3, "timestamp": "2023-11-14T22:13:20.003000+00:00",
        "key": "k3", "value": '{"n": 3}', "headers": [{"key": "h", "value": "1"}], "key_bytes": "k3", "value_bytes": '{"n": 3}',
    }  # fmt: skip
    assert rows(run, 'select count(*) as n, count(distinct "offset") as d from orders') == [{"n": 10, "d": 5}]
    assert rows(run, "select sum((value->>'n')::int)::int as total from orders") == [{"total": 20}]
    assert rows(run, "select count(*) as n from empty") == [{"n": 0}]


def test_several_topics_and_one_of_them_twice(run: Run, filled: FakeGateway) -> None:
    """A join reads each topic once, whatever the query does with it; names that SQL has to quote work."""
    query = (
        'with odd as (select * from "odd-topic.1") select count(*) as n from orders a '
        'join orders b using (partition, "offset") join odd c on c."key" = a."key"'
    )
    assert rows(run, query) == [{"n": 2}]


def test_bytes_that_are_no_text_are_null_as_text(run: Run, filled: FakeGateway) -> None:
    """The bytes are there all the same; on a terminal nothing of a record is acted upon."""
    query = 'select value is null as is_null, octet_length(value_bytes) as n from "odd-topic.1" order by "offset"'
    assert rows(run, query) == [{"is_null": True, "n": 1}, {"is_null": False, "n": 4}]
    shown = run("sql", 'select value from "odd-topic.1"')
    assert "\\x1b[2J" in shown.stdout
    assert "\x1b[2J" not in shown.stdout


def test_a_stretch_of_a_topic(run: Run, filled: FakeGateway) -> None:
    """``--from`` and ``--until``, as consume has them."""
    assert rows(run, "select count(*) as n from orders", "--from", "1", "--until", "3") == [{"n": 4}]
    assert rows(run, "select count(*) as n from orders", "--from", "-1") == [{"n": 2}]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("select nothing from orders", ExitCode.USAGE),
        ("selec", ExitCode.USAGE),
        ("select * from nope", ExitCode.REFUSED),
    ],
)
def test_what_is_wrong_is_said(run: Run, filled: FakeGateway, query: str, code: int) -> None:
    """A query that DuckDB refuses is wrong usage; a topic that is not there is the gateway's refusal."""
    result = run("sql", query)
    assert result.exit_code == code
    assert result.stderr


def test_memory_is_bounded(run: Run, filled: FakeGateway) -> None:
    """What DuckDB may hold is a setting; text that is no size is refused."""
    limit = "select current_setting('memory_limit') as it from orders limit 1"
    assert rows(run, limit, "--memory", "100MB") == [{"it": "95.3 MiB"}]
    assert run("sql", limit, "--memory", "much").exit_code == ExitCode.USAGE


def test_without_duckdb_it_says_what_to_install(run: Run, filled: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is optional."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run("sql", "select 1")
    assert (result.exit_code, result.stderr) == (1, "SQL needs duckdb, numpy, pyarrow: pip install 'tidelog[sql]'\n")
