"""A statement is one SELECT over topics, whatever else DuckDB could do. Its answer is bounded, with values as JSON has them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from gateway.sql.statement import Statement
from gateway.sql.task import ANSWER_BYTES_MAX, ROWS_MAX, StatementAnswer
from log_format.records.schema import RECORD_SCHEMA


def block(partition: int, offsets: range, value: bytes = b"v") -> pa.Table:
    rows = [
        {
            "partition": partition,
            "offset": offset,
            "timestamp": datetime(2026, 1, 1, tzinfo=UTC),
            "key": b"k%d" % offset,
            "value": value,
            "headers": [{"key": "h", "value": b"1"}],
        }
        for offset in offsets
    ]
    return pa.Table.from_pylist(rows, schema=RECORD_SCHEMA)


def answered(text: str, *blocks: pa.Table) -> StatementAnswer:
    statement = Statement()
    named = statement.parse(text)
    assert named.error is None, named.error
    assert statement.load({topic: list(blocks) for topic in named.topics}) is None
    return statement.run()


@pytest.fixture(scope="module")
def asked() -> Statement:
    """One that is only asked what it names."""
    return Statement()


def rows(found: StatementAnswer) -> list[list[Any]]:
    assert found.error is None
    made: list[list[Any]] = msgspec.json.decode(found.rows)
    return made


def test_a_typed_topic_has_its_columns() -> None:
    """Members as SQL has them, of every type that a column may have; also without records."""
    kinds: dict[str, tuple[pa.DataType, Any]] = {
        "n": (pa.int64(), 3), "money": (pa.decimal128(9, 2), Decimal("1.50")), "day": (pa.date32(), date(2026, 1, 31)),
        "at": (pa.timestamp("us", "UTC"), datetime(2026, 1, 31, tzinfo=UTC)), "raw": (pa.binary(), b"x"),
        "tags": (pa.list_(pa.string()), ["a"]), "counts": (pa.map_(pa.string(), pa.int32()), [("a", 1)]),
    }  # fmt: skip
    data = pa.struct([(name, kind) for name, (kind, _) in kinds.items()])
    typed = pa.array([{name: value for name, (_, value) in kinds.items()}], data)
    records = block(0, range(1)).append_column("data", typed).append_column("data_error", pa.nulls(1, pa.string()))
    found = answered("select data.*, data_error from t", records)
    assert rows(found) == [[3, "1.50", "2026-01-31", "2026-01-31T00:00:00+00:00", "x", ["a"], {"a": 1}, None]]
    assert rows(answered("select data.n from t", records.slice(0, 0))) == []
    assert rows(answered("select sum(data.n)::int from t", records, records.slice(0, 0))) == [[3]]


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("select * from t", ("t",)),
        ('from "a.b-c" join t using (partition)', ("a.b-c", "t")),
        ("with own as (select * from t) select * from OWN", ("t",)),
        ("select (select max(partition) from a) from range(10), (values (1)) v", ("a",)),
        ("describe t", ("t",)),
        ("select * from '/etc/passwd'", ("/etc/passwd",)),
        ("select 1", ()),
    ],
)
def test_the_topics_that_it_names(asked: Statement, text: str, topics: tuple[str, ...]) -> None:
    """All tables but its own, wherever they stand: whatever is no topic is asked for as one, and refused by the gateway."""
    named = asked.parse(text)
    assert (named.error, named.topics) == (None, topics)


@pytest.mark.parametrize(
    "text",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from READ_TEXT('/etc/passwd')",
        "select * from t where exists (select * from glob('/*'))",
        "with a as (select * from read_blob('/etc/passwd')) select * from a",
        "select * from parquet_scan('s3://b/k')",
        "select * from arrow_scan(1, 2, 3)",
        "select * from query('select 1')",
        "select * from json_execute_serialized_sql('{}')",
        "select * from duckdb_settings()",
        "select * from pragma_version()",
        "select * from information_schema.tables",
        "select * from other.main.t",
        "copy t to 'nowhere'",
        "copy (select 1) to 'nowhere' (format parquet)",
        "attach 'nowhere' as x",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "reset lock_configuration",
        "pragma version",
        "create table x as select 1",
        "drop view t",
        "insert into t values (1)",
        "export database 'nowhere'",
        "call pragma_version()",
        "explain analyze select 1",
        "select 1; select 2",
        "select 1; set threads = 8",
        "",
        ";",
        "-- nothing",
        "selec",
    ],
)
def test_what_is_no_question_about_topics_is_refused(asked: Statement, text: str) -> None:
    """Before any of it runs: other statements, more than one, files by any name, settings, other databases, addresses."""
    named = asked.parse(text)
    assert named.error
    assert named.topics == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select * from read_csv('/etc/passwd')", "disabled by configuration"),
        ("copy (select 1) to 'nowhere'", "disabled by configuration"),
        ("attach 'nowhere' as x", "disabled by configuration"),
        ("install httpfs", "disabled"),
        ("set enable_external_access = true", "locked"),
        ("set autoload_known_extensions = true", "locked"),
        ("set memory_limit = '10GB'", "locked"),
        ("set threads = 8", "locked"),
    ],
)
def test_duckdb_would_refuse_it_too(asked: Statement, text: str, said: str) -> None:
    """Were such a statement not recognized, DuckDB itself has no access and takes no setting."""
    asked.parse(text)
    error = asked.run().error
    assert error is not None
    assert said in error


def test_records_stand_in_order_in_their_columns() -> None:
    """Whatever the order in which blocks came; bytes that are no UTF-8 are null as text, and there as bytes."""
    found = answered("select * from t", block(1, range(2)), block(0, range(5, 7)), block(0, range(3, 5), b"\xff"))
    names = "topic partition offset timestamp key value headers key_bytes value_bytes"
    assert [column.name for column in found.columns] == names.split()
    assert [row[1:3] for row in rows(found)] == [[0, 3], [0, 4], [0, 5], [0, 6], [1, 0], [1, 1]]
    header = [{"key": "h", "value": "1"}]
    first = ["t", 0, 3, "2026-01-01T00:00:00+00:00", "k3", None, header, "k3", "\\xff"]
    assert rows(found)[0] == first
    assert rows(answered("select count(*) from t")) == [[0]]


def test_an_answer_is_cut_and_says_so() -> None:
    """At so many rows, and at so many bytes; a row that is larger than an answer is left out, too."""
    found = answered("select * from range(1000000000000)")
    assert (len(rows(found)), found.more) == (ROWS_MAX, True)
    assert not answered(f"select * from range({ROWS_MAX})").more
    found = answered("select repeat('x', 10000) from range(1000)")
    assert found.more
    assert ANSWER_BYTES_MAX - 20_000 < len(bytes(found.rows)) <= ANSWER_BYTES_MAX + 2
    found = answered(f"select repeat('x', {ANSWER_BYTES_MAX})")
    assert (rows(found), found.more) == ([], True)
    error = answered("select " + ", ".join(f'1 as "{"x" * 80}{n}"' for n in range(13_000))).error
    assert error == "The names of its columns exceed the limit of an answer."


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1.50::decimal(4, 2)", "1.50"),
        ("170141183460469231731687303715884105727", 170141183460469231731687303715884105727),
        ("'nan'::double", "nan"),
        ("'-inf'::float", "-inf"),
        ("interval 36 hour", "1 day, 12:00:00"),
        ("uuid '00000000-0000-0000-0000-000000000001'", "00000000-0000-0000-0000-000000000001"),
        ("[{'a': 1}]", [{"a": 1}]),
        ("map {1: date '2026-01-02'}", {"1": "2026-01-02"}),
        ("'infinity'::date", "9999-12-31"),
        ("null", None),
        ("true", True),
    ],
)
def test_values_are_as_json_has_them(expression: str, value: object) -> None:
    """What JSON has no word for is text."""
    assert rows(answered(f"select {expression}")) == [[value]]


def test_what_does_not_fit_into_memory_is_said() -> None:
    """In words that do not tell a caller to change a setting."""
    assert answered("select * from range(100000000) order by random()").error == "It exceeds its memory limit."
    assert "Binder Error" in str(answered("select nothing from t").error)
