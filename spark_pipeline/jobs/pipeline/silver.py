"""The table of rows: valid records, each with its place in the topic.

1. A micro-batch is in the table once: Delta remembers query and batch (``txnAppId``, ``txnVersion``) and ignores a repeated
   one.
2. A table belongs to one checkpoint. A query with another one would start over and write every row again, so it is refused.
3. A micro-batch that was cut off must be finished with the rules with which it began. Other rules could put a record both in
   the table and among the dead letters, or in neither.
"""

from __future__ import annotations

import json
from typing import Final

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType, TimestampType

from spark_pipeline.jobs.pipeline.judge import REASON
from spark_pipeline.jobs.pipeline.record_schema import RecordSchema, quote_column

PLACE: Final = StructType(
    [
        StructField("_partition", IntegerType()),
        StructField("_offset", LongType()),
        StructField("_timestamp", TimestampType()),
        StructField("_key", BinaryType()),
    ]
)
"""Columns with the origin of a row; the timestamp is the record's."""

COMMITS_LOOKED_AT_MAX: Final = 100
"""Number of commits searched for the last micro-batch: other programs (OPTIMIZE) may have committed since."""


class CheckpointRefused(RuntimeError):
    """The table and the checkpoint don't belong together; the message says what to do."""


def create_table(spark: SparkSession, path: str, columns: StructType) -> None:
    """Create the table, empty, if needed, and add missing columns.

    Raises Spark's ``AnalysisException`` when a column exists with another type.
    """
    if DeltaTable.isDeltaTable(spark, path):
        there = {(field.name, field.dataType) for field in spark.read.format("delta").load(path).schema}
        if {(field.name, field.dataType) for field in columns} <= there:
            return
    empty = spark.createDataFrame([], columns)
    empty.write.format("delta").mode("append").option("mergeSchema", "true").save(path)


def silver_columns(schema: RecordSchema) -> StructType:
    """Return the table's columns."""
    return StructType([*PLACE.fields, *schema.columns.fields])


def valid_rows(judged: DataFrame, schema: RecordSchema) -> DataFrame:
    """Return the rows that ``judge`` found valid, with the columns of ``silver_columns``."""
    names = silver_columns(schema).fieldNames()
    return judged.where(col(REASON).isNull()).select(*[quote_column(name) for name in names])


def check_belongs(spark: SparkSession, path: str, *, query_id: str, batch_id: int, rules: str) -> None:
    """Raise ``CheckpointRefused`` unless the micro-batch may be written, or was, by this query with these rules."""
    history = DeltaTable.forPath(spark, path).history(COMMITS_LOOKED_AT_MAX).select("userMetadata").collect()
    notes = [json.loads(row["userMetadata"]) for row in history if (row["userMetadata"] or "").startswith('{"query":')]
    if not notes:
        return
    if notes[0]["query"] != query_id:
        raise CheckpointRefused(
            f"The table {path} was filled from another checkpoint, and this one would write every row again. Bring the old "
            "checkpoint back, or give the pipeline a new output."
        )
    if notes[0]["batch"] == batch_id and notes[0]["rules"] != rules:
        raise CheckpointRefused(
            f"Micro-batch {batch_id} was cut off after its rows were written by another schema or other checks. Run it once with "
            "those (--available-now), then change them."
        )


def write(fitting: DataFrame, path: str, *, query_id: str, batch_id: int, rules: str) -> None:
    """Append the rows of a micro-batch; do nothing if the table has it."""
    note = json.dumps({"query": query_id, "batch": batch_id, "rules": rules})
    options = {"txnAppId": query_id, "txnVersion": str(batch_id), "userMetadata": note}
    fitting.write.format("delta").mode("append").options(**options).save(path)
