"""``format("tidelog")`` writing: Kafka's columns, refusals, and each micro-batch in the topic once whatever is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from log_format.partitioner import partition_for_key
from log_format.stores import open_store
from spark_pipeline import read_topic
from spark_pipeline.sink.queries import QUERIES
from spark_pipeline.sink.stage import STAGED

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

Writer = Callable[..., Any]
START_MS = 1_763_683_200_123
COPY = Path(__file__).with_name("spark_copy.py")
KILLS = int(os.environ.get("TIDELOG_SPARK_KILLS", "1"))
RUN_SECONDS_MAX = 240


def fill(writer: Any, commits: int, of: int = 100) -> None:
    for commit in range(commits):
        writer.append([(n % 2, START_MS, b"%d" % n, b"%d" % n) for n in range(commit * of, (commit + 1) * of)])


def copying(spark: SparkSession, store: str, limit: int = 50) -> DataFrame:
    options = {"store": store, "subscribe": "from", "startingOffsets": "earliest", "maxOffsetsPerTrigger": limit}
    return spark.readStream.format("tidelog").options(**options).load().select("key", "value")


def run(records: DataFrame, store: str, checkpoint: Path, **options: object) -> None:
    writer = records.writeStream.format("tidelog").options(store=store, **options)
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def values(spark: SparkSession, store: str, topic: str) -> list[int]:
    return sorted(int(bytes(row["value"])) for row in read_topic(spark, store, topic).select("value").collect())


def test_a_job_appends_what_kafkas_sink_takes(spark: SparkSession, store_uri: str, topic_writer: Writer) -> None:
    """Strings and binaries, headers, partitions by column, by key and in turn, topics by column; nothing is left behind."""
    for topic in ("a", "b"):
        topic_writer(store_uri, topic, partition_count=4)
    rows = [
        ("a", "k1", "v1", [("h", bytearray(b"1")), ("h", None)], None),
        ("a", None, "v2", None, 3),
        ("b", "k1", None, [], 0),
        *(("b", None, str(n), None, None) for n in range(40)),
    ]
    schema = (
        "topic string, key string, value string, headers array<struct<key: string, value: binary>>, "
        "partition int, ignored int"
    )
    frame = spark.createDataFrame([(*row, 1) for row in rows], schema)
    frame.coalesce(1).write.format("tidelog").mode("append").option("store", store_uri).save()

    read = spark.read.format("tidelog").options(store=store_uri, subscribe="a,b", includeHeaders="true").load()
    found = {(row["topic"], row["value"] and bytes(row["value"])): row for row in read.collect()}
    assert len(found) == len(rows)
    first = found["a", b"v1"]
    assert (bytes(first["key"]), first["partition"]) == (b"k1", partition_for_key(b"k1", 4))
    assert [(header["key"], header["value"]) for header in first["headers"]] == [("h", b"1"), ("h", None)]
    assert (found["a", b"v2"]["key"], found["a", b"v2"]["partition"]) == (None, 3)
    assert (found["b", None]["partition"], found["b", None]["headers"]) == (0, [])
    assert {found["b", b"%d" % n]["partition"] for n in range(40)} == {0, 1, 2, 3}
    assert time.time() - first["timestamp"].timestamp() < 3600
    assert not list(open_store(store_uri).list(STAGED))


def test_what_is_wrong_is_refused(spark: SparkSession, tmp_path: Path, topic_writer: Writer) -> None:
    """By the option's or the column's name, before anything is written."""
    store = (tmp_path / "store").as_uri()
    topic_writer(store, "t", config={"max.message.bytes": 100})
    frame = spark.createDataFrame([("v" * 200, 7)], "value string, partition int")
    cases: list[tuple[DataFrame, dict[str, str], str]] = [
        (frame, {}, "topic: is missing"),
        (frame, {"topic": "t", "kafka.acks": "all"}, "kafka.acks: there is no such option"),
        (frame.drop("value"), {"topic": "t"}, "schema: has no column value"),
        (frame.selectExpr("1 as value"), {"topic": "t"}, "schema: column value is int, not binary or string"),
        (frame, {"topic": "nothing"}, "Topic 'nothing' does not exist"),
        (frame, {"topic": "t"}, "has no partition 7"),
        (frame.select("value"), {"topic": "t"}, "A record of 200 bytes is above max.message.bytes"),
        (frame.selectExpr("value", "cast(null as string) topic"), {}, "topic: a row has none"),
    ]
    for rows, options, message in cases:
        with pytest.raises(PySparkException, match=message):
            rows.write.format("tidelog").mode("append").options(store=store, **options).save()
    with pytest.raises(PySparkException, match="mode: a log is appended to"):
        frame.write.format("tidelog").mode("overwrite").options(store=store, topic="t").save()
    assert read_topic(spark, store, "t").count() == 0


def test_a_batch_that_is_repeated_changes_nothing(
    spark: SparkSession, store_uri: str, topic_writer: Writer, tmp_path: Path
) -> None:
    """The last batch again, as after a crash between its commit and Spark's note of it; then the stream goes on."""
    source, target = topic_writer(store_uri, "from"), topic_writer(store_uri, "to")
    fill(source, 2)
    run(copying(spark, store_uri), store_uri, tmp_path / "checkpoint", topic="to")
    assert values(spark, store_uri, "to") == list(range(200))
    version = target.log.refresh().version
    (tmp_path / "checkpoint" / "commits" / "3").unlink()
    (tmp_path / "checkpoint" / "commits" / ".3.crc").unlink(missing_ok=True)
    run(copying(spark, store_uri), store_uri, tmp_path / "checkpoint", topic="to")
    assert target.log.refresh().version == version
    fill(source, 3)
    run(copying(spark, store_uri), store_uri, tmp_path / "checkpoint", topic="to")
    assert sorted(values(spark, store_uri, "to")) == sorted([*range(200), *range(300)])


def test_a_query_that_rested_goes_on_and_one_in_doubt_is_refused(
    spark: SparkSession, tmp_path: Path, topic_writer: Writer
) -> None:
    """The topic has forgotten the query: its next batch is written; one that was under way is not written twice."""
    store = (tmp_path / "store").as_uri()
    source, target = topic_writer(store, "from"), topic_writer(store, "to", config={"producer.id.expiration.ms": 1})
    fill(source, 1)
    run(copying(spark, store), store, tmp_path / "checkpoint", topic="to")
    fill(source, 1)
    run(copying(spark, store, 100), store, tmp_path / "checkpoint", topic="to")
    assert target.log.refresh().high_watermark(0) + target.log.state.high_watermark(1) == 200
    newest = max(int(path.name) for path in (tmp_path / "checkpoint" / "commits").iterdir() if path.name.isdecimal())
    (tmp_path / "checkpoint" / "commits" / f"{newest}").unlink()
    (tmp_path / "checkpoint" / "commits" / f".{newest}.crc").unlink(missing_ok=True)
    with pytest.raises(PySparkException, match=f"has forgotten query .* whether its batch {newest} is in it"):
        run(copying(spark, store, 100), store, tmp_path / "checkpoint", topic="to")
    assert target.log.refresh().high_watermark(0) + target.log.state.high_watermark(1) == 200
    assert list(open_store(store).list(QUERIES))


@pytest.mark.timeout(600)
@pytest.mark.processes
def test_every_record_once_when_the_driver_is_killed(spark: SparkSession, topic_writer: Writer, tmp_path: Path) -> None:
    """A stream from topic to topic, its driver and executors killed at random moments and started again."""
    store = (tmp_path / "store").as_uri()
    source, target = topic_writer(store, "from"), topic_writer(store, "to")
    fill(source, 4)
    chosen = random.Random(7)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, str(COPY), store, str(tmp_path / "checkpoint")]
    for kill in range(KILLS + 1):
        log = tmp_path / f"run-{kill}.log"
        before = target.log.refresh().version
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                deadline = time.monotonic() + RUN_SECONDS_MAX
                enough = before + chosen.randint(2, 5)
                while process.poll() is None and time.monotonic() < deadline:
                    if kill < KILLS and target.log.refresh().version >= enough:
                        time.sleep(chosen.uniform(0, 0.3))  # anywhere in a batch, not always behind its commit
                        break
                    time.sleep(0.02)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if kill == KILLS:
            assert process.returncode == 0, log.read_text()
    assert values(spark, store, "to") == list(range(400))
    assert not list(open_store(store).list(STAGED))
