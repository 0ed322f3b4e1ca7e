"""What Tab offers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.fake_gateway import FakeGateway
from tidelog.cli.sql import topic_database
from tidelog.cli.sql.completion import Completion
from tidelog.cli.sql.shell import Shell
from tidelog.cli.sql.topic_database import TopicDatabase


@pytest.fixture
def complete(topics: TopicDatabase, gateway: FakeGateway) -> Completion:
    """Completes lines over the topics orders, shop.eu and my-topic, of which orders was used."""
    for name in ("shop.eu", "my-topic"):
        gateway.create(name)
    topics.execute("describe orders").fetchall()
    topics.execute('create table Sums as select 1 as total, 2 as "offset"').fetchall()
    topics.execute(
        """create table quaint as select 1 as "customer name", 2 as "left", 3 as "say ""hi"" now" """
    ).fetchall()
    return Shell(topics).completion()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("select * from o", ["orders"]),
        ("select * from s", ['"shop.eu"', "Sums"]),
        ("FROM my", ['"my-topic"']),
        ('from "my-t', ['topic"']),
        ('from "sh', ['"shop.eu"']),
        ("select val", ["value", "value_bytes", "values"]),
        ("select o.val", ["o.value", "o.value_bytes"]),
        ("select to", ["to", "to_base", "to_base64", "to_binary", "topic", "total"]),
        ("select offs", ['"offset"', "offset"]),
        ("select cust", ['"customer name"']),
        ("select o.cust", ['o."customer name"']),
        ('select o."cust', ['o."customer name"']),
        ('select "customer n', ['name"']),
        ("select lef", ['"left"', "left"]),
        ("select say", ['"say ""hi"" now"']),
        ('select "say ""hi"" n', ['now"']),
        ("SELE", ["SELECT"]),
        ("sele", ["select"]),
        ("select sum(par", ["parallel", "parse_dirname", "partition"]),
        (".ti", [".timer"]),
        (".timer o", ["off", "on"]),
        (".mode ", ["csv", "duckbox", "json", "line", "markdown", "table"]),
        (".schema ord", ["orders"]),
        (".quit ", []),
    ],
)
def test_the_words_that_fit_the_line(complete: Completion, line: str, offered: list[str]) -> None:
    """Tables behind from, SQL's words in the case in which they begin, names in quotes where SQL needs them."""
    found = complete(line)
    assert set(offered) <= set(found)
    assert len(found) == len(set(found))
    if line.lower().rpartition(" ")[0].endswith("from") or line.startswith("."):
        assert found == offered, "nothing else"


def test_names_are_asked_for_once_in_a_while(complete: Completion, gateway: FakeGateway) -> None:
    """A user who presses Tab at each word does not ask the gateway each time."""
    complete("select o")
    before = len(gateway.asked)
    assert complete("from o") == ["orders"]
    assert len(gateway.asked) == before


def test_files_are_offered_where_a_command_takes_one(
    complete: Completion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What replaces the last word only: a name may have a delimiter of SQL in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("my-report.sql", "my-rows.sql", "other.sql", "sub/one.sql"):
        (tmp_path / name).touch()
    assert complete(".read my-r") == ["report.sql", "rows.sql"]
    assert complete(".read su") == ["sub/"]
    assert complete(".read sub/") == ["one.sql"]


def test_members_of_typed_columns_have_paths() -> None:
    """Those of structs in structs, too; a list has none that a path could name."""
    inner = pa.struct([pa.field("zip", pa.int32())])
    column = pa.field("data", pa.struct([("id", pa.int64()), ("address", inner), ("tags", pa.list_(inner))]))
    paths = [("data", "id"), ("data", "address"), ("data", "address", "zip"), ("data", "tags")]
    assert list(topic_database._paths(column)) == paths
    assert list(topic_database._paths(pa.field("key", pa.string()))) == []


def test_members_of_odd_names_are_offered_in_quotes(
    topics: TopicDatabase, complete: Completion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step of a path by itself, whether the user has begun the quotes or not; what is offered is valid."""
    names = {"customer name": 1, "order": 2, "plain": 3, 'a"b': 4}
    struct = pa.struct([(name, pa.int64()) for name in names])
    paths = [".".join(map(topics.written, path)) for path in topic_database._paths(pa.field("data", struct))]
    monkeypatch.setattr(topics, "members", lambda: paths)
    assert complete("select data.cust") == ['data."customer name"']
    assert complete('select data."cust') == ['data."customer name"']
    assert complete("select data.ord") == ['data."order"']
    assert complete("select data.pl") == ["data.plain"]
    assert complete("select data.a") == ['data."a""b"']
    connection = topics._database
    connection.register("typed", pa.table({"data": pa.array([names], struct)}))
    assert connection.execute(f"select {', '.join(paths)} from typed").fetchall() == [(1, 2, 3, 4)]
