"""A topic whose rows stay in its table after they have left its log: real readers see log and archive as one table."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from log_format import layout
from log_format.stores import open_store
from spark_pipeline import read_topic
from tests.support.collected_events import CollectedEvents
from tests.support.topic_writer import TopicWriter

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000


class ArchivedTopic:
    """Topic ``t`` in a directory, of which the log keeps an hour and the table everything; readers of its table."""

    def __init__(self, directory: Path, spark: SparkSession, **config: str) -> None:
        self.directory = directory
        self.path = str(directory / "topics" / "t")
        self.spark = spark
        config = {"retention.ms": str(HOUR_MS), "table.retention.ms": "-1", **config}
        self.writer = TopicWriter(str(directory), "t", partition_count=1, config=config)
        self.count = 0

    def append(self, flushes: int, *, age_ms: int = 0) -> None:
        """So many commits of two records each, of this age; values count up."""
        for _ in range(flushes):
            now_ms = time.time_ns() // 1_000_000 - age_ms
            self.writer.append([(0, now_ms, b"k", b"v%d" % number) for number in range(self.count, self.count + 2)])
            self.count += 2

    def stream(self) -> list[bytes]:
        """What a Delta stream, which goes on where it was, has seen in all its runs."""
        source = self.spark.readStream.format("delta").option("ignoreDeletes", "true").load(self.path)
        target = str(self.directory / "seen")
        writing = source.select("value").writeStream.option("checkpointLocation", str(self.directory / "checkpoint"))
        writing.trigger(availableNow=True).format("parquet").start(target).awaitTermination()
        return sorted(bytes(row.value) for row in self.spark.read.parquet(target).collect())

    def read_by_each(self) -> dict[str, list[bytes]]:
        """Every value, sorted, by each reader."""
        table = DeltaTable(self.path)
        by_duckdb = duckdb.from_arrow(table.to_pyarrow_dataset()).select("value")
        return {
            "spark": sorted(bytes(row.value) for row in self.spark.read.format("delta").load(self.path).collect()),
            "deltalake": sorted(table.to_pyarrow_table()["value"].to_pylist()),
            "duckdb": sorted(value for (value,) in by_duckdb.fetchall()),
            "polars": sorted(polars.scan_delta(self.path).select("value").collect()["value"].to_list()),
        }

    @property
    def values(self) -> list[bytes]:
        return sorted(b"v%d" % number for number in range(self.count))


def test_readers_see_log_and_archive_as_one_table(
    spark: SparkSession, tmp_path: Path, maintain: Callable[[str], CollectedEvents]
) -> None:
    """At a checkpoint in two parts, after it, and at the next one, whose second part is a copy: each row once by each reader. A
    stream that began before sees no row again, and one that begins behind sees all. Tidelog's own reader sees the log."""
    topic = ArchivedTopic(tmp_path, spark)
    topic.append(3, age_ms=2 * HOUR_MS)
    topic.append(2)
    assert topic.stream() == topic.values
    assert [fields["segments"] for event, fields in maintain(str(tmp_path)).events if event == "archive"] == [3]
    store = open_store(tmp_path.as_uri())
    version = topic.writer.log.refresh().version
    parts = {layout.table_checkpoint_part_key("topics/t/", at, 2) for at in range(version + 1)}
    assert parts & {info.key for info in store.list("topics/t/_delta_log/")}
    assert topic.stream() == topic.values
    assert topic.read_by_each() == dict.fromkeys(("spark", "deltalake", "duckdb", "polars"), topic.values)
    topic.append(2)
    assert topic.stream() == topic.values
    assert topic.read_by_each() == dict.fromkeys(("spark", "deltalake", "duckdb", "polars"), topic.values)
    topic.append(100)
    maintain(str(tmp_path))
    assert topic.stream() == topic.values
    assert topic.read_by_each() == dict.fromkeys(("spark", "deltalake", "duckdb", "polars"), topic.values)
    offsets = sorted(row.offset for row in read_topic(spark, str(tmp_path), "t").select("offset").collect())
    assert offsets == list(range(6, topic.count))


def test_readers_see_each_row_once_when_the_archive_is_laid_out(
    spark: SparkSession, tmp_path: Path, maintain: Callable[[str], CollectedEvents]
) -> None:
    """Before and after a rewrite in another order, by each reader; a stream that saw the rows before sees none again."""
    topic = ArchivedTopic(tmp_path, spark, **{"table.cluster.by": "key,timestamp"})
    topic.append(20, age_ms=2 * HOUR_MS)
    topic.append(2)
    assert topic.stream() == topic.values
    events = maintain(str(tmp_path)).events
    assert {fields["outcome"] for event, fields in events if event == "lay out"} == {"committed"}
    assert topic.stream() == topic.values
    assert topic.read_by_each() == dict.fromkeys(("spark", "deltalake", "duckdb", "polars"), topic.values)
