"""``spark.read.format("tidelog")``: all records between two positions, planned with the query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from spark_pipeline.source.filters import Wanted, wanted
from spark_pipeline.source.loss import readable_starts
from spark_pipeline.source.options import SourceOptions
from spark_pipeline.source.planning import planned
from spark_pipeline.source.positions import ending_positions, starting_positions
from spark_pipeline.source.reading import part_reader
from spark_pipeline.source.task import ReadTask, read_task
from spark_pipeline.source.topics import Topics
from spark_pipeline.store_access import opened


class BatchReader(DataSourceReader):
    """Reader that plans on the driver and reads on executors. Pickled between them with its options, which hold no
    credentials."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._wanted = Wanted()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Store what can be excluded, and return all filters, since Spark applies every filter itself."""
        self._wanted = wanted(filters)
        return filters

    def partitions(self) -> list[ReadTask]:
        """Return the tasks. Raises ``OptionRefused``, ``UnknownTopic``, ``DataLoss``, ``StoreUnavailable``, ``CorruptData``."""
        options = self._options
        reader = part_reader(options.store)
        topics = Topics(opened(options.store), options.subscription)
        try:
            view = topics.look()
        finally:
            topics.close()
        start = readable_starts(starting_positions(options, view, reader), view, fail=options.fail_on_data_loss)
        return planned(options, view, start, ending_positions(options, view, reader), self._wanted)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's records, as ``read_task``."""
        options = self._options
        return read_task(partition, options.store, self._schema, fail_on_data_loss=options.fail_on_data_loss)
