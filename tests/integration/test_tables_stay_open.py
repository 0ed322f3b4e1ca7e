"""Every table of a store opens with deltalake and Spark after each thing that maintenance does, also at older versions (G9)."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format.checkpoints.checkpoint import write_table_checkpoint
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.groups import changes as group_changes
from log_format.groups.row import OffsetRow
from log_format.groups.state import consumer_offsets_table
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Append
from log_format.topic.changes import AlterTopic, CreateTopic, DeleteRecords
from log_format.topic.config import TopicConfig
from log_format.transactions import compaction as transaction_compaction
from log_format.transactions.changes import BeginTransaction, Decide
from log_format.transactions.state import transactions_table
from tests.support.clocks import ManualClock
from tests.support.collected_events import CollectedEvents
from tests.support.records import batch_of

pytestmark = pytest.mark.timeout(900)

HOUR_MS = 3_600_000
PARTITIONS = 2
TABLES = ("topics/t", "system/transactions", "system/consumer_offsets")
POLICY = Policy(flushed_min=2, sources_max=4, fan_in=2, dirty_ratio=0.1)

Rows = list[str]
"""A table's rows, as text, sorted."""


class Tables:
    """A topic and the system tables in memory, copied to a directory for readers that know nothing of Tidelog."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock)
        self.numbers = count(1)
        self.logs: list[TableLog[Any]] = [
            TopicLog(self.store, "t", self.clock),
            TableLog(self.store, transactions_table(), self.clock),
            TableLog(self.store, consumer_offsets_table(), self.clock),
        ]
        self.topic, self.transactions, self.offsets = (
            Committer(log, new_id=self.new_id, jitter=lambda: 1.0) for log in self.logs
        )
        self.job = Job(
            store=self.store,
            workers=LocalWorkers(self.store),
            clock=self.clock,
            report=CollectedEvents(),
            policy=POLICY,
            new_id=self.new_id,
        )

    def new_id(self) -> str:
        return f"id-{next(self.numbers)}"

    def create(self) -> None:
        config = TopicConfig.parse({"retention.ms": 30 * 24 * HOUR_MS})
        self.topic.commit(CreateTopic(name="t", partition_count=PARTITIONS, config=config, topic_id="topic"))

    def write(self) -> None:
        """Four flushes, and as many commits of each system table."""
        for number in range(4):
            batch = batch_of(
                "topic",
                [b"v%d" % next(self.numbers) for _ in range(PARTITIONS)],
                range(PARTITIONS),
                keys=[b"k%d" % (number % 2)] * PARTITIONS,
                timestamps_ms=self.clock.now_ms(),
            )
            self.topic.commit(Append([batch], self.new_id))
            name = self.new_id()
            begin = BeginTransaction(
                transactional_id=name, transaction_id=f"t-{name}", new_producer_id="p", timeout_ms=60_000
            )
            self.transactions.commit(Decide([begin], self.new_id))
            offset = OffsetRow(
                group="g", topic="t", partition=0, topic_id="topic", offset=number, committed_at_ms=self.clock.now_ms()
            )
            consumed = group_changes.CommitOffsets(group="g", offsets=(offset,))
            self.offsets.commit(group_changes.Decide([consumed], self.new_id))

    def maintain(self, *expected: str) -> None:
        """A round, in which all of this happens."""
        report = self.job.report = CollectedEvents()
        self.job._topics.clear()
        totals = self.job.run_round(collect=True)
        assert totals.failed_topics == 0, report.events
        happened = {str(fields.get("reason", event)) for event, fields in report.events}
        happened |= {str(fields["why"]) for event, fields in report.events if event == "delete"}
        assert set(expected) <= happened, report.events

    def checkpoint(self) -> None:
        for log in self.logs:
            write_table_checkpoint(self.store, log.table.root, log.refresh().version, self.clock.now_ms())

    def compact_system(self) -> None:
        self.transactions.commit(transaction_compaction.Compact(self.new_id, files_min=2))
        self.offsets.commit(group_changes.Compact(self.new_id, files_min=2))

    def compact_keys_from_now_on(self) -> None:
        """And more records, which supersede the older ones."""
        self.topic.commit(AlterTopic(partition_count=None, config={"cleanup.policy": "compact,delete"}))
        for _ in range(2):
            self.write()

    def leave_orphans(self) -> None:
        for key in ("topics/t/segments", "system/transactions/decisions", "system/consumer_offsets/offsets"):
            self.store.put(f"{key}/orphan.parquet", b"from one that died")
        self.clock.pass_ms(25 * HOUR_MS)

    def copy(self) -> None:
        """Make the directory what the store is."""
        stored = {info.key for info in self.store.list("")}
        for path in [path for path in self.directory.rglob("*") if path.is_file()]:
            if str(path.relative_to(self.directory)) not in stored:
                path.unlink()
        for key in stored:
            path = self.directory / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.store.get(key))


def by_deltalake(directory: Path, table: str, version: int | None = None) -> Rows:
    opened = deltalake.DeltaTable(str(directory / table), version=version)
    return as_text(opened.to_pyarrow_table())


def by_spark(spark: SparkSession, directory: Path, table: str, version: int | None = None) -> Rows:
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return as_text(reader.load(f"file:{directory / table}").toArrow())


def as_text(table: pa.Table) -> Rows:
    """Rows without what two readers may name differently: zones and units of times."""
    names = [name for name in sorted(table.column_names) if not pa.types.is_timestamp(table.schema.field(name).type)]
    return sorted(repr(sorted(row.items())) for row in table.select(names).to_pylist())


def test_every_table_opens_after_each_job(spark: SparkSession, tmp_path: Path) -> None:
    """Both readers give the same rows; merges, fences and clean-up change none; old versions within the time that removed
    files stay still give what they gave. Spark looks where kinds of commits have come together."""
    tables = Tables(tmp_path)
    tables.create()
    tables.write()
    tables.checkpoint()
    seen: dict[tuple[str, int], tuple[Rows, int]] = {}

    def look(*changes: str, with_spark: bool = False) -> None:
        tables.copy()
        for table, log in zip(TABLES, tables.logs, strict=True):
            rows, version = by_deltalake(tmp_path, table), log.refresh().version
            assert rows, table
            if with_spark:
                assert by_spark(spark, tmp_path, table) == rows, table
            before = [known for (name, _), (known, _) in seen.items() if name == table]
            assert table in changes or not before or rows == before[-1], table
            seen.setdefault((table, version), (rows, tables.clock.now_ms()))

    look()
    tables.maintain("merge")
    look()
    tables.leave_orphans()
    tables.maintain("no commit names it, and it is too old to be on its way into one")
    look(with_spark=True)
    fenced = {table: log.state.version for table, log in zip(TABLES, tables.logs, strict=True)}
    tables.topic.commit(DeleteRecords(before={0: 1}))
    tables.maintain("trim")
    look("topics/t")
    tables.compact_keys_from_now_on()
    look(*TABLES)
    tables.maintain("keys")
    tables.checkpoint()
    look("topics/t", with_spark=True)
    for (table, version), (rows, at_ms) in seen.items():
        if tables.clock.now_ms() - at_ms < 24 * HOUR_MS:
            assert by_deltalake(tmp_path, table, version) == rows
    for table, version in fenced.items():
        assert by_spark(spark, tmp_path, table, version) == seen[table, version][0]
    tables.clock.pass_ms(26 * HOUR_MS)
    tables.maintain("a checkpoint covers its version, and no reader may lag so far")
    look()
    tables.compact_system()
    look("system/transactions", "system/consumer_offsets", with_spark=True)
