"""What a source in Python costs Spark at least: one that yields ready-made Arrow batches, beside the ways to read a topic.

``python -m benchmarks.spark_floor`` needs no broker. The floor has as many rows, columns, bytes and tasks as
``format("tidelog")``, and batches as large, but reads, decodes and plans nothing. What is between both is ours. What the floor
takes is Spark's: its start of a query, its Python processes, the socket, and its rows made of Arrow batches.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from benchmarks import processes
from benchmarks.report import Table
from benchmarks.spark import drained, scanned
from benchmarks.spark_rates import Measured, rated
from benchmarks.spark_sources import COUNTS, FEW, MANY, PARTITIONS, VALUE_BYTES, Source, copy, ours, started
from spark_pipeline.data_source import TidelogDataSource
from spark_pipeline.schemas import KAFKA_SOURCE
from spark_pipeline.source.task import BATCH_ROWS

SECONDS_MAX: Final = 120
NAME: Final = "floor"


class Rows(InputPartition):
    """A task of so many rows."""

    def __init__(self, count: int) -> None:
        super().__init__(None)
        self.count = count


class FloorSource(DataSource):
    """Options: ``rows``, and ``tasks`` of equally many."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return NAME

    def schema(self) -> StructType:
        """The columns of ``format("tidelog")``."""
        return StructType([field for field in KAFKA_SOURCE if field.name != "headers"])

    def reader(self, schema: StructType) -> FloorReader:
        """For ``spark.read``."""
        return FloorReader(self.options, schema)

    def streamReader(self, schema: StructType) -> FloorStreamReader:  # noqa: N802 - Spark's name
        """For ``spark.readStream``."""
        return FloorStreamReader(self.options, schema)


class FloorReader(DataSourceReader):
    """All rows at once."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._rows = int(options["rows"])
        self._tasks = int(options["tasks"])
        self._schema = schema

    def partitions(self) -> list[Rows]:
        """The tasks."""
        return [Rows(self._rows // self._tasks)] * self._tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of one task."""
        return _batches(partition, self._schema)


class FloorStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """All rows in one micro-batch."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._all = FloorReader(options, schema)
        self._schema = schema
        self._rows = int(options["rows"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's names
        """None was read."""
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """No limit."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """There are never more rows."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """All were read."""
        del start, limit
        return {"rows": self._rows}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Rows]:
        """The tasks."""
        return self._all.partitions() if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of one task."""
        return _batches(partition, self._schema)


def _batches(task: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    assert isinstance(task, Rows)
    ready = _ready(schema.json())
    for first in range(0, task.count, BATCH_ROWS):
        yield ready.slice(0, min(BATCH_ROWS, task.count - first))


@lru_cache
def _ready(schema_json: str) -> pa.RecordBatch:
    """A batch that is made once in each process, with the columns of this schema."""
    schema = to_arrow_schema(StructType.fromJson(json.loads(schema_json)), timezone="UTC")
    records = _records(BATCH_ROWS)
    columns: dict[str, pa.Array] = {name: records.column(name).chunk(0) for name in records.column_names}
    columns["topic"] = pa.repeat(pa.scalar(MANY), BATCH_ROWS)
    columns["timestampType"] = pa.repeat(pa.scalar(0, pa.int32()), BATCH_ROWS)
    return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)


def _records(count: int) -> pa.Table:
    """Records of ``VALUE_BYTES`` random letters in ``PARTITIONS``: ``partition, offset, timestamp, key, value``."""
    letters = np.random.default_rng(1).integers(65, 91, count * VALUE_BYTES, np.uint8)
    ends = np.arange(count + 1, dtype=np.int32) * VALUE_BYTES
    values = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(letters)])
    numbers = np.arange(count, dtype=np.int64)
    return pa.table(
        {
            "partition": pa.array((numbers % PARTITIONS).astype(np.int32)),
            "offset": pa.array(numbers // PARTITIONS),
            "timestamp": pa.array(1_763_683_200_000_000 + numbers, pa.timestamp("us", "UTC")),
            "key": pa.nulls(count, pa.binary()),
            "value": values,
        }
    )


def _floor(spark: SparkSession, tasks: Mapping[str, int], name: str, schema: str | None) -> Source:
    def of(reader: DataFrameReader | DataStreamReader, topic: str) -> DataFrame:
        configured = reader.format(NAME).options(rows=str(COUNTS[topic]), tasks=str(tasks[topic]))
        return (configured if schema is None else configured.schema(schema)).load()

    return Source(name, lambda topic: of(spark.read, topic), lambda topic: of(spark.readStream, topic))


def measure() -> Iterator[Table]:
    """Two tables: batches, and streams with AvailableNow."""
    scratch = Path(tempfile.mkdtemp(prefix="tidelog-bench-floor-"))
    try:
        with processes.directory() as store:
            tasks = {}
            for topic in (MANY, FEW):
                copy(_records(COUNTS[topic]), store, topic)
                source = TidelogDataSource({"store": store, "subscribe": topic})
                tasks[topic] = len(source.reader(source.schema()).partitions())
            spark = started(store)
            spark.sparkContext.setLogLevel("ERROR")
            spark.dataSource.register(FloorSource)
            floors = [_floor(spark, tasks, "floor", None), _floor(spark, tasks, "floor, value only", "value binary")]
            sources = [*floors, *ours(spark, store)]
            shape = f"records of {VALUE_BYTES} B, {PARTITIONS} partitions, local[2], directory store"
            for what, run in (("batch", scanned), ("stream with AvailableNow", drained(scratch))):
                measured = [
                    Measured(name=source.name, few=run(source, FEW), many=run(source, MANY))
                    for source in sources
                    if what == "batch" or source.stream is not None
                ]
                title = f"Spark {what} beside a source that reads nothing: {shape}"
                yield rated(title, measured, (COUNTS[FEW], COUNTS[MANY]), SECONDS_MAX, beside=NAME)
            spark.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    for table in measure():
        print(table.markdown(), flush=True)
