"""Maintenance by Spark's executors, and what Delta's readers see of it: the records, once, in order, without an error."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import deltalake
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from compaction.job import Job
from compaction.policy import Policy
from compaction.spark_workers import SparkWorkers
from log_format.clock import SystemClock
from log_format.inspection.verify import verify_topic
from log_format.layout import commit_version
from log_format.stores import open_store
from log_format.stores.memory import MemoryStore
from log_format.topic.changes import AlterTopic
from spark_pipeline import Way, read_topic, stream_topic
from tests.support.collected_events import CollectedEvents
from tests.support.drained_stream import drain
from tests.support.maintenance_bench import MaintenanceBench
from tests.support.topic_writer import TopicWriter

START_MS = 1_763_683_200_123


def drained(stream: DataFrame, checkpoint: Path) -> list[Row]:
    """All that a stream has to give, in the order of its micro-batches."""
    batches = drain(stream, checkpoint)
    return [row for batch in batches for row in sorted(batch, key=lambda row: (row["partition"], row["offset"]))]


def places(rows: list[Row]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows]


def in_order(rows: list[Row]) -> bool:
    """Whether each partition's offsets came in order."""
    return all(
        offsets == sorted(offsets)
        for partition in (0, 1)
        for offsets in [[row["offset"] for row in rows if row["partition"] == partition]]
    )


def maintain(spark: SparkSession, store_uri: str) -> CollectedEvents:
    report = CollectedEvents()
    job = Job(
        store=open_store(store_uri),
        workers=SparkWorkers(store_uri, start=lambda: spark),
        clock=SystemClock(),
        report=report,
        policy=Policy(flushed_min=2, sources_max=9, fan_in=9),
        new_id=lambda: uuid.uuid4().hex,
    )
    totals = job.run_round(collect=True)
    assert totals.failed_topics == 0, report.events
    return report


def test_a_native_stream_runs_through_maintenance(spark: SparkSession, s3_uri: str, tmp_path: Path) -> None:
    """Merges, key compaction, retention: a stream gets each record once, a new one in order of offset, a batch the newest."""
    writer = TopicWriter(s3_uri, "t")
    writer.committer.commit(AlterTopic(partition_count=None, config={"retention.ms": -1}))

    def write(count: int, first: int) -> None:
        for number in range(first, first + count):
            writer.append([(p, START_MS + number, b"key-%d" % (number % 3), b"%d" % number) for p in (0, 1)])

    write(10, 0)
    stream = stream_topic(spark, s3_uri, "t")
    first = drained(stream, tmp_path / "one")
    version = writer.log.refresh().version
    write(6, 10)
    merges = [fields for event, fields in maintain(spark, s3_uri).events if event == "rewrite"]
    assert [fields["reason"] for fields in merges] == ["merge", "merge"]
    write(2, 16)
    second = drained(stream, tmp_path / "one")
    everything = [(p, offset) for p in (0, 1) for offset in range(18)]
    assert sorted(places(first + second)) == everything
    assert in_order(first + second)
    fresh = drained(stream_topic(spark, s3_uri, "t", max_files_per_trigger=2), tmp_path / "two")
    assert sorted(places(fresh)) == everything
    assert in_order(fresh)
    assert read_topic(spark, s3_uri, "t", version=version).count() == 20

    write(1, 18)
    writer.committer.commit(AlterTopic(partition_count=None, config={"cleanup.policy": "compact"}))
    report = maintain(spark, s3_uri)
    assert "keys" in {fields["reason"] for event, fields in report.events if event == "rewrite"}
    assert sorted(places(drained(stream, tmp_path / "one"))) == [(0, 18), (1, 18)]
    newest = {
        (row["partition"], bytes(row["key"]), bytes(row["value"]))
        for row in read_topic(spark, s3_uri, "t", way=Way.DELTA).collect()
    }
    assert {(p, b"key-%d" % (n % 3), b"%d" % n) for p in (0, 1) for n in (16, 17, 18)} <= newest
    assert read_topic(spark, s3_uri, "t", way=Way.DELTA).count() < 20
    assert verify_topic(open_store(s3_uri), "t").problems == ()

    retained: dict[str, int | str | None] = {"cleanup.policy": "compact,delete", "retention.ms": 0}
    writer.log.refresh()
    writer.committer.commit(AlterTopic(partition_count=None, config=retained))
    maintain(spark, s3_uri)
    assert writer.log.refresh().log_starts.tolist() == [19, 19]
    write(1, 19)
    assert sorted(places(drained(stream, tmp_path / "one"))) == [(0, 19), (1, 19)]
    assert verify_topic(open_store(s3_uri), "t").problems == ()
    table = deltalake.DeltaTable(f"{s3_uri}/topics/t")
    assert table.version() == writer.log.refresh().version


def copied(store: MemoryStore, directory: Path) -> None:
    """The store's objects as files, and no other files."""
    shutil.rmtree(directory, ignore_errors=True)
    for info in store.list(""):
        path = directory / info.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.get(info.key))


def test_a_native_stream_that_lags_behind_the_kept_commits_fails_and_skips_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Delta's own error says so (docs/spark.md). A stream that keeps up goes on, and one by offsets has every record."""
    kept, late = 10, 230
    bench, directory = MaintenanceBench(), tmp_path / "store"
    bench.create(1, commit_retention_count=kept)
    job = bench.job(Policy(flushed_min=1_000))

    def grow(count: int) -> None:
        for _ in range(count):
            bench.append((0, b"k", b"v"))
            bench.clock.pass_ms(1_000)
        job.run_round(collect=False)  # with a checkpoint

    grow(2)
    copied(bench.store, directory)
    stream = stream_topic(spark, f"file://{directory}", "t")
    assert len(drained(stream, tmp_path / "lags")) == 2
    grow(late)
    copied(bench.store, directory)
    assert len(drained(stream, tmp_path / "keeps up")) == 2 + late
    bench.clock.pass_ms(2 * 3_600_000)
    grow(late)
    job.run_round(collect=True)
    first = min(version for key in bench.stored("_delta_log/") if (version := commit_version(key)) is not None)
    assert 3 < first <= 2 + late, "the test is about a log whose first commits are gone"
    copied(bench.store, directory)
    with pytest.raises(StreamingQueryException, match="DELTA"):
        drained(stream, tmp_path / "lags")
    assert len(drained(stream, tmp_path / "keeps up")) == late
    options = {"store": f"file://{directory}", "subscribe": "t", "startingOffsets": "earliest"}
    by_offsets = spark.readStream.format("tidelog").options(**options).load()
    assert len(drained(by_offsets, tmp_path / "by offsets")) == 2 + 2 * late
