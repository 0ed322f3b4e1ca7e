"""Topics as tables of a database: Spark's SQL finds them by name, and a name is all that a catalog has of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from log_format.errors import UnknownTopic
from log_format.topic.table_name import table_name
from spark_pipeline import register_tables
from tests.support.drained_stream import drain
from tests.support.topic_writer import TopicWriter

pytestmark = pytest.mark.spark

AT_MS = 1_763_683_200_123
Scenario = Callable[[SparkSession, str, Path, str], None]


@pytest.fixture
def database(spark: SparkSession) -> Iterator[str]:
    """A database that ends with the test; its tables' files stay."""
    yield "by_name"
    spark.sql("DROP DATABASE IF EXISTS by_name CASCADE")


def sql_and_streams_find_topics(spark: SparkSession, store_uri: str, tmp_path: Path, database: str) -> None:
    """A table has what is committed when the query runs, under the topic's name, or a name that a rule makes of it."""
    orders, shop = TopicWriter(store_uri, "orders"), TopicWriter(store_uri, "Shop.orders-2")
    orders.append([(0, AT_MS, b"k", b"1")])
    shop.append([(0, AT_MS, b"k", b"2"), (1, AT_MS, b"k", b"3")])
    other = table_name("Shop.orders-2")
    assert register_tables(spark, store_uri, database=database) == {"orders": "orders", other: "Shop.orders-2"}
    orders.append([(0, AT_MS, b"k", b"4")])
    assert _values(spark, f"{database}.orders") == [b"1", b"4"]
    assert _values(spark, f"{database}.{other}") == [b"2", b"3"]
    batches = drain(spark.readStream.table(f"{database}.orders"), tmp_path / "checkpoint")
    assert sorted(bytes(row["value"]) for batch in batches for row in batch) == [b"1", b"4"]


def a_later_call_adds_and_drops_names(spark: SparkSession, store: str, tmp_path: Path, database: str) -> None:
    """New topics get a name, deleted ones lose it; tables of other stores and of others stay, and a dropped name's topic too."""
    elsewhere = str(tmp_path / "elsewhere")
    first, gone = TopicWriter(store, "first"), TopicWriter(store, "gone")
    first.append([(0, AT_MS, None, b"1")])
    gone.append([(0, AT_MS, None, b"2")])
    TopicWriter(elsewhere, "theirs").append([(0, AT_MS, None, b"3")])
    register_tables(spark, store, database=database)
    register_tables(spark, elsewhere, database=database)
    spark.sql(f"CREATE VIEW {database}.seen AS SELECT 1 AS one")
    gone.delete()
    TopicWriter(store, "late").append([(0, AT_MS, None, b"5")])
    spark.sql(f"DROP TABLE IF EXISTS {database}.first")
    assert set(register_tables(spark, store, database=database)) == {"first", "late"}
    tables = {row.tableName for row in spark.sql(f"SHOW TABLES IN {database}").where("NOT isTemporary").collect()}
    assert tables == {"first", "late", "theirs", "seen"}
    assert _values(spark, f"{database}.first") == [b"1"]
    with pytest.raises(Py4JJavaError, match="DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"):
        spark.sql(f"DELETE FROM {database}.first")


def a_taken_name_is_refused(spark: SparkSession, store: str, tmp_path: Path, database: str) -> None:
    """Another store's topic is not replaced, and a missing topic is named."""
    elsewhere = str(tmp_path / "elsewhere")
    for place in (store, elsewhere):
        TopicWriter(place, "orders").append([(0, AT_MS, None, place.encode())])
    register_tables(spark, store, database=database)
    with pytest.raises(
        ValueError, match=rf"{database}\.orders is taken \(file:.*/a store/topics/orders\): choose another"
    ):
        register_tables(spark, elsewhere, database=database)
    assert _values(spark, f"{database}.orders") == [store.encode()]
    with pytest.raises(UnknownTopic, match="nothing"):
        register_tables(spark, store, database=database, topics=["nothing"])


def test_sql_and_streams_find_topics_by_name(
    spark: SparkSession, store_uri: str, tmp_path: Path, database: str
) -> None:
    """In a directory and in a bucket."""
    sql_and_streams_find_topics(spark, store_uri, tmp_path, database)


@pytest.mark.parametrize("scenario", [a_later_call_adds_and_drops_names, a_taken_name_is_refused])
def test_names_are_those_of_the_stores_topics(
    spark: SparkSession, tmp_path: Path, database: str, scenario: Scenario
) -> None:
    """And of nothing else: neither of other stores nor of tables that others made."""
    scenario(spark, str(tmp_path / "a store"), tmp_path, database)


def _copies(spark: SparkSession, database: str, table: str, path: str) -> None:
    """The table has the records of now."""
    spark.sql(f"CREATE TABLE {database}.{table} USING delta AS SELECT * FROM delta.`{path}`")


PLANTED: dict[str, tuple[Scenario, str, Any]] = {
    "a table is a copy": (sql_and_streams_find_topics, "_create", _copies),
    "each table counts as the store's": (a_later_call_adds_and_drops_names, "_same_place", lambda *_: True),
    "a name that is taken is not looked for": (a_taken_name_is_refused, "_locations", lambda *_: {}),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_seen(
    spark: SparkSession, tmp_path: Path, database: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these scenarios can fail."""
    scenario, target, fault = PLANTED[name]
    monkeypatch.setattr(f"spark_pipeline.by_name.{target}", fault)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        scenario(spark, str(tmp_path / "a store"), tmp_path, database)


def _values(spark: SparkSession, table: str) -> list[bytes]:
    return sorted(bytes(row["value"]) for row in spark.sql(f"SELECT value FROM {table}").collect())
