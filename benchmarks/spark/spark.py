"""Spark reading the same records from a topic and from Kafka: batch, AvailableNow stream, micro-batch latency."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from benchmarks.harness.options import Options
from benchmarks.harness.processes import Server, gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import directory
from benchmarks.harness.topic import PARTITIONS
from benchmarks.kafka.broker import Broker, broker
from benchmarks.spark import latency as spark_latency
from benchmarks.spark.costs import costs
from benchmarks.spark.rates import Measured, rated
from benchmarks.spark.sources import (
    COUNTS,
    FEW,
    MANY,
    Source,
    at_hand,
    copy,
    fill_kafka,
    kafka,
    not_measured,
    ours,
    started,
)

LATENCY_RECORDS = 300
TUNED = {"kafka.fetch.max.wait.ms": "10"}
TABLE_SECONDS_MAX = 150
"""No further turn of a table begins after that: the whole stays below twelve minutes, even on a busy machine."""
_COPIED: Final = ("partition", "offset", "timestamp", "key", "value")
NOTE: Final = (
    "Medians of alternating runs of the sources. `before the first record` and `then rows/s` come from the line through both "
    "sizes. CPU includes all processes, also the broker."
)


def measure(_options: Options) -> Iterator[Table]:
    """Yield four tables; or one that says why there are none, without Kafka's source to compare with."""
    if (missing := not_measured("Spark beside its Kafka source")) is not None:
        yield missing
        return
    scratch = Path(tempfile.mkdtemp(prefix="tidelog-bench-spark-"))
    try:
        with directory() as store, broker() as kafka_broker, gateway(store) as server:
            spark = started(store)
            spark.sparkContext.setLogLevel("ERROR")
            theirs = kafka(spark, kafka_broker, {})
            for topic in (MANY, FEW):
                fill_kafka(kafka_broker, topic)
                records = theirs.batch(topic).select(*_COPIED).toArrow()
                copy(records, store, topic)
            sources = [theirs, *ours(spark, store), *at_hand(spark)]
            yield _scans(sources)
            yield _streams(sources, scratch)
            yield _latencies(spark, store, server, kafka_broker, scratch)
            yield costs(spark, store, records)
            spark.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _scans(sources: list[Source]) -> Table:
    def scan(source: Source, topic: str) -> Callable[[], int]:
        def run() -> int:
            counted = source.batch(topic).selectExpr("count(1)", "sum(length(value))").first()
            assert counted is not None
            return int(counted[0])

        return run

    return _rated("Spark batch, sum(length(value))", sources, scan)


def _streams(sources: list[Source], scratch: Path) -> Table:
    def drain(source: Source, topic: str) -> Callable[[], int]:
        def run() -> int:
            assert source.stream is not None
            checkpoint = tempfile.mkdtemp(dir=scratch)
            writer = source.stream(topic).writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            return sum(progress["numInputRows"] for progress in query.recentProgress)

        return run

    streaming = [source for source in sources if source.stream is not None]
    return _rated("Spark stream with AvailableNow into nothing", streaming, drain)


def _latencies(spark: SparkSession, store: str, server: Server, broker: Broker, scratch: Path) -> Table:
    table = Table(
        "Spark micro-batch, from acknowledgement to row, directory store",
        ["source", "p50 ms", "p90 ms", "p99 ms", "of a micro-batch, median ms"],
    )
    numbers = "numbers"
    make_topic(server.port, numbers)
    broker.make_topic(numbers)
    readers: list[tuple[str, str, dict[str, str], spark_latency.Send]] = [
        ('format("tidelog")', "tidelog", {"store": store}, spark_latency.by_gateway(server.port, numbers)),
    ]
    for name, more in (("Kafka's source", {}), ("Kafka's source, fetch.max.wait.ms=10", TUNED)):
        options = {"kafka.bootstrap.servers": broker.address, **more}
        readers.append((name, "kafka", options, spark_latency.by_kafka(broker.address, numbers)))
    for index, (name, form, options, send) in enumerate(readers):
        reader = spark.readStream.format(form).options(subscribe=numbers, startingOffsets="latest", **options)
        waits, parts = spark_latency.measure(reader.load(), scratch / f"latency-{index}", send, LATENCY_RECORDS)
        text = ", ".join(f"{part} {milliseconds}" for part, milliseconds in parts.items())
        table.add(name, *(f"{wait:.0f}" for wait in waits), text)
    return table


def _rated(what: str, sources: list[Source], run: Callable[[Source, str], Callable[[], int]]) -> Table:
    measured = [Measured(name=source.name, few=run(source, FEW), many=run(source, MANY)) for source in sources]
    title = f"{what}: records of 100 B, {PARTITIONS} partitions, local[2], directory store"
    return rated(title, measured, (COUNTS[FEW], COUNTS[MANY]), TABLE_SECONDS_MAX, notes=[NOTE])
