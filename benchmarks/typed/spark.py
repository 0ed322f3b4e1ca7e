"""What columns save Spark: a sum with a filter over two of eight fields, from ``data``, from ``from_json(value)`` and from Kafka.

The same documents are in a typed topic, in segments as large as a gateway's under full load, and in a Kafka topic. A second table
has the time from acknowledgement to row, of a typed and of an untyped topic.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness.options import Options
from benchmarks.harness.processes import Server, call, gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import directory
from benchmarks.harness.topic import PARTITIONS, new_id, records_of
from benchmarks.kafka.broker import Broker, broker
from benchmarks.spark import latency
from benchmarks.spark.rates import cpu_seconds
from benchmarks.spark.sources import not_measured, started
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.stores import open_store
from log_format.topic.append import Append, Batch
from spark_pipeline import Way, read_topic

SEGMENT_RECORDS: Final = 100_000
ROUNDS: Final = 2
RATIO_MIN: Final = 8
BYTES_SHARE_MAX: Final = 0.15
LATENCY_RECORDS: Final = 200
LATENCY_TURNS: Final = 3
_TOPIC: Final = "orders"
_SUBJECT: Final = "orders-value"
_FIELDS: Final = {
    "id": "long",
    "amount": "double",
    "name": "string",
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "quantity": "int",
    "is_paid": "boolean",
    "order": "long",
    "city": "string",
}
_TWO_FIELDS: Final = "amount double, quantity int"
_PARSED: Final = f"from_json(cast(value as string), '{_TWO_FIELDS}') as data"
_EXACT_READS: Final = {
    "parquet.hadoop.vectored.io.enabled": "false",
    "fs.file.impl.disable.cache": "true",
    "io.file.buffer.size": "4096",
}
"""Settings by which Hadoop counts what is read of local files: it does not count vectored reads, and reads 64 KiB ahead."""
_CITIES: Final = ("Berlin", "Paris", "Rome")


def measure(options: Options) -> Iterator[Table]:
    """Yield two tables; or one that says why there are none, without Kafka's source to compare with."""
    if (missing := not_measured("Typed topics in Spark")) is not None:
        yield missing
        return
    scratch = Path(tempfile.mkdtemp(prefix="tidelog-bench-typed-"))
    try:
        with directory() as store, broker() as kafka_broker, gateway(store) as server:
            schema = {"type": "record", "name": "Order", "fields": [{"name": n, "type": t} for n, t in _FIELDS.items()]}
            call(server.port, "POST", f"/registry/subjects/{_SUBJECT}/versions", {"schema": json.dumps(schema)})
            make_topic(server.port, _TOPIC, partitions=PARTITIONS, config={"value.schema": _SUBJECT})
            kafka_broker.make_topic(_TOPIC)
            _fill(store, kafka_broker, options.records)
            spark = started(store)
            spark.sparkContext.setLogLevel("ERROR")
            yield _sums(spark, store, kafka_broker, options.records)
            yield _latencies(spark, store, server, scratch)
            spark.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _document(number: int, dice: random.Random) -> bytes:
    paid = "true" if dice.random() < 0.5 else "false"
    return (
        f'{{"id":{number},"amount":{dice.randrange(100_000) / 100},"name":"user{dice.randrange(100_000)}",'
        f'"at":"2026-11-28T12:{dice.randrange(60):02d}:{dice.randrange(60):02d}Z","quantity":{dice.randrange(7)},'
        f'"is_paid":{paid},"order":{dice.randrange(10**9)},"city":"{dice.choice(_CITIES)}"}}'
    ).encode()


def _fill(store: str, kafka_broker: Broker, count: int) -> None:
    """Write the documents into both topics, each to the same partition."""
    opened, clock = open_store(store), SystemClock()
    log = TopicLog(opened, _TOPIC, clock)
    state = log.refresh()
    committer = Committer(log, new_id=new_id)
    readers = StoredReaders(opened, clock).newest(state.config.subjects)
    dice = random.Random(7)
    producer = Producer({"bootstrap.servers": kafka_broker.address, "linger.ms": 50, "batch.size": 1_000_000})
    for first in range(0, count, SEGMENT_RECORDS):
        values = [_document(number, dice) for number in range(first, min(count, first + SEGMENT_RECORDS))]
        partitions = np.arange(len(values), dtype=np.int32) % PARTITIONS
        for value, partition in zip(values, partitions.tolist(), strict=True):
            producer.produce(_TOPIC, value, partition=partition)
        producer.flush()
        records = records_of(values)
        typed, misfits = readers.typed(records)
        if misfits:
            raise RuntimeError(f"a document does not fit: {misfits[0]}")
        batch = Batch(
            topic_id=str(state.topic_id),
            records=records,
            partitions=partitions,
            record_bytes_max=max(map(len, values)),
            typed=typed,
            subjects=state.config.subjects,
        )
        (outcome,) = committer.commit(Append([batch], new_id)).result
        if isinstance(outcome, Exception):
            raise outcome


def _sums(spark: SparkSession, store: str, kafka_broker: Broker, count: int) -> Table:
    table = Table(
        f"Spark: sum(amount) where quantity = 3, {count:,} records of eight fields, {PARTITIONS} partitions, local[2]",
        ["source", "seconds", "CPU s", "beside from_json, same reader (CPU)", "beside Kafka's (CPU)", "MB read"],
        notes=[
            f"Means of {ROUNDS} rounds after one to warm up, by turns. CPU includes all processes, also the broker.",
            "Bytes are those of files that Spark's JVM read; what Python or the broker read is not counted.",
            f"Bounds: {RATIO_MIN} times as fast, {BYTES_SHARE_MAX:.0%} of the bytes.",
        ],
    )
    narrow = spark.read.format("tidelog").options(store=store, subscribe=_TOPIC)
    theirs = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka_broker.address)
    theirs = theirs.options(subscribe=_TOPIC, startingOffsets="earliest")

    def ways(way: Way) -> Callable[[], DataFrame]:
        return lambda: read_topic(spark, store, _TOPIC, way=way)

    delta, parquet = ways(Way.DELTA), ways(Way.PARQUET)
    ours = 'format("tidelog")'
    sources: dict[str, tuple[Callable[[], DataFrame], str]] = {
        "Kafka's source, from_json": (lambda: theirs.load().selectExpr(_PARSED), ""),
        f"{ours}, from_json": (lambda: narrow.schema("value binary").load().selectExpr(_PARSED), ""),
        f"{ours}, data": (
            lambda: narrow.schema("data struct<amount: double, quantity: int>").load(),
            f"{ours}, from_json",
        ),
        "Delta's reader, from_json": (lambda: delta().selectExpr(_PARSED), ""),
        "Delta's reader, data": (delta, "Delta's reader, from_json"),
        "Parquet's reader, from_json": (lambda: parquet().selectExpr(_PARSED), ""),
        "Parquet's reader, data": (parquet, "Parquet's reader, from_json"),
    }
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in sources}
    sums: set[float] = set()
    for _ in range(ROUNDS + 1):
        for name, (read, _base) in sources.items():
            began, cpu = time.perf_counter(), cpu_seconds()
            row = _asked(read()).first()
            seconds[name].append((time.perf_counter() - began, cpu_seconds() - cpu))
            assert row is not None
            sums.add(round(row[0], 2))
    if len(sums) != 1:
        raise RuntimeError(f"the sources differ: {sums}")
    means = {
        name: [statistics.mean(column) for column in zip(*found[1:], strict=True)] for name, found in seconds.items()
    }
    first = means[next(iter(sources))]
    size = {name: _bytes_read(spark, _asked(read())) for name, (read, _base) in sources.items()}
    for name, (_read, base) in sources.items():
        share = f" ({size[name] / size[base]:.0%})" if base and size[base] else ""
        table.add(
            name,
            f"{means[name][0]:.2f}",
            f"{means[name][1]:.2f}",
            _times(means[base], means[name]) if base else "",
            _times(first, means[name]),
            f"{size[name] / 1e6:.1f}{share}",
        )
    return table


def _times(slower: list[float], faster: list[float]) -> str:
    seconds, cpu = (one / other for one, other in zip(slower, faster, strict=True))
    return f"{seconds:.1f} x ({cpu:.1f} x)"


def _asked(records: DataFrame) -> DataFrame:
    return records.where("data.quantity = 3").selectExpr("sum(data.amount)")


def _bytes_read(spark: SparkSession, records: DataFrame) -> int:
    """Return the bytes of files that the JVM asks for in a query."""
    for name, value in _EXACT_READS.items():
        spark.conf.set(name, value)
    files = spark.sparkContext._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
    before = sum(one.getBytesRead() for one in files.getAllStatistics())
    records.collect()
    for name in _EXACT_READS:
        spark.conf.unset(name)
    return int(sum(one.getBytesRead() for one in files.getAllStatistics()) - before)


def _latencies(spark: SparkSession, store: str, server: Server, scratch: Path) -> Table:
    table = Table(
        "Spark micro-batch, from acknowledgement to row, directory store",
        ["topic", "p50 ms", "p90 ms", "p99 ms"],
        notes=[f"Medians of {LATENCY_TURNS} turns."],
    )
    topics = {
        "untyped, get_json_object(value)": ("", "value binary", "get_json_object(cast(value as string), '$.id')"),
        "typed, data.id": (_SUBJECT, "data struct<id: bigint>", "cast(data.id as string)"),
    }
    found: dict[str, list[list[float]]] = {name: [] for name in topics}
    for turn in range(LATENCY_TURNS):
        for index, (name, (subject, columns, number)) in enumerate(topics.items()):
            topic = f"latency-{turn}-{index}"
            make_topic(server.port, topic, config={"value.schema": subject} if subject else {})
            reader = spark.readStream.format("tidelog").schema(columns)
            reader = reader.options(store=store, subscribe=topic, startingOffsets="latest")
            rows = reader.load().selectExpr(f"cast({number} as binary) as value")
            send = latency.by_gateway(server.port, topic, _value)
            waits, _parts = latency.measure(rows, scratch / topic, send, LATENCY_RECORDS)
            found[name].append(waits)
    for name, turns in found.items():
        table.add(name, *(f"{statistics.median(column):.0f}" for column in zip(*turns, strict=True)))
    return table


def _value(number: int) -> Any:
    return json.loads(_document(number, random.Random(number)))
