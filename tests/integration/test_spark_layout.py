"""The archive laid out by Spark's executors: the same files as by one process, each row once, also where a worker dies."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from compaction.job import Job
from compaction.policy import Policy
from compaction.report import Totals
from compaction.spark_workers import SparkWorkers
from compaction.workers import LocalWorkers, Workers
from log_format.checkpoints.archive_rows import read_archive
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.inspection.verify import verify_topic
from log_format.stores import open_store
from log_format.topic.live_segments import LiveSegment, live_segments
from tests.support.collected_events import CollectedEvents
from tests.support.dying_layout import DyingWorkers
from tests.support.topic_writer import TopicWriter, new_id

HOUR_MS = 3_600_000
FLUSHES, RECORDS = 8, 300
FOURS = Policy(flushed_min=4, sources_max=4, idle_ms=10**12, fan_in=4)
"""Four files of the archive become a run, so eight are two rewrites: one for each of the session's two workers."""


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose topic has an archive of eight files in the order of offsets, and a young record."""
    directory = tmp_path_factory.mktemp("archived")
    config = {"retention.ms": str(HOUR_MS), "table.retention.ms": "-1", "table.cluster.by": "key"}
    writer = TopicWriter(str(directory), "t", config=config)
    now_ms = time.time_ns() // 1_000_000
    for flush in range(FLUSHES):
        numbers = range(flush * RECORDS, (flush + 1) * RECORDS)
        old_ms = now_ms - 2 * HOUR_MS
        writer.append([(one % 2, old_ms + one, b"%05d" % (one * 7919 % 10_007), b"%d" % one) for one in numbers])
    writer.append([(partition, now_ms, b"young", b"young") for partition in (0, 1)])
    return directory


def maintain(directory: Path, workers: Workers) -> tuple[Totals, CollectedEvents]:
    report = CollectedEvents()
    job = Job(
        store=open_store(str(directory)),
        workers=workers,
        clock=SystemClock(),
        report=report,
        policy=FOURS,
        new_id=new_id,
    )
    return job.run_round(collect=False), report


def files_of(directory: Path) -> list[LiveSegment]:
    """The archive's files in the order of their first rows."""
    store, clock = open_store(str(directory)), SystemClock()
    version = TopicLog(store, "t", clock).refresh().version
    found = read_archive(store, "t", version, clock.now_ms(), pa.concat_tables)
    assert found is not None
    return sorted(live_segments(found), key=lambda file: table_of(directory, file)["offset"][0].as_py())


def table_of(directory: Path, file: LiveSegment) -> Any:
    return pq.read_table(directory / "topics" / "t" / file.segment.path, partitioning=None)


def described(directory: Path) -> list[tuple[Any, ...]]:
    """Everything of the archive's files but their names and that of their run."""
    found = []
    for file in files_of(directory):
        groups = pq.read_metadata(directory / "topics" / "t" / file.segment.path)
        rows = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
        assert file.layout is not None
        layout = (file.layout.times, file.layout.columns)
        found.append((layout, file.runs, file.rewritten, rows, table_of(directory, file).to_pydict()))
    return found


@contextmanager
def tasks_are_tried_twice(spark: SparkSession) -> Iterator[None]:
    """Repeat a failed task, as a cluster does; in one process Spark never does so, and the session's master can't be changed."""
    scheduler = spark.sparkContext._jsc.sc().taskScheduler()
    field = scheduler.getClass().getDeclaredField("maxTaskFailures")
    field.setAccessible(True)
    before = field.getInt(scheduler)
    field.setInt(scheduler, 2)
    try:
        yield
    finally:
        field.setInt(scheduler, before)


def test_executors_write_what_one_process_writes(spark: SparkSession, archived: Path, tmp_path: Path) -> None:
    """Row for row, group for group, with the same tags; every commit is the driver's."""
    by_spark, by_one = tmp_path / "spark", tmp_path / "one"
    for directory in (by_spark, by_one):
        shutil.copytree(archived, directory)
    _, report = maintain(by_spark, SparkWorkers(str(by_spark), start=lambda: spark))
    _, other = maintain(by_one, LocalWorkers(open_store(str(by_one))))
    laid_out = [fields for event, fields in report.events if event == "lay out"]
    assert [(fields["segments_in"], fields["outcome"]) for fields in laid_out] == [(4, "committed")] * 2
    assert laid_out == [fields for event, fields in other.events if event == "lay out"]
    assert described(by_spark) == described(by_one)
    assert len(described(by_spark)) == 2
    assert verify_topic(open_store(str(by_spark)), "t").problems == ()


def test_a_worker_that_dies_once_doubles_and_loses_nothing(spark: SparkSession, archived: Path, tmp_path: Path) -> None:
    """It died after its last PUT. Spark does the task again; the files of the first attempt are in no commit. Where Spark gives
    up, nothing is committed, and the next round begins anew."""
    directory = tmp_path / "store"
    shutil.copytree(archived, directory)
    workers = DyingWorkers(str(directory), start=lambda: spark)
    workers.died = tmp_path / "gave up"
    totals, report = maintain(directory, workers)
    assert (totals.failed_topics, totals.rewrites) == (1, 0), report.events
    (problem,) = [str(fields["problem"]) for event, fields in report.events if event == "failed"]
    assert "Python worker exited unexpectedly" in problem
    left = set((directory / "topics" / "t" / "compacted").rglob("*.parquet"))
    assert left
    workers.died = tmp_path / "repeated"
    with tasks_are_tried_twice(spark):
        totals, report = maintain(directory, workers)
    assert (totals.failed_topics, totals.rewrites) == (0, 2), report.events
    assert workers.died.exists()
    files = files_of(directory)
    orphans = set((directory / "topics" / "t" / "compacted").rglob("*.parquet")) - left
    orphans -= {directory / "topics" / "t" / file.segment.path for file in files}
    assert len(orphans) == 1
    values = [value for file in files for value in table_of(directory, file)["value"].to_pylist()]
    assert sorted(map(int, values)) == list(range(FLUSHES * RECORDS))
    assert verify_topic(open_store(str(directory)), "t").problems == ()


def test_an_executors_error_is_told_in_its_own_words(spark: SparkSession, archived: Path, tmp_path: Path) -> None:
    """Which segment is damaged, and not where in Spark's own code the task ended."""
    directory = tmp_path / "store"
    shutil.copytree(archived, directory)
    damaged = max((directory / "topics" / "t" / "segments").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(damaged.read_bytes())
    data[-20] ^= 1
    damaged.write_bytes(data)
    totals, report = maintain(directory, SparkWorkers(str(directory), start=lambda: spark))
    assert (totals.failed_topics, totals.rewrites) == (1, 0)
    (problem,) = [str(fields["problem"]) for event, fields in report.events if event == "failed"]
    assert f"CorruptData: Segment segments/{damaged.name} is damaged: " in problem
    assert "\n" not in problem
