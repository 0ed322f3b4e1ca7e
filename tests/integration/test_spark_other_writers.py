"""Delta's own programs at a topic's table: Spark refuses to write it, by its feature, and it and Delta's kernel read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.archived_topic import RECORDS as ARCHIVED_RECORDS
from tests.support.archived_topic import ArchivedTopic
from tests.support.topic_writer import TopicWriter

pytestmark = pytest.mark.spark

START_MS = 1_763_683_200_123
RECORDS = [(0, START_MS, b"k", b"a"), (1, START_MS + 1, None, b"b"), (0, START_MS + 2, b"", b"c")]
WRITES = {
    "insert": "INSERT INTO delta.`{0}` SELECT * FROM delta.`{0}`",
    "delete": "DELETE FROM delta.`{0}` WHERE offset = 0",
    "update": "UPDATE delta.`{0}` SET value = NULL",
    "merge": "MERGE INTO delta.`{0}` t USING delta.`{0}` s ON t.offset = s.offset WHEN MATCHED THEN DELETE",
    "optimize": "OPTIMIZE delta.`{0}`",
    "properties": "ALTER TABLE delta.`{0}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')",
    "restore": "RESTORE TABLE delta.`{0}` TO VERSION AS OF 0",
    "vacuum": "VACUUM delta.`{0}` RETAIN 0 HOURS",
    "vacuum lite": "VACUUM delta.`{0}` LITE RETAIN 0 HOURS",
    "drop feature": "ALTER TABLE delta.`{0}` DROP FEATURE tidelog",
}


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A topic of three records in two commits, its table's path."""
    writer = TopicWriter(str(tmp_path), "t")
    writer.append(RECORDS[:2])
    writer.append(RECORDS[2:])
    return str(tmp_path / "topics" / "t")


def files(table: str) -> dict[str, bytes]:
    """All that is stored of it, but what Spark wrote before it was refused."""
    found = {path: path.read_bytes() for path in Path(table).rglob("*") if path.is_file()}
    return {str(path): data for path, data in found.items() if not path.name.startswith((".", "part-"))}


@pytest.mark.parametrize("write", WRITES)
def test_spark_refuses(spark: SparkSession, table: str, write: str) -> None:
    """Whatever changes rows, files, settings or history; nothing is written, nothing is deleted."""
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    lying_by = Path(table) / "segments" / "not-committed-yet.parquet"
    lying_by.write_bytes(b"uploaded, and no commit names it yet")
    before = files(table)
    with pytest.raises(
        (PySparkException, Py4JJavaError),
        match=r"\[DELTA_(UNSUPPORTED_FEATURES_FOR_WRITE|FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE)\]",
    ):
        spark.sql(WRITES[write].format(table)).collect()
    assert files(table) == before
    rows = spark.read.format("delta").load(table).collect()
    assert sorted(bytes(row["value"]) for row in rows) == [b"a", b"b", b"c"]


def test_deltas_kernel_reads(spark: SparkSession, table: str) -> None:
    """The library by which Flink and others read tables gives every row, by its own Parquet reader."""
    jvm: Any = spark._jvm
    assert jvm is not None
    engine = jvm.io.delta.kernel.defaults.engine.DefaultEngine.create(spark._jsc.hadoopConfiguration())
    snapshot = jvm.io.delta.kernel.Table.forPath(engine, table).getLatestSnapshot(engine)
    assert snapshot.getVersion() == 2
    schema = snapshot.getSchema()
    scan = snapshot.getScanBuilder().withReadSchema(schema).build()
    state = scan.getScanState(engine)
    internal = jvm.io.delta.kernel.internal
    physical = internal.data.ScanStateRow.getPhysicalDataReadSchema(state)
    columns = {name: physical.indexOf(name) for name in ("partition", "offset", "value")}
    found = []
    batches = scan.getScanFiles(engine)
    while batches.hasNext():
        files_of = batches.next().getRows()
        while files_of.hasNext():
            status = internal.InternalScanFileUtils.getAddFileStatus(files_of.next())
            one = internal.util.Utils.singletonCloseableIterator(status)
            data = engine.getParquetHandler().readParquetFiles(one, physical, jvm.java.util.Optional.empty())
            while data.hasNext():
                rows = data.next().getData().getRows()
                while rows.hasNext():
                    row = rows.next()
                    place = row.getInt(columns["partition"]), row.getLong(columns["offset"])
                    found.append((*place, bytes(row.getBinary(columns["value"]))))
    assert sorted(found) == [(0, 0, b"a"), (0, 1, b"c"), (1, 0, b"b")]


def test_what_spark_did_to_an_archive_is_put_back(spark: SparkSession, tmp_path: Path) -> None:
    """Once somebody took the writer features away Spark deletes archived rows, and writes a checkpoint that believes it. Gateways
    don't; after a round of maintenance Spark sees every row again, and is refused again."""
    topic = ArchivedTopic(tmp_path)
    topic.take_guard_away()
    spark.sql(f"DELETE FROM delta.`{topic.table}` WHERE offset IN (1, 3)")
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, topic.table).checkpoint()
    assert spark.read.format("delta").load(topic.table).count() == len(ARCHIVED_RECORDS) - 2
    topic.bench.append((0, b"k", b"v10"))
    topic.upkeep(collect=True)
    topic.assert_whole()
    rows = spark.read.format("delta").load(topic.table).orderBy("offset").collect()
    assert [bytes(row["value"]) for row in rows] == [*ARCHIVED_RECORDS, b"v10"]
    with pytest.raises(Py4JJavaError, match="DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"):
        spark.sql(f"DELETE FROM delta.`{topic.table}` WHERE offset = 1")
