"""``spark.read.format("tidelog")``: all records between two positions, planned with the DataFrame's first query.

Deliberately absent: ``pushFilters``. Spark 4.2 has one plan for all uses of a DataFrame, and makes it anew when it pushes down a
filter. The other uses, also unfiltered ones, would lose the records that this filter excludes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_pipeline.source.loss import readable_starts
from spark_pipeline.source.options import SourceOptions
from spark_pipeline.source.planning import plan_tasks
from spark_pipeline.source.positions import resolve_ending_positions, resolve_starting_positions
from spark_pipeline.source.reading import part_reader
from spark_pipeline.source.task import ReadTask, read_task
from spark_pipeline.source.topics import Topics
from spark_pipeline.store_access import cached_store


class BatchReader(DataSourceReader):
    """Reader that plans on the driver and reads on executors. Pickled between them with its options, which hold no
    credentials."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[ReadTask]:
        """Return the tasks. Raises ``OptionRefused``, ``UnknownTopic``, ``DataLoss``, ``StoreUnavailable``, ``CorruptData``."""
        options = self._options
        reader = part_reader(options.store)
        topics = Topics(cached_store(options.store), options.subscription)
        try:
            view = topics.look()
        finally:
            topics.close()
        start = readable_starts(resolve_starting_positions(options, view, reader), view, fail=options.fail_on_data_loss)
        return plan_tasks(options, view, start, resolve_ending_positions(options, view, reader))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's records, as ``read_task``."""
        options = self._options
        return read_task(partition, options.store, self._schema, fail_on_data_loss=options.fail_on_data_loss)
