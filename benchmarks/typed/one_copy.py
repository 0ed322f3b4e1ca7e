"""The same five-line SQL on a typed topic, and on a Kafka topic that a job of Spark copies into a typed Delta table.

The same client sends the same JSON documents to both, by Kafka's protocol. Measured are the time from a record's
acknowledgement to its typed row in the table's log, the bytes that are stored and moved, and the query. Dollars are those of
``infra/cost.py``, with the measured bytes. Spark's Kafka source and Delta sink make the copy; Kafka Connect is not measured.

``python -m benchmarks one-copy [--svg FILE] [--json] [--figures FILE]``
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.functions import from_json

from benchmarks.harness.pairs import commit_of
from benchmarks.harness.percentiles import percentile
from benchmarks.harness.processes import ROOT, Server, call, free_port, gateway, make_topic
from benchmarks.harness.report import Table, printed
from benchmarks.harness.stores import directory
from benchmarks.kafka.broker import Broker, broker
from benchmarks.spark.sources import started
from benchmarks.typed.one_copy_picture import SQL, Figures, draw
from benchmarks.typed.orders import FIELDS, order
from spark_pipeline.read import table_path

TOPIC: Final = "orders"
_DDL: Final = (
    "id BIGINT, amount DOUBLE, name STRING, at TIMESTAMP, quantity INT, is_paid BOOLEAN, parent BIGINT, city STRING"
)
PAUSE_SECONDS: Final = 0.05
WARM_UP_SHARE: Final = 0.3
"""Share of the records sent first, which are not counted: the JVM compiles."""
LOOK_SECONDS: Final = 0.02
ROWS_SECONDS_MAX: Final = 600
ROUNDS: Final = 5


def main(arguments: list[str]) -> int:
    """Measure, print, and draw the picture if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks one-copy")
    parser.add_argument("--records", type=int, default=200_000, help="sent at once, for the bytes and the query")
    parser.add_argument("--seconds", type=int, default=40, help="in which single records are sent, for the lag")
    parser.add_argument("--svg", type=Path, help="draw the picture into this file")
    parser.add_argument("--figures", type=Path, help="measure nothing: take what --json has written")
    parser.add_argument("--json", action="store_true", help="the figures as JSON on standard output")
    chosen = parser.parse_args(arguments)
    with printed(as_json=chosen.json):
        kept = None if chosen.figures is None else json.loads(chosen.figures.read_text())
        figures = _measured(chosen.records, chosen.seconds) if kept is None else Figures(**kept)
        _print(figures)
    if chosen.svg is not None:
        chosen.svg.write_text(draw(figures))
    if chosen.json:
        print(json.dumps(dataclasses.asdict(figures), indent=1))
    return 0


def _measured(records: int, seconds: int) -> Figures:
    scratch = Path(tempfile.mkdtemp(prefix="tidelog-bench-one-copy-"))
    address = f"127.0.0.1:{free_port()}"
    singles = range(records, records + int(seconds / PAUSE_SECONDS))
    try:
        with (
            directory() as store,
            broker() as kafka_broker,
            gateway(store, settings=["--kafka-listen", address]) as server,
        ):
            spark = started(store)
            spark.sparkContext.setLogLevel("ERROR")
            _make_typed(server)
            kafka_broker.make_topic(TOPIC)
            copy, topic = scratch / "copy", Path(table_path(store, TOPIC).removeprefix("file:"))
            sent_bytes = _send(kafka_broker.address, range(records))
            with _job(spark, kafka_broker, copy, scratch / "checkpoint"):
                _await_id(copy, "id", records - 1)
                before, began = DeltaTable(copy).version(), time.monotonic()
                theirs = _lags(kafka_broker.address, copy, "id", singles)
                batches = (DeltaTable(copy).version() - before) / (time.monotonic() - began)
            _send(address, range(records))
            ours = _lags(address, topic, "data.id", singles)
            _tidy(spark, store, copy)
            total_bytes = sent_bytes / records * (records + len(singles))
            query_ms = _query(spark, copy, topic)
            spark.stop()
            return Figures(
                records=records,
                value_bytes=sent_bytes / records,
                kafka_lag_ms=theirs,
                tidelog_lag_ms=ours,
                log_ratio=_bytes_below(kafka_broker.logging.parent / "log" / f"{TOPIC}-0") / total_bytes,
                copy_ratio=_table_bytes(copy) / total_bytes,
                topic_ratio=_table_bytes(topic) / total_bytes,
                batches_a_second=batches,
                kafka_query_ms=query_ms[0],
                tidelog_query_ms=query_ms[1],
                measured=f"{time.strftime('%Y-%m-%d')}, commit {commit_of(ROOT)}, load average {os.getloadavg()[1]:.1f}",
            )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _tidy(spark: SparkSession, store: str, copy: Path) -> None:
    """Merge the small files of both tables, each by its own means."""
    maintain = [sys.executable, "-m", "compaction", "--store", store, "--once", "--workers", "local"]
    subprocess.run(maintain, check=True, capture_output=True, timeout=300)
    spark.sql(f"optimize delta.`{copy}`")


def _make_typed(server: Server) -> None:
    fields = [{"name": name, "type": kind} for name, kind in FIELDS]
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    call(server.port, "POST", f"/registry/subjects/{TOPIC}-value/versions", {"schema": schema})
    make_topic(server.port, TOPIC, partitions=1, config={"value.schema": f"{TOPIC}-value", "commit.mode": "own"})


def _producer(address: str, linger_ms: int) -> Producer:
    return Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": linger_ms, "compression.type": "zstd"})


def _send(address: str, numbers: range) -> int:
    """Send the orders of these numbers in large batches, and return the bytes of their values."""
    producer, size = _producer(address, 50), 0
    for number in numbers:
        value = json.dumps(order(number)).encode()
        size += len(value)
        while True:
            try:
                producer.produce(TOPIC, value, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(300):
        raise RuntimeError("not every record was acknowledged")
    return size


@contextmanager
def _job(spark: SparkSession, kafka_broker: Broker, copy: Path, checkpoint: Path) -> Iterator[None]:
    """Run the job that makes typed rows of a Kafka topic's records, one micro-batch after the other without a pause."""
    options = {"kafka.bootstrap.servers": kafka_broker.address, "subscribe": TOPIC, "startingOffsets": "earliest"}
    records = spark.readStream.format("kafka").options(**options).load()
    parsed = records.select(
        "partition", "offset", "timestamp", from_json(records["value"].cast("string"), _DDL).alias("o")
    )
    rows = parsed.select("partition", "offset", "timestamp", "o.*")
    query = rows.writeStream.format("delta").option("checkpointLocation", str(checkpoint)).start(str(copy))
    try:
        yield
    finally:
        query.stop()


def _newest_id(table: DeltaTable, column: str) -> int:
    """Return the largest id of the table, by the statistics of its files; -1 without files."""
    actions, name = pa.table(table.get_add_actions(flatten=True)), f"max.{column}"
    found = pc.max(actions.column(name)).as_py() if name in actions.column_names else None
    return -1 if found is None else int(found)


def _await_id(path: Path, column: str, wanted: int) -> None:
    deadline = time.monotonic() + ROWS_SECONDS_MAX
    while not DeltaTable.is_deltatable(str(path)) or _newest_id(DeltaTable(path), column) < wanted:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the rows are not there after {ROWS_SECONDS_MAX} s")
        time.sleep(0.5)


def _lags(address: str, path: Path, column: str, numbers: range) -> list[float]:
    """Send single records, and return the milliseconds (p50, p99) from each one's acknowledgement until its row is in the table.

    A reader looks at the table's log every ``LOOK_SECONDS``, for both systems alike; a record that is there at the first look
    after its acknowledgement took that long at most.
    """
    acknowledged: dict[int, int] = {}
    seen: list[tuple[int, int]] = []
    table, is_over = DeltaTable(path), threading.Event()

    def acknowledge(number: int, *_: object) -> None:
        acknowledged[number] = time.time_ns()

    def look() -> None:
        while not is_over.is_set():
            table.update_incremental()
            seen.append((time.time_ns(), _newest_id(table, column)))
            time.sleep(LOOK_SECONDS)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        producer = _producer(address, 0)
        for number in numbers:
            producer.produce(
                TOPIC,
                json.dumps(order(number)).encode(),
                partition=0,
                on_delivery=partial(acknowledge, number),
            )
            producer.flush(60)
            time.sleep(PAUSE_SECONDS)
        deadline = time.monotonic() + ROWS_SECONDS_MAX
        while seen[-1][1] < numbers[-1] and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
    finally:
        is_over.set()
        looking.join()
    counted = numbers[int(len(numbers) * WARM_UP_SHARE) :]
    looks = iter(seen)
    at, newest = next(looks)
    waits = []
    for number in counted:
        while newest < number:
            at, newest = next(looks)
        waits.append(max(0.0, (at - acknowledged[number]) / 1e6))
    return [percentile(waits, fraction) for fraction in (0.5, 0.99)]


def _query(spark: SparkSession, copy: Path, topic: Path) -> tuple[float, float]:
    """Return the median milliseconds of the query on both tables, in turn. Raises ``RuntimeError`` if the answers differ."""
    texts = [SQL.format("", f"delta.`{copy}`"), SQL.format("data.", f"delta.`{topic}`")]
    took: list[list[float]] = [[], []]
    for _ in range(ROUNDS + 1):
        answers = []
        for text, spent in zip(texts, took, strict=True):
            began = time.perf_counter()
            answers.append([tuple(row) for row in spark.sql(text).collect()])
            spent.append((time.perf_counter() - began) * 1e3)
        if answers[0] != answers[1]:
            raise RuntimeError(f"the answers differ: {answers}")
    theirs, ours = (statistics.median(spent[1:]) for spent in took)
    return theirs, ours


def _table_bytes(path: Path) -> int:
    """Return the bytes of the table's present files."""
    return sum(pa.table(DeltaTable(path).get_add_actions(flatten=True)).column("size_bytes").to_pylist())


def _bytes_below(path: Path) -> int:
    """Return the bytes of the segments in a directory: Kafka makes its indices large beforehand."""
    return sum(one.stat().st_size for one in path.glob("*.log"))


def _print(figures: Figures) -> None:
    table = Table(
        "The same SQL on a Kafka topic with a Delta job, and on a typed topic", ["", "Kafka and a job", "Tidelog"]
    )
    for row in figures.rows():
        table.add(*row)
