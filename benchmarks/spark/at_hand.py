"""A data source in Python that does nothing but hand Spark the same Arrow batch again and again: what no such source can beat.

Its columns are those of Kafka's source, its batches as large as those of ``format("tidelog")``. It reads no store, decodes
nothing and makes nothing per batch. What it takes is Spark's own: Python processes, the socket, and rows made of Arrow columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from spark_pipeline.schemas import KAFKA_SOURCE
from spark_pipeline.source.task import BATCH_ROWS

NAME: Final = "at_hand"
TASK_ROWS: Final = 500_000
VALUE: Final = b"v" * 100


class AtHandSource(DataSource):
    """``format("at_hand")``; option ``rows``: how many there are."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> StructType:
        """Return Kafka's columns, without headers, as ``format("tidelog")`` has them."""
        return StructType([field for field in KAFKA_SOURCE if field.name != "headers"])

    def reader(self, schema: StructType) -> _Reader:
        """Return the reader for ``spark.read``."""
        return _Reader(int(self.options["rows"]), schema)

    def streamReader(self, schema: StructType) -> _StreamReader:  # noqa: N802 - Spark's name
        """Return the reader for ``spark.readStream``."""
        return _StreamReader(int(self.options["rows"]), schema)


class _Reader(DataSourceReader):
    def __init__(self, rows: int, schema: StructType) -> None:
        self._rows = rows
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return _tasks(self._rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(partition, self._schema)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, rows: int, schema: StructType) -> None:
        self._rows = rows
        self._schema = schema

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's names
        return {"rows": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        return

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        del start, limit
        return {"rows": self._rows}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return _tasks(end["rows"] - start["rows"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(partition, self._schema)


def _tasks(rows: int) -> list[InputPartition]:
    """Return tasks, each with the number of its rows."""
    return [InputPartition(min(TASK_ROWS, rows - first)) for first in range(0, rows, TASK_ROWS)]


def _batches(task: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    columns = to_arrow_schema(schema, timezone="UTC")
    given = {"value": VALUE, "topic": "many", "partition": 0, "offset": 0, "timestamp": 0, "timestampType": 0}
    arrays = [pa.repeat(pa.scalar(given.get(field.name), field.type), BATCH_ROWS) for field in columns]
    batch = pa.RecordBatch.from_arrays(arrays, schema=columns)
    for first in range(0, task.value, BATCH_ROWS):
        yield batch.slice(0, min(BATCH_ROWS, task.value - first))
