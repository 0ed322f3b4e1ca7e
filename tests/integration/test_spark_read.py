"""Topics through Spark, in a directory and on S3: Kafka's columns, every record, once."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from log_format import layout
from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.errors import RequestRefused, UnknownTopic
from log_format.records.schema import BATCH_SCHEMA
from log_format.topic import producer_id
from log_format.topic.changes import AlterTopic
from log_format.topic.producers import ProducerStamp
from spark_pipeline import Way, read_topic, stream_topic
from spark_pipeline.jobs import flight_delays
from spark_pipeline.record_checksum import summary
from tests.support.drained_stream import drain
from tests.support.topic_writer import TopicWriter

pytestmark = pytest.mark.spark

START_MS = 1_763_683_200_123
FEW = [(0, START_MS, b"k", b"v"), (1, START_MS + 1, None, b"\xff\x00"), (0, START_MS + 2, b"", None)]


def places(rows: list[Row]) -> list[tuple[int, int]]:
    return sorted((row["partition"], row["offset"]) for row in rows)


@pytest.mark.parametrize("way", Way)
def test_a_topic_reads_as_its_records_with_kafkas_columns(spark: SparkSession, store_uri: str, way: Way) -> None:
    """Names, order and types are those of Spark's Kafka source with includeHeaders, and every byte is as it was sent."""
    writer = TopicWriter(store_uri, "t")
    writer.append(FEW)
    headers = [[("a", b"1"), ("a", None)], None]
    with_headers = {"timestamp": [START_MS * 1000] * 2, "key": [b"h"] * 2, "value": [b"h"] * 2, "headers": headers}
    writer.append_table(pa.table(with_headers, schema=BATCH_SCHEMA), [1, 1])

    records = read_topic(spark, store_uri, "t", way=way)
    assert [(field.name, field.dataType) for field in records.schema] == [
        ("key", BinaryType()),
        ("value", BinaryType()),
        ("topic", StringType()),
        ("partition", IntegerType()),
        ("offset", LongType()),
        ("timestamp", TimestampType()),
        ("timestampType", IntegerType()),
        ("headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))),
    ]
    rows = records.selectExpr("*", "unix_millis(timestamp) AS timestamp_ms").orderBy("partition", "offset").collect()
    assert [
        (row["partition"], row["offset"], row["timestamp_ms"], _bytes(row["key"]), _bytes(row["value"])) for row in rows
    ] == [
        (0, 0, START_MS, b"k", b"v"),
        (0, 1, START_MS + 2, b"", None),
        (1, 0, START_MS + 1, None, b"\xff\x00"),
        (1, 1, START_MS, b"h", b"h"),
        (1, 2, START_MS, b"h", b"h"),
    ]
    assert {(row["topic"], row["timestampType"]) for row in rows} == {("t", 0)}
    assert [(header["key"], _bytes(header["value"])) for header in rows[3]["headers"]] == [("a", b"1"), ("a", None)]


def test_a_version_reads_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """A query over one version gives the same answer for ever, whatever is appended."""
    writer = TopicWriter(str(tmp_path), "t")
    writer.append(FEW)
    version = writer.log.state.version
    writer.append(FEW)
    assert read_topic(spark, str(tmp_path), "t", version=version).count() == 3
    assert read_topic(spark, str(tmp_path), "t").count() == 6


@pytest.mark.parametrize("way", Way)
def test_records_below_a_log_start_are_not_read(spark: SparkSession, tmp_path: Path, way: Way) -> None:
    """Also where their segment is still there; what comes later is read, in partitions that come later, too.

    Not by ``Way.PARQUET``, whose records are those of the call.
    """
    writer = TopicWriter(str(tmp_path), "t", partition_count=3)
    writer.append(FEW)
    writer.append(FEW)
    writer.delete_records({0: 3})
    records = read_topic(spark, str(tmp_path), "t", way=way)
    writer.committer.commit(AlterTopic(partition_count=4, config={}))
    writer.append([(3, START_MS, None, b"new")])
    later = [] if way is Way.PARQUET else [(3, 0)]
    assert places(records.collect()) == [(0, 3), (1, 0), (1, 1), *later]


def test_segments_are_read_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """An empty topic has none; a directory's name is no pattern; a version has names of its own."""
    store = str(tmp_path / "a[b]{c} %20=d")
    writer = TopicWriter(store, "t")
    assert read_topic(spark, store, "t", way=Way.PARQUET).collect() == []
    writer.append(FEW)
    assert places(read_topic(spark, store, "t", way=Way.PARQUET).collect()) == [(0, 0), (0, 1), (1, 0)]
    for way in (Way.PARQUET, Way.TIDELOG):
        with pytest.raises(ValueError, match="a version is read"):
            read_topic(spark, store, "t", version=1, way=way)


def test_a_stream_gives_each_record_once_across_a_restart(spark: SparkSession, store_uri: str, tmp_path: Path) -> None:
    """A query that comes back to its checkpoint goes on behind it: nothing again, nothing left out."""
    writer = TopicWriter(store_uri, "t")
    writer.append(FEW)
    writer.append(FEW)
    checkpoint = f"{store_uri}/checkpoint" if store_uri.startswith("s3://") else tmp_path / "checkpoint"

    before = drain(stream_topic(spark, store_uri, "t", max_files_per_trigger=1), checkpoint)
    assert [places(rows) for rows in before] == [[(0, 0), (0, 1), (1, 0)], [(0, 2), (0, 3), (1, 1)]]
    writer.append(FEW)
    after = drain(stream_topic(spark, store_uri, "t"), checkpoint)
    assert [places(rows) for rows in after] == [[(0, 4), (0, 5), (1, 2)]]
    assert drain(stream_topic(spark, store_uri, "t"), checkpoint) == []


def test_a_stream_goes_on_when_old_records_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    """Retention removes segments that the stream has read long ago: that is no reason to stop it."""
    writer = TopicWriter(str(tmp_path), "t")
    writer.append(FEW)
    writer.append(FEW)
    assert sum(len(rows) for rows in drain(stream_topic(spark, str(tmp_path), "t"), tmp_path / "checkpoint")) == 6
    writer.delete_records({0: 2, 1: 1})
    writer.append(FEW)
    after = drain(stream_topic(spark, str(tmp_path), "t"), tmp_path / "checkpoint")
    assert places([row for rows in after for row in rows]) == [(0, 4), (0, 5), (1, 2)]
    assert places(read_topic(spark, str(tmp_path), "t", way=Way.DELTA).collect())[0] == (0, 2)


def test_a_stream_can_begin_at_a_version(spark: SparkSession, tmp_path: Path) -> None:
    """A query that wants only new records need not read a year first."""
    writer = TopicWriter(str(tmp_path), "t")
    writer.append(FEW)
    writer.append(FEW)
    version = writer.log.state.version
    batches = drain(stream_topic(spark, str(tmp_path), "t", starting_version=version), tmp_path / "checkpoint")
    assert places([row for rows in batches for row in rows]) == [(0, 2), (0, 3), (1, 1)]


def test_a_checkpoint_with_producers_reads_as_any_other(spark: SparkSession, store_uri: str, tmp_path: Path) -> None:
    """G9: what a checkpoint says of producers, and their tags, are nothing to Spark; it needs no commit below it."""
    writer = TopicWriter(store_uri, "t")
    producer = producer_id.issue(producer_id.PLAIN, START_MS, "0" * 20, b"key")
    for sequence in range(3):
        writer.append(FEW, stamp=ProducerStamp(producer, 0, sequence))
    store, version = writer.log.store, writer.log.state.version
    write_checkpoint(store, "t", version, START_MS)
    for covered in range(version + 1):
        store.delete(layout.commit_key("t", covered))
    writer.append(FEW, stamp=ProducerStamp(producer, 0, 3))

    expected = [(0, offset) for offset in range(8)] + [(1, offset) for offset in range(4)]
    assert places(read_topic(spark, store_uri, "t", way=Way.DELTA).collect()) == expected
    checkpoint = f"{store_uri}/checkpoint" if store_uri.startswith("s3://") else tmp_path / "checkpoint"
    batches = drain(stream_topic(spark, store_uri, "t"), checkpoint)
    assert places([row for rows in batches for row in rows]) == expected


@pytest.mark.parametrize("way", Way)
def test_timestamps_of_the_gateway_say_so(spark: SparkSession, tmp_path: Path, way: Way) -> None:
    """``timestampType`` is Kafka's: 1 where the log's own clock stamped the records."""
    TopicWriter(str(tmp_path), "t", config={"message.timestamp.type": "LogAppendTime"}).append(FEW)
    rows = read_topic(spark, str(tmp_path), "t", way=way).select("timestampType").distinct().collect()
    assert [row["timestampType"] for row in rows] == [1]


def test_a_topic_that_is_not_there_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    """Never made, deleted, or impossible: said as such, before any job runs."""
    TopicWriter(str(tmp_path), "gone").delete()
    for read in (read_topic, stream_topic):
        for topic in ("never", "gone"):
            with pytest.raises(UnknownTopic):
                read(spark, str(tmp_path), topic)
        with pytest.raises(RequestRefused):
            read(spark, str(tmp_path), "../t")


def test_the_checksum_is_the_one_that_anybody_can_compute(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's expression and the definition in ``record_checksum`` agree, nulls, empty values and time zones included."""
    writer = TopicWriter(str(tmp_path), "t")
    writer.append(FEW)
    expected = [
        zlib.crc32(text)
        for text in (
            b"0/0/%d/1/1/kv" % START_MS,
            b"0/1/%d/0/-1/" % (START_MS + 2),
            b"1/0/%d/-1/2/\xff\x00" % (START_MS + 1),
        )
    ]
    row = summary(read_topic(spark, str(tmp_path), "t")).first()
    assert row is not None
    exclusive_or = expected[0] ^ expected[1] ^ expected[2]
    assert (row["count"], row["checksum_sum"], row["checksum_xor"]) == (3, sum(expected), exclusive_or)


def test_flights_are_summed_up_by_partition_hour_and_carrier(spark: SparkSession, tmp_path: Path) -> None:
    """The job's transform on a handful of flights: cancelled ones count but don't delay, what is no flight is kept apart."""
    writer = TopicWriter(str(tmp_path), "t")
    values = [
        b'{"hour":5,"carrier":"UA","dep_delay":4,"dest":"IAH"}',
        b'{"hour":5,"carrier":"UA","dep_delay":-2}',
        b'{"hour":5,"carrier":"UA","dep_delay":null}',
        b'{"hour":6,"carrier":"AA","dep_delay":7}',
        b"not json",
        None,
    ]
    writer.append([(0, START_MS, b"k", value) for value in values])
    rows = flight_delays.delays(flight_delays.parse_flights(read_topic(spark, str(tmp_path), "t"))).collect()
    found = {
        (row["hour"], row["carrier"]): (row["count"], row["flights"], row["departed"], row["delay_minutes"])
        for row in rows
    }
    assert found == {(5, "UA"): (3, 3, 2, 2.0), (6, "AA"): (1, 1, 1, 7.0), (None, None): (2, 0, 0, None)}
    assert flight_delays.summarize(rows)["next_offsets"] == {"0": 6}


def test_a_session_needs_no_jar_from_the_maven_cache(tmp_path: Path) -> None:
    """Where ~/.m2 holds poms without their jars (an IDE or a build left them), Spark's own resolution fails; ours does not ask.

    Everything from nothing: an empty cache, a home of its own, a process of its own.
    """
    for group, artifact, version in (
        ("org.slf4j", "slf4j-api", "2.0.17"),
        ("org.antlr", "antlr4-runtime", "4.13.1"),
        ("io.delta", "delta-storage", "4.4.0"),
        ("io.delta", "delta-spark_4.2_2.13", "4.4.0"),
    ):
        directory = tmp_path / "home" / ".m2" / "repository" / group.replace(".", "/") / artifact / version
        directory.mkdir(parents=True)
        (directory / f"{artifact}-{version}.pom").write_text(
            f"<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId>"
            f"<artifactId>{artifact}</artifactId><version>{version}</version></project>"
        )
    TopicWriter(str(tmp_path / "store"), "t").append(FEW)
    program = (
        "import sys; from spark_pipeline import read_topic, session; spark = session(sys.argv[1], master='local[1]'); "
        "print('records:', read_topic(spark, sys.argv[1], 't').count()); spark.stop()"
    )
    home = str(tmp_path / "home")
    environment = os.environ | {
        "HOME": home,
        "TIDELOG_CACHE": str(tmp_path / "cache"),
        "JAVA_TOOL_OPTIONS": f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Duser.home={home}".strip(),
    }
    answer = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "store")],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert answer.stdout.strip().endswith("records: 3"), answer.stderr[-3000:]
    assert " WARN " not in answer.stderr
    assert len(list((tmp_path / "cache" / "jars").iterdir())) == 1


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
