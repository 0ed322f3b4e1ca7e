"""Topics as tables of a database of Spark's session catalog, so that SQL finds them by name: ``SELECT … FROM tidelog.orders``.

1. A table is external: dropping it drops a name, never a record. Delta refuses every write to it (``docs/table.md``).
2. The names live as long as the session's catalog: Spark's own forgets them with the session, a Hive metastore keeps them.
3. Queries and streams see what is committed when they run. Topics that are made or deleted later are seen by the next
   ``register_tables``.
4. A table's location says whose it is: tables of others in the database are never touched.

Absent: records that only a journal has (``read_topic`` reads them); log starts; columns of Spark's Kafka source.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pyspark.sql import SparkSession

from log_format.topic.table_name import table_name
from spark_pipeline.driver_store import driver_store
from spark_pipeline.read import table_path
from spark_pipeline.source.options import Subscription
from spark_pipeline.source.topics import Topics

DATABASE: Final = "tidelog"
"""The database, if the caller names none."""

_REGISTRATIONS_AT_ONCE: Final = 4
"""Concurrent ``CREATE TABLE`` statements: each waits for a look at the table's log."""


_LOCATION: Final = re.compile(r"^Location: (.*)$", re.MULTILINE)


def register_tables(
    spark: SparkSession, store: str, *, database: str = DATABASE, topics: Collection[str] | None = None
) -> dict[str, str]:
    """Make the store's topics tables of ``database``, which is made if it does not exist. A repeated call adds new topics, and
    drops the names of topics that are gone.

    Args:
        spark: session that can read the store (``session`` makes one).
        store: ``s3://bucket/prefix`` or a directory.
        database: name of the database in Spark's current catalog.
        topics: names of the topics to register; None: all. Other tables stay registered.

    Returns:
        The topic of each table that was asked for, by the table's name (``log_format.topic.table_name``).

    Raises ``UnknownTopic`` for a missing topic of ``topics``, ``ValueError`` where a table's name is taken by another table or
    another topic, ``StoreUnavailable``, ``CorruptData``.
    """
    names = _existing(spark, store, topics)
    tables: dict[str, str] = {}
    for topic in names:
        other = tables.setdefault(table_name(topic), topic)
        if other != topic:
            raise ValueError(
                f"topics {other!r} and {topic!r} have the same table name {table_name(topic)!r}: name one in topics="
            )
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {_quoted(database)}")
    registered = _locations(spark, database)
    paths = {table: table_path(store, topic) for table, topic in tables.items()}
    for table, path in paths.items():
        if registered.get(table, path) != path:
            raise ValueError(f"{database}.{table} is taken ({registered[table]}): choose another database=")
    if topics is None:
        for table in registered.keys() - tables.keys():
            if _same_place(registered[table], table_path(store, "any")):
                spark.sql(f"DROP TABLE IF EXISTS {_quoted(database)}.{_quoted(table)}")
    with ThreadPoolExecutor(_REGISTRATIONS_AT_ONCE, thread_name_prefix="tidelog-tables") as pool:
        new = [table for table in tables if table not in registered]
        for made in [pool.submit(_create, spark, database, table, paths[table]) for table in new]:
            made.result()
    return tables


def _existing(spark: SparkSession, store: str, topics: Collection[str] | None) -> list[str]:
    """Return the sorted names of the topics to register. Raises ``UnknownTopic``."""
    wanted = Subscription(pattern=".*") if topics is None else Subscription(topics=tuple(topics))
    looked = Topics(driver_store(spark, store), wanted)
    try:
        return sorted(looked.look().states)
    finally:
        looked.close()


def _locations(spark: SparkSession, database: str) -> dict[str, str]:
    """Return the location of each table of the database; of a view, ``a view``."""
    rows = spark.sql(f"SHOW TABLE EXTENDED IN {_quoted(database)} LIKE '*'").where("NOT isTemporary").collect()
    return {row.tableName: _location(row.information) for row in rows}


def _same_place(path: str, other: str) -> bool:
    """Return whether two tables are of one store."""
    return path.rpartition("/")[0] == other.rpartition("/")[0]


def _location(information: str) -> str:
    """Return what Spark's description of a table says of its place."""
    found = _LOCATION.search(information)
    return found.group(1) if found else "a view"


def _create(spark: SparkSession, database: str, table: str, path: str) -> None:
    escaped = path.replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {_quoted(database)}.{_quoted(table)} USING delta LOCATION '{escaped}'")


def _quoted(name: str) -> str:
    """Return the name as an identifier of Spark's SQL."""
    return f"`{name.replace('`', '``')}`"
