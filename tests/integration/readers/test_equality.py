"""Random topics through every reader there is: the same rows, whatever maintenance has done to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.ipc
import pytest
import urllib3
from pyspark.sql import DataFrame, SparkSession

from log_format.records.schema import BATCH_SCHEMA
from log_format.segments.reader import SegmentReader
from log_format.topic.changes import AlterTopic
from spark_pipeline import Way, read_topic, stream_topic
from spark_pipeline.schemas import KAFKA_SOURCE
from tests.support.gateway_process import StartGateway
from tests.support.topic_writer import TopicWriter

START_MS = 1_763_683_200_123
PARTITIONS = 3
COLUMNS = ["partition", "offset", "timestamp", "key", "value", "headers"]

Rows = list[tuple[Any, ...]]


def append_random(writer: TopicWriter, chosen: random.Random) -> None:
    """Commits of random sizes over random partitions, with nulls, empty values and headers."""
    for _ in range(chosen.randint(4, 10)):
        count = chosen.choice([1, 2, 30, 300])
        texts = [None, b"", b"x" * 1000, bytes(range(256))]
        headers = [None, [], [("a", b"1")], [("a", None), ("b", b""), ("a", b"\xff")]]
        columns = {
            "timestamp": [(START_MS + chosen.randint(-10_000, 10_000)) * 1000 for _ in range(count)],
            "key": chosen.choices(texts, k=count),
            "value": chosen.choices(texts, k=count),
            "headers": chosen.choices(headers, k=count),
        }
        writer.append_table(pa.table(columns, schema=BATCH_SCHEMA), chosen.choices(range(PARTITIONS), k=count))


def as_rows(table: pa.Table) -> Rows:
    """In order of partition and offset, comparable whichever reader read them."""
    rows: Rows = []
    for record in table.select(COLUMNS).to_pylist():
        headers = record["headers"]
        pairs = None if headers is None else tuple((header["key"], header["value"]) for header in headers)
        moment = record["timestamp"]
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        values = [None if record[name] is None else bytes(record[name]) for name in ("key", "value")]
        rows.append((record["partition"], record["offset"], moment, *values, pairs))
    return sorted(rows, key=lambda row: row[:2])


def reasons(report: Any) -> set[str]:
    """For which segments were rewritten."""
    return {fields["reason"] for event, fields in report.events if event == "rewrite"}


def by_log_format(writer: TopicWriter) -> pa.Table:
    """The records from their log starts on, by the reader that the format itself has."""
    reader = SegmentReader(writer.log.store)
    state = writer.log.refresh()
    tables = [
        reader.read(
            state.topic, located.segment, partition, state.log_start(partition), bytes_max=2**40, records_max=2**40
        )
        for partition in range(state.partition_count)
        for located in state.manifest.runs(partition)
    ]
    return pa.concat_tables([table.select(COLUMNS) for table in tables])


def by_http(url: str) -> pa.Table:
    """Partition by partition from the earliest record on, a few at a time."""
    tables: list[pa.Table] = []
    with urllib3.PoolManager(retries=False, timeout=60) as http:
        for partition in range(PARTITIONS):
            offset = "earliest"
            while True:
                answer = http.request(
                    "GET",
                    f"{url}/v1/topics/t/partitions/{partition}/records",
                    fields={"offset": offset, "max_records": "250"},
                    headers={"Accept": "application/vnd.apache.arrow.stream"},
                )
                assert answer.status == 200, answer.data
                table = pa.ipc.open_stream(answer.data).read_all()
                if not table.num_rows:
                    break
                tables.append(table.select(COLUMNS))
                offset = answer.headers["Tidelog-Next-Offset"]
    return pa.concat_tables(tables)


def by_stream(records: DataFrame, checkpoint: Path) -> pa.Table:
    """All that the stream has to give, in several micro-batches."""
    tables: list[pa.Table] = []
    writing = records.select(COLUMNS).writeStream.foreachBatch(lambda batch, _: tables.append(batch.toArrow()))
    writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    assert len(tables) > 1
    return pa.concat_tables(tables)


def by_deltalake(store_uri: str, minio_environment: dict[str, str]) -> pa.Table:
    if store_uri.startswith("s3://"):
        return deltalake.DeltaTable(f"{store_uri}/topics/t", storage_options=minio_environment).to_pyarrow_table()
    return deltalake.DeltaTable(f"{store_uri}/topics/t").to_pyarrow_table()


@pytest.mark.parametrize(
    ("place", "state", "seed"),
    [("local", "as flushed", 1), ("s3", "merged", 2), ("local", "keys compacted", 3)],
    ids=["as-flushed", "merged-on-s3", "keys-compacted"],
)
def test_every_reader_gives_the_same_rows(
    spark: SparkSession,
    request: pytest.FixtureRequest,
    start_gateway: StartGateway,
    maintain: Callable[[str], Any],
    minio_environment: dict[str, str],
    tmp_path: Path,
    place: str,
    state: str,
    seed: int,
) -> None:
    """``tidelog`` and Spark's Delta reader in batch and as streams, deltalake, HTTP, and the format's own reader agree."""
    store_uri = (tmp_path / "store").as_uri() if place == "local" else request.getfixturevalue("s3_uri")
    chosen = random.Random(seed)
    writer = TopicWriter(store_uri, "t", partition_count=PARTITIONS, config={"retention.ms": "-1"})
    append_random(writer, chosen)
    if state != "as flushed":
        assert "merge" in reasons(maintain(store_uri))
        writer.log.refresh()
    append_random(writer, chosen)
    if state == "keys compacted":
        writer.committer.commit(AlterTopic(partition_count=None, config={"cleanup.policy": "compact"}))
        assert "keys" in reasons(maintain(store_uri))
        writer.log.refresh()
    writer.delete_records({0: writer.log.state.high_watermark(0) // 3})
    expected = as_rows(by_log_format(writer))
    assert len({row[0] for row in expected}) == PARTITIONS
    log_start = writer.log.state.log_start(0)
    assert log_start > 0

    def from_log_start(table: pa.Table) -> Rows:
        """Readers of Delta also see records that are deleted and whose segment is not."""
        return [row for row in as_rows(table) if row[0] or row[1] >= log_start]

    options = {"store": store_uri, "subscribe": "t", "includeHeaders": "true"}
    batch = spark.read.format("tidelog").options(**options).load()
    assert [(each.name, each.dataType) for each in batch.schema] == [(f.name, f.dataType) for f in KAFKA_SOURCE]
    assert as_rows(batch.toArrow()) == expected
    limited = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(max(1, len(expected) // 2))}
    stream = spark.readStream.format("tidelog").options(**options, **limited).load()
    assert as_rows(by_stream(stream, tmp_path / "ours")) == expected
    for way in Way:
        assert as_rows(read_topic(spark, store_uri, "t", way=way).toArrow()) == expected
    native = stream_topic(spark, store_uri, "t", max_files_per_trigger=2)
    assert from_log_start(by_stream(native, tmp_path / "native")) == expected
    assert from_log_start(by_deltalake(store_uri, minio_environment)) == expected
    # An absent list of headers and an empty one are the same over HTTP.
    assert [(*row[:5], row[5] or None) for row in as_rows(by_http(start_gateway(store_uri).url))] == [
        (*row[:5], row[5] or None) for row in expected
    ]
