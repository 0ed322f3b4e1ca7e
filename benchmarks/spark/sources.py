"""The sources that are compared, all reading the same records: Kafka's, ``format("tidelog")``, and Delta on the same topic.

Beside them stands one that reads nothing (``at_hand``).

The records are produced to a Kafka broker by Kafka's own program and read back. The format's own committer then writes them to a
topic with the same partitions and order, in segments as large as a gateway's under full load.
"""

from __future__ import annotations

import compileall
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

import log_format
import spark_pipeline
from benchmarks.harness.report import Table
from benchmarks.harness.topic import WrittenTopic
from benchmarks.kafka.broker import Broker, kept
from benchmarks.kafka.produce import performance
from benchmarks.spark.at_hand import AtHandSource
from log_format.records.schema import BATCH_SCHEMA
from log_format.stores import open_store
from spark_pipeline import Way, read_topic, session, stream_topic
from spark_pipeline.read import table_path

FEW = "few"
MANY = "many"
COUNTS = {FEW: 500_000, MANY: 5_000_000}
"""Topics, and their numbers of records."""
VALUE_BYTES = 100
SEGMENT_RECORDS = 100_000


@dataclass(frozen=True, slots=True)
class Source:
    """A way to a topic's records: ``batch`` gives all, ``stream`` the same from the earliest on; None: not measured."""

    name: str
    batch: Callable[[str], DataFrame]
    stream: Callable[[str], DataFrame] | None


def not_measured(title: str) -> Table | None:
    """Return the table that says why nothing is measured, and print it; None if Kafka's source is installed."""
    if (kept() / "spark" / "complete").exists():
        return None
    missing = f"Not measured: no Spark source for Kafka in {kept()}; run scripts/kafka.sh spark."
    print(missing, flush=True)
    return Table(title, ["source"], notes=[missing])


def started(store: str) -> SparkSession:
    """Start a session with two cores, with Kafka's source if installed, and with our code compiled, as pip installs it."""
    for package in (log_format, spark_pipeline):
        compileall.compile_dir(package.__path__[0], quiet=1)
    return session(
        store,
        app_name="benchmarks",
        master="local[2]",
        config={
            "spark.driver.memory": "4g",
            "spark.driver.maxResultSize": "2g",
            "spark.driver.extraClassPath": f"{kept() / 'spark'}/*",
        },
    )


def kafka(spark: SparkSession, broker: Broker, options: Mapping[str, str], name: str = "Kafka's source") -> Source:
    """Return Spark's Kafka source, with its defaults except ``options``."""
    given = {"kafka.bootstrap.servers": broker.address, "startingOffsets": "earliest", **options}
    return Source(
        name,
        lambda topic: spark.read.format("kafka").options(**given, subscribe=topic).load(),
        lambda topic: spark.readStream.format("kafka").options(**given, subscribe=topic).load(),
    )


def ours(spark: SparkSession, store: str) -> list[Source]:
    """Return ``format("tidelog")`` with every column and with values only, Delta's reader, ``read_topic``, Parquet's reader."""
    given = {"store": store, "startingOffsets": "earliest"}

    def source(name: str, schema: str | None) -> Source:
        def of(reader: DataFrameReader | DataStreamReader, topic: str) -> DataFrame:
            configured = reader.format("tidelog").options(**given, subscribe=topic)
            return (configured if schema is None else configured.schema(schema)).load()

        return Source(name, lambda topic: of(spark.read, topic), lambda topic: of(spark.readStream, topic))

    return [
        source('format("tidelog")', None),
        source('format("tidelog"), value only', "value binary"),
        Source(
            'format("delta")',
            lambda topic: spark.read.format("delta").load(table_path(store, topic)),
            lambda topic: stream_topic(spark, store, topic),
        ),
        Source("read_topic", lambda topic: read_topic(spark, store, topic), None),
        Source("read_topic, Way.PARQUET", lambda topic: read_topic(spark, store, topic, way=Way.PARQUET), None),
    ]


def at_hand(spark: SparkSession) -> list[Source]:
    """Return a source in Python without a store: the floor of ``format("tidelog")``."""
    spark.dataSource.register(AtHandSource)

    def source(name: str, schema: str | None) -> Source:
        def of(reader: DataFrameReader | DataStreamReader, topic: str) -> DataFrame:
            configured = reader.format(AtHandSource.name()).options(rows=COUNTS[topic])
            return (configured if schema is None else configured.schema(schema)).load()

        return Source(name, lambda topic: of(spark.read, topic), lambda topic: of(spark.readStream, topic))

    return [source("Python, batches at hand", None), source("Python, batches at hand, value only", "value binary")]


def fill_kafka(broker: Broker, topic: str) -> None:
    """Produce the topic's records, by Kafka's own program."""
    broker.make_topic(topic)
    performance(broker, topic, COUNTS[topic], VALUE_BYTES, batch_bytes=65_536)


def copy(records: pa.Table, store: str, topic: str, *, segment_records: int = SEGMENT_RECORDS) -> None:
    """Copy Kafka's records (``partition, offset, timestamp, key, value``) to our topic, each to its place."""
    written = WrittenTopic(open_store(store), topic)
    # Partitions side by side, as produced: each segment has a piece of every partition.
    ordered = records.sort_by([("offset", "ascending"), ("partition", "ascending")])
    for first in range(0, ordered.num_rows, segment_records):
        part = ordered.slice(first, segment_records).combine_chunks()
        columns = [part.column(name).cast(BATCH_SCHEMA.field(name).type) for name in ("timestamp", "key", "value")]
        table = pa.table([*columns, pa.nulls(part.num_rows, BATCH_SCHEMA.field("headers").type)], schema=BATCH_SCHEMA)
        partitions = np.asarray(part.column("partition").to_numpy(), np.int32)
        written.append(table, partitions, VALUE_BYTES)
