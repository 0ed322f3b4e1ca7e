"""``format("tidelog")`` writing: Kafka's columns, refusals, and each batch written once, on the store and through a gateway.

Drivers and gateways that are killed: ``tests/torture/test_spark_sink_kills.py``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from log_format.records.partitioner import partition_for_key
from log_format.stores import open_store
from log_format.transactions.staged_records import STAGED
from spark_pipeline import read_topic
from tests.support.gateway_process import running_gateway
from tests.support.topic_writer import TopicWriter
from tests.support.waiting import until

Target = dict[str, str]
STARTS_MAX = 5
START_MS = 1_763_683_200_123


@pytest.fixture(params=["store", "gateway"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Target]]:
    """A store, and the option with which the sink writes to it: straight, and through a gateway."""
    store = (tmp_path / "store").as_uri()
    if request.param == "store":
        yield store, {"store": store}
        return
    with running_gateway(store, tmp_path / "gateway.log") as gateway:
        # No gateway is at the first address: what it does not take the next one does.
        yield store, {"gateway": f"http://127.0.0.1:9,{gateway.url}"}


def fill(writer: TopicWriter, commits: int, of: int = 100) -> None:
    for commit in range(commits):
        writer.append([(n % 2, START_MS, b"%d" % n, b"%d" % n) for n in range(commit * of, (commit + 1) * of)])


def copying(spark: SparkSession, store: str, limit: int = 50) -> DataFrame:
    options: dict[str, Any] = {
        "store": store,
        "subscribe": "from",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": limit,
    }
    return spark.readStream.format("tidelog").options(**options).load().select("key", "value")


def run(records: DataFrame, target: Target, checkpoint: Path, **options: Any) -> None:
    writer = records.writeStream.format("tidelog").options(**target, **options)
    to_its_end(writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True))


def to_its_end(writer: DataStreamWriter) -> None:
    """Run the stream. Spark gives up a Python process that does not start within 10 seconds: then again, as anybody would."""
    for start in range(STARTS_MAX):
        try:
            writer.start().awaitTermination()
        except StreamingQueryException as failure:
            if "failed to connect back" not in str(failure) or start == STARTS_MAX - 1:
                raise
        else:
            return


def test_a_job_appends_what_kafkas_sink_takes(spark: SparkSession, target: tuple[str, Target]) -> None:
    """Strings and binaries, headers, partitions by column, by key and in turn, topics by column; nothing is left behind."""
    store_uri, option = target
    for topic in ("a", "b"):
        TopicWriter(store_uri, topic, partition_count=4)
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
    frame.coalesce(1).write.format("tidelog").mode("append").options(**option).save()

    read = spark.read.format("tidelog").options(store=store_uri, subscribe="a,b", includeHeaders="true").load()
    found = {(row["topic"], row["value"] and bytes(row["value"])): row for row in read.collect()}
    assert len(found) == len(rows)
    first = found["a", b"v1"]
    assert (bytes(first["key"]), first["partition"]) == (b"k1", partition_for_key(b"k1", 4))
    assert [(header["key"], header["value"]) for header in first["headers"]] == [("h", b"1"), ("h", None)]
    assert (found["a", b"v2"]["key"], found["a", b"v2"]["partition"]) == (None, 3)
    assert (found["b", None]["partition"], found["b", None]["headers"] or []) == (0, [])  # none is the same
    taken = {found["b", b"%d" % n]["partition"] for n in range(40)}
    assert taken == {0, 1, 2, 3} if "store" in option else len(taken) == 1  # gateways take turns by request
    assert time.time() - first["timestamp"].timestamp() < 3600
    # A gateway deletes behind its answer.
    until(lambda: not list(open_store(store_uri).list(STAGED)))


def test_what_is_wrong_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """By the option's or the column's name, before anything is written."""
    store = (tmp_path / "store").as_uri()
    TopicWriter(store, "t", config={"max.message.bytes": "100"})
    frame = spark.createDataFrame([("v" * 200, 7)], "value string, partition int")
    cases: list[tuple[DataFrame, dict[str, str], str]] = [
        (frame, {}, "topic: is missing"),
        (frame, {"topic": "t", "acks": "all"}, "acks: there is no such option"),
        (frame, {"gateway": "http://127.0.0.1:9"}, "gateway: is given beside store"),
        (frame, {"store": "", "gateway": "localhost:8080"}, "gateway: 'localhost:8080' is not http://host:port"),
        (frame.drop("value"), {"topic": "t"}, "schema: has no column value"),
        (frame.selectExpr("1 as value"), {"topic": "t"}, "schema: column value is int, not binary or string"),
        (frame, {"topic": "nothing"}, "Topic 'nothing' does not exist"),
        (frame, {"topic": "t"}, "has no partition 7"),
        (frame.select("value"), {"topic": "t"}, "A record of 200 bytes is above max.message.bytes"),
        (frame.selectExpr("value", "cast(null as string) topic"), {}, "topic: a row has none"),
    ]
    for rows, options, message in cases:
        with pytest.raises(PySparkException, match=message):
            rows.write.format("tidelog").mode("append").options(**{"store": store, **options}).save()
    with pytest.raises(PySparkException, match="mode: a log is appended to"):
        frame.write.format("tidelog").mode("overwrite").options(store=store, topic="t").save()
    assert read_topic(spark, store, "t").count() == 0


def values(spark: SparkSession, store: str, topic: str) -> list[int]:
    return sorted(int(bytes(row["value"])) for row in read_topic(spark, store, topic).select("value").collect())


def forget(checkpoint: Path, batch: int) -> None:
    """As if Spark had died between its sink's commit of the batch and its note of it."""
    (checkpoint / "commits" / f"{batch}").unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def test_a_batch_that_is_repeated_changes_nothing(
    spark: SparkSession, target: tuple[str, Target], tmp_path: Path
) -> None:
    """The last batch again, as after a crash between its commit and Spark's note of it, in both of its topics; then the stream
    goes on. A repeat that goes straight to the store knows what went through a gateway."""
    store, option = target
    source = TopicWriter(store, "from")
    targets = [TopicWriter(store, "left"), TopicWriter(store, "right")]
    fill(source, 2)
    both = copying(spark, store).selectExpr("key", "value", "explode(array('left', 'right')) topic")
    checkpoint = tmp_path / "checkpoint"
    run(both, option, checkpoint)
    assert [values(spark, store, topic) for topic in ("left", "right")] == [list(range(200))] * 2
    versions = [each.log.refresh().version for each in targets]
    forget(checkpoint, 3)
    run(both, option, checkpoint)
    assert [each.log.refresh().version for each in targets] == versions
    fill(source, 1)
    run(both, option, checkpoint)
    assert [values(spark, store, topic) for topic in ("left", "right")] == [sorted([*range(200), *range(100)])] * 2
    versions = [each.log.refresh().version for each in targets]
    forget(checkpoint, 5)
    run(both, {"store": store}, checkpoint)
    assert [each.log.refresh().version for each in targets] == versions
    until(lambda: not list(open_store(store).list(STAGED)))


def test_a_job_with_a_name_is_written_once(spark: SparkSession, target: tuple[str, Target], tmp_path: Path) -> None:
    """``txnAppId`` and ``txnVersion`` make ``foreachBatch`` exactly once, several writes in one batch, too; without them a job
    that is run again appends again, in a micro-batch as well."""
    store, option = target
    source = TopicWriter(store, "from")
    for topic in ("named", "other", "plain"):
        TopicWriter(store, topic)
    fill(source, 1)

    def each(rows: DataFrame, number: int) -> None:
        for topic in ("named", "other"):
            named = {"topic": topic, "txnAppId": "job", "txnVersion": str(number)}
            rows.write.format("tidelog").mode("append").options(**option, **named).save()
        for _ in range(2):
            rows.write.format("tidelog").mode("append").options(**option, topic="plain").save()

    stream = copying(spark, store, 1000).writeStream.foreachBatch(each)
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    to_its_end(stream)
    forget(tmp_path / "checkpoint", 0)
    to_its_end(stream)
    assert values(spark, store, "named") == values(spark, store, "other") == list(range(100))
    assert values(spark, store, "plain") == sorted(list(range(100)) * 4)
