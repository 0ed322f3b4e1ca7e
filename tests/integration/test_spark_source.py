"""``format("tidelog")`` reading, in a directory and on S3: what Kafka's source promises."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from log_format.clock import SystemClock
from log_format.delta.log import TableLog
from log_format.groups.state import consumer_offsets_table
from log_format.records.schema import HEADERS
from spark_pipeline import lag
from spark_pipeline.schemas import KAFKA_SOURCE
from tests.support.drained_stream import drain
from tests.support.records import records_of
from tests.support.topic_writer import TopicWriter

START_MS = 1_763_683_200_123


def load(spark: SparkSession, store: str, **options: Any) -> DataFrame:
    return spark.read.format("tidelog").options(store=store, **options).load()


def stream(spark: SparkSession, store: str, **options: Any) -> DataFrame:
    return spark.readStream.format("tidelog").options(store=store, startingOffsets="earliest", **options).load()


def drained(records: DataFrame, checkpoint: Path | str) -> list[list[tuple[str, int, int]]]:
    """What a stream has to give, as places."""
    return [places(batch) for batch in drain(records, checkpoint)]


def places(rows: list[Row]) -> list[tuple[str, int, int]]:
    return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)


def some(count: int, partition: int = 0, after_ms: int = 0) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(partition, START_MS + after_ms + index, None, b"%d" % index) for index in range(count)]


def test_python_processes_of_a_session_start_with_compiled_code(spark: SparkSession) -> None:
    """All of them, also those that are not ours: pyspark comes from where it is installed, not from Spark's archive."""
    found = spark.sparkContext.parallelize(["pyspark"], 1).map(find_spec).map(attrgetter("origin")).collect()
    assert found == [pyspark.__file__]


def test_batch_between_positions_and_with_filters(spark: SparkSession, tmp_path: Path) -> None:
    """Offsets, timestamps and filters give exactly the records that they name; narrower columns are read alone."""
    store = (tmp_path / "store").as_uri()
    writer = TopicWriter(store, "t")
    for commit in range(4):
        writer.append(some(10, 0, commit * 1000) + some(10, 1, commit * 1000))

    def read(**options: Any) -> list[tuple[int, int]]:
        return [place[1:] for place in places(load(spark, store, subscribe="t", **options).collect())]

    given = {"startingOffsets": '{"t":{"0":5,"1":-2}}', "endingOffsets": '{"t":{"0":-1,"1":3}}'}
    assert read(**given) == [(0, offset) for offset in range(5, 40)] + [(1, offset) for offset in range(3)]
    late = {"startingTimestamp": START_MS + 1005, "endingTimestamp": START_MS + 2003, "minPartitions": 5}
    assert read(**late) == [(partition, offset) for partition in (0, 1) for offset in range(15, 23)]
    by_time = {"startingOffsetsByTimestamp": f'{{"t":{{"0":{START_MS + 3009},"1":{START_MS + 3010}}}}}'}
    with pytest.raises(PySparkException, match="startingOffsetsByTimestamp: no record of t/1"):
        read(**by_time)
    assert read(**by_time, startingOffsetsByTimestampStrategy="latest") == [(0, 39)]
    with pytest.raises(PySparkException, match="startingOffsets: must name every partition"):
        read(startingOffsets='{"t":{"0":5}}')

    records = load(spark, store, subscribe="t")
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=START_MS + 3005)
    some_rows = records.where(
        f"partition = 1 and offset >= 12 and timestamp < timestamp'{moment:%Y-%m-%d %H:%M:%S.%f}'"
    ).collect()
    assert places(some_rows) == [("t", 1, offset) for offset in range(12, 35)]
    narrow = (
        spark.read.format("tidelog").schema("topic string, offset bigint").options(store=store, subscribe="t").load()
    )
    assert sorted(row["offset"] for row in narrow.collect()) == sorted([*range(40)] * 2)
    with pytest.raises(PySparkException, match="schema: value string is none of"):
        spark.read.format("tidelog").schema("value string").options(store=store, subscribe="t").load().collect()


def test_uses_of_a_dataframe_do_not_take_each_others_filters(spark: SparkSession, tmp_path: Path) -> None:
    """Beside each other in one query, and one after the other; a query has what its DataFrame first read."""
    store = (tmp_path / "store").as_uri()
    writer = TopicWriter(store, "t", partition_count=1)
    writer.append(some(10))
    records = load(spark, store, subscribe="t")
    first, last = records.where("offset < 3"), records.where("offset >= 7")
    both = [row["offset"] for row in first.unionAll(last).collect()]
    assert sorted(both) == [0, 1, 2, 7, 8, 9]
    assert (first.count(), records.count(), records.unionAll(first).count()) == (3, 10, 13)
    writer.append(some(10))
    assert (records.count(), records.where("partition = 0").count()) == (10, 10)
    assert load(spark, store, subscribe="t").count() == 20


def test_some_of_the_records(spark: SparkSession, tmp_path: Path) -> None:
    """A key, and a filter of the source: exactly the records that have it, in batches and in streams."""
    store = (tmp_path / "store").as_uri()
    writer = TopicWriter(store, "t")
    for _ in range(3):
        table = records_of([b"x"] * 20, [b"k%d" % (number % 4) for number in range(20)], START_MS)
        headers = [[("type", b"%d" % (number % 5))] for number in range(20)]
        writer.append_table(table.set_column(3, "headers", pa.array(headers, HEADERS)), [0] * 20)
    keyed = load(spark, store, subscribe="t").where("key = cast('k1' as binary)")
    assert places(keyed.collect()) == [("t", 0, offset) for offset in range(60) if offset % 4 == 1]
    assert keyed.where("offset > 50").count() == 2
    typed = load(spark, store, subscribe="t", filterHeaders='["type:2"]')
    expected = [("t", 0, offset) for offset in range(60) if offset % 20 % 5 == 2]
    assert places(typed.collect()) == expected
    assert typed.count() == len(expected)
    followed = stream(spark, store, subscribe="t", filterHeaders='["type:2"]')
    assert [place for batch in drained(followed, tmp_path / "checkpoint") for place in batch] == expected


def test_what_is_wrong_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """The error that Spark raises has the option's name, or the topic's."""
    store = (tmp_path / "store").as_uri()
    TopicWriter(store, "t").append(some(3))
    for match, options in {
        "groupId: is 'a', and kafka.group.id is 'b'": {"subscribe": "t", "groupId": "a", "kafka.group.id": "b"},
        "subscribePattern: contradicts subscribe": {"subscribe": "t", "subscribePattern": "t"},
        "Topic 'nothing' does not exist": {"subscribe": "nothing"},
        "has no partition 7": {"assign": '{"t":[7]}'},
    }.items():
        with pytest.raises(PySparkException, match=match):
            load(spark, store, **options).collect()


def test_a_stream_takes_each_record_once_across_restarts(spark: SparkSession, store_uri: str, tmp_path: Path) -> None:
    """From its checkpoint on, in micro-batches no larger than asked, with Kafka's JSON in the checkpoint."""
    writer = TopicWriter(store_uri, "t")
    writer.append(some(30, 0) + some(50, 1))
    records = stream(spark, store_uri, subscribe="t", maxOffsetsPerTrigger=25)
    first = drained(records, tmp_path / "checkpoint")
    assert [len(batch) for batch in first] == [25, 25, 25, 5]
    writer.append(some(4, 1))
    second = drained(records, tmp_path / "checkpoint")
    assert sorted(place for batch in first for place in batch) == [
        ("t", partition, offset) for partition, end in ((0, 30), (1, 50)) for offset in range(end)
    ]
    assert second == [[("t", 1, offset) for offset in range(50, 54)]]
    newest = max((tmp_path / "checkpoint" / "offsets").iterdir(), key=lambda path: path.name.zfill(20))
    ids = {"t": writer.log.state.topic_id}
    assert json.loads(newest.read_text().splitlines()[-1]) == {"@topic_ids": ids, "t": {"0": 30, "1": 54}}


def test_partitions_and_topics_that_appear_are_found(spark: SparkSession, tmp_path: Path) -> None:
    """A pattern takes topics made since the query began, and those of the checkpoint go on where they were."""
    store = (tmp_path / "store").as_uri()
    TopicWriter(store, "logs-a", partition_count=1).append(some(3))
    TopicWriter(store, "other", partition_count=1).append(some(3))
    records = stream(spark, store, subscribePattern="logs-.*")
    assert drained(records, tmp_path / "checkpoint") == [[("logs-a", 0, offset) for offset in range(3)]]
    TopicWriter(store, "logs-b", partition_count=2).append(some(2, 1))
    assert drained(records, tmp_path / "checkpoint") == [[("logs-b", 1, 0), ("logs-b", 1, 1)]]


@pytest.mark.parametrize("fail", [True, False])
def test_records_that_are_gone(spark: SparkSession, tmp_path: Path, fail: bool) -> None:
    """When the log start overtakes the reader the query fails and says so, or goes on with what there is when told to."""
    store = (tmp_path / "store").as_uri()
    writer = TopicWriter(store, "t", partition_count=1)
    writer.append(some(10))
    records = stream(spark, store, subscribe="t", failOnDataLoss=str(fail).lower())
    drained(records, tmp_path / "checkpoint")
    writer.append(some(10))
    writer.append(some(10))
    writer.delete_records({0: 25})
    if fail:
        with pytest.raises(PySparkException, match=r"t/0 was read up to 10, and holds \[25, 30\) now.*failOnDataLoss"):
            drained(records, tmp_path / "checkpoint")
    else:
        assert drained(records, tmp_path / "checkpoint") == [[("t", 0, offset) for offset in range(25, 30)]]


@pytest.mark.parametrize("count", [4, 10, 20])
def test_a_topic_made_anew_is_data_loss(spark: SparkSession, tmp_path: Path, count: int) -> None:
    """Its offsets begin again, whether what the checkpoint has is beyond its end or not."""
    store = (tmp_path / "store").as_uri()
    writer = TopicWriter(store, "t", partition_count=1)
    writer.append(some(10))
    strict, lenient = (stream(spark, store, subscribe="t", failOnDataLoss=fail) for fail in ("true", "false"))
    drained(strict, tmp_path / "checkpoint")
    writer.delete()
    writer = TopicWriter(store, "t", partition_count=1)
    writer.append(some(count))
    with pytest.raises(PySparkException, match=r"topic 't' was deleted and made anew: its id was .*failOnDataLoss"):
        drained(strict, tmp_path / "checkpoint")
    assert drained(lenient, tmp_path / "checkpoint") == [[("t", 0, offset) for offset in range(count)]]
    writer.append(some(5))
    assert drained(strict, tmp_path / "checkpoint") == [[("t", 0, offset) for offset in range(count, count + 5)]]


def test_progress_is_the_groups_and_lag_is_known(spark: SparkSession, tmp_path: Path) -> None:
    """With groupId the query's position is where every other consumer's is; ``lag`` says what is left."""
    store = (tmp_path / "store").as_uri()
    writer = TopicWriter(store, "t")
    writer.append(some(30, 0) + some(10, 1))
    records = stream(spark, store, subscribe="t", groupId="a-job", maxOffsetsPerTrigger=20)
    writing = records.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination()
    group = TableLog(writer.log.store, consumer_offsets_table(), SystemClock()).refresh().group("a-job")
    assert {key: row.offset for key, row in group.offsets.items()} == {("t", 0): 30, ("t", 1): 10}
    assert {row.topic_id for row in group.offsets.values()} == {writer.log.state.topic_id}
    assert lag(query) == {"t": {0: 0, 1: 0}}


def test_credentials_are_in_no_plan(spark: SparkSession, s3_uri: str, minio_environment: dict[str, str]) -> None:
    """Not in what ``explain`` shows, nor in the tasks; they come by Spark's configuration or the environment."""
    from spark_pipeline.source.batch import BatchReader
    from spark_pipeline.source.options import parse_options

    TopicWriter(s3_uri, "t").append(some(3))
    records = load(spark, s3_uri, subscribe="t")
    assert len(records.collect()) == 3
    plan = records._jdf.queryExecution().toString()
    reader = BatchReader(parse_options({"store": s3_uri, "subscribe": "t"}, streaming=False), KAFKA_SOURCE)
    carried = pickle.dumps((reader, reader.partitions())).decode("latin-1")
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"):
        assert minio_environment[name] not in plan
        assert minio_environment[name] not in carried
