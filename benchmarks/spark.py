"""Spark reading the same records from a topic and from Kafka, in one run: batch, AvailableNow stream, micro-batch latency."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import processes, spark_latency
from benchmarks.kafka.broker import broker, kept
from benchmarks.produce import make_topic
from benchmarks.report import Table
from benchmarks.spark_sources import TOPIC, Source, copy, fill_kafka, kafka, ours, started

RECORDS = 2_000_000
WARM_UPS = 2
RUNS = 3
LATENCY_RECORDS = 300
TUNED = {"kafka.fetch.max.wait.ms": "10"}


def measure() -> Iterator[Table]:
    """Three tables; one that says why there are none when Kafka's source is not there to compare with."""
    if not (kept() / "spark" / "complete").exists():
        missing = f"Not measured: no Spark source for Kafka in {kept()}; run scripts/kafka.sh spark."
        print(missing, flush=True)
        yield Table("Spark beside its Kafka source", ["source"], notes=[missing])
        return
    scratch = Path(tempfile.mkdtemp(prefix="tidelog-bench-spark-"))
    try:
        with processes.directory() as store, broker() as kafka_broker, processes.gateway(store) as gateway:
            spark = started(store)
            spark.sparkContext.setLogLevel("ERROR")
            fill_kafka(kafka_broker, RECORDS)
            theirs = kafka(spark, kafka_broker, {})
            records = theirs.batch().select("partition", "offset", "timestamp", "key", "value").toArrow()
            copy(records, store)
            sources = [theirs, *ours(spark, store)]
            yield _scans(sources)
            yield _streams(sources, scratch)
            table = Table(
                "Spark micro-batch, from acknowledgement to row, directory store",
                ["source", "p50 ms", "p90 ms", "p99 ms", "of a micro-batch, median ms"],
            )
            numbers = "numbers"
            make_topic(gateway.port, numbers)
            kafka_broker.make_topic(numbers)
            readers: list[tuple[str, str, dict[str, str], spark_latency.Send]] = [
                ('format("tidelog")', "tidelog", {"store": store}, spark_latency.by_gateway(gateway.port, numbers)),
            ]
            for name, more in (("Kafka's source", {}), ("Kafka's source, fetch.max.wait.ms=10", TUNED)):
                options = {"kafka.bootstrap.servers": kafka_broker.address, **more}
                readers.append((name, "kafka", options, spark_latency.by_kafka(kafka_broker.address, numbers)))
            for index, (name, form, options, send) in enumerate(readers):
                reader = spark.readStream.format(form).options(subscribe=numbers, startingOffsets="latest", **options)
                waits, parts = spark_latency.measure(reader.load(), scratch / f"latency-{index}", send, LATENCY_RECORDS)
                text = ", ".join(f"{part} {milliseconds}" for part, milliseconds in parts.items())
                table.add(name, *(f"{wait:.0f}" for wait in waits), text)
            yield table
            spark.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _scans(sources: list[Source]) -> Table:
    table = Table(
        f"Spark batch, sum(length(value)) over {RECORDS:,} records of 100 B, 8 partitions, local[2], directory store",
        ["source", "rows/s", "beside Kafka's source"],
    )

    def scan(source: Source) -> Callable[[], int]:
        def run() -> int:
            counted = source.batch().selectExpr("count(1)", "sum(length(value))").first()
            assert counted is not None
            return int(counted[0])

        return run

    return _rated(table, [(source.name, scan(source)) for source in sources])


def _streams(sources: list[Source], scratch: Path) -> Table:
    table = Table(
        f"Spark stream with AvailableNow into nothing, the same {RECORDS:,} records",
        ["source", "rows/s", "beside Kafka's source"],
    )

    def drain(source: Source) -> Callable[[], int]:
        def run() -> int:
            assert source.stream is not None
            checkpoint = tempfile.mkdtemp(dir=scratch)
            writer = source.stream().writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            return sum(progress["numInputRows"] for progress in query.recentProgress)

        return run

    return _rated(table, [(source.name, drain(source)) for source in sources if source.stream is not None])


def _rated(table: Table, runs: list[tuple[str, Callable[[], int]]]) -> Table:
    """Each run's median rate; they take turns, so that what else the machine does falls on all of them."""
    rates: dict[str, list[float]] = {name: [] for name, _ in runs}
    for index in range(WARM_UPS + RUNS):
        for name, run in runs:
            began = time.perf_counter()
            rows = run()
            seconds = time.perf_counter() - began
            if rows != RECORDS:
                raise RuntimeError(f"{name} gave {rows} of {RECORDS} records of {TOPIC}")
            if index >= WARM_UPS:
                rates[name].append(rows / seconds)
    floor = sorted(rates[runs[0][0]])[RUNS // 2]
    for name, measured in rates.items():
        rate = sorted(measured)[RUNS // 2]
        table.add(name, f"{rate:,.0f}", f"{rate / floor:.1f} x")
    return table
