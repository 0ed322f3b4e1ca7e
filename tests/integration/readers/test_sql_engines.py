"""docs/sql.md: six engines read one topic while it is written, each the same records at the same version of the table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import delta_sharing
import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from log_format.iceberg.data_file import snapshot_id
from spark_pipeline import register_tables
from tests.support.iceberg_reader import iceberg_catalog
from tests.support.shared_tables import COLUMNS, SharedTables, crc, shared_tables

LOOKS = 3


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedTables]:
    """A gateway on a directory, with a caller that may read."""
    with shared_tables(tmp_path_factory.mktemp("engines")) as made:
        yield made


@pytest.mark.spark
def test_engines_agree_on_a_topic_that_is_written(tables: SharedTables, spark: SparkSession) -> None:
    """Number of records and checksum, at versions that the catalog names while a producer goes on; none sees too few."""
    topic = tables.topic(2)
    path = f"{tables.gateway.store}/topics/{topic}"
    catalog = iceberg_catalog(tables.gateway.url, token=tables.http.headers["authorization"].removeprefix("Bearer "))
    with _producer(tables, topic) as sent:
        for _ in range(LOOKS):
            acknowledged = sent()
            table = catalog.load_table(("topics", topic))
            version = int(table.properties["tidelog.version"])
            by_arrow = {
                "deltalake": DeltaTable(path, version=version).to_pyarrow_table(),
                "pyiceberg": table.scan(snapshot_id=snapshot_id(version)).to_arrow(),
                "duckdb": _by_duckdb(path, version),
                "polars": polars.scan_delta(path, version=version).collect().to_arrow(),
                "spark": _by_spark(spark, path, version),
            }
            found = {name: _crc(rows) for name, rows in by_arrow.items()}
            found["delta sharing"] = tables.by_client(topic, version=version)
            assert len(set(found.values())) == 1, found
            assert found["deltalake"][0] >= acknowledged


@pytest.mark.spark
def test_names_and_loads_find_what_is_newest(tables: SharedTables, spark: SparkSession) -> None:
    """Each engine's first look after an acknowledgement, as the page writes it, counts the record."""
    topic = tables.topic(1)
    tables.produce(topic, "a", "b", "c")
    path = f"{tables.gateway.store}/topics/{topic}"
    orders = DeltaTable(path).to_pyarrow_dataset()
    assert duckdb.execute("SELECT count(*) FROM orders").fetchall() == [(3,)]
    assert polars.scan_delta(path).filter(polars.col("offset") >= 1).collect().height == 2
    assert len(delta_sharing.load_as_pandas(f"{tables.profile}#tidelog.topics.{topic}")) == 3
    (name,) = register_tables(spark, tables.gateway.store, database="engines", topics=[topic])
    try:
        assert spark.sql(f"SELECT count(*) FROM engines.{name}").collect()[0][0] == 3
    finally:
        spark.sql("DROP DATABASE engines CASCADE")
    assert orders.count_rows() == 3


@contextmanager
def _producer(tables: SharedTables, topic: str) -> Iterator[Callable[[], int]]:
    """A producer that sends until the block ends; it gives a call that tells how many records are acknowledged."""
    ended, sent = threading.Event(), [0]

    def run() -> None:
        while not ended.is_set():
            tables.produce(topic, f"v{sent[0]}", f"w{sent[0]}")
            sent[0] += 2
            ended.wait(0.02)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: sent[0]
    finally:
        ended.set()
        thread.join()


def _by_duckdb(path: str, version: int) -> pa.Table:
    rows = DeltaTable(path, version=version).to_pyarrow_dataset()
    return duckdb.from_arrow(rows).project("*").to_arrow_table()


def _by_spark(spark: SparkSession, path: str, version: int) -> pa.Table:
    place = Path(path).as_uri() if path.startswith("/") else path
    return spark.read.format("delta").option("versionAsOf", version).load(place).toArrow()


def _crc(rows: pa.Table) -> tuple[int, int]:
    # DuckDB names the zone Etc/UTC.
    index = rows.schema.get_field_index("timestamp")
    rows = rows.set_column(index, "timestamp", rows.column(index).cast(pa.timestamp("us", "UTC")))
    return crc({name: rows.column(name).to_pylist() for name in COLUMNS})
