"""The data source that Spark knows by the name ``tidelog``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from spark_pipeline.option_refused import OptionRefused
from spark_pipeline.schemas import KAFKA_SOURCE, typed_fields
from spark_pipeline.source.batch import BatchReader
from spark_pipeline.source.columns import check_schema, find_columns
from spark_pipeline.source.options import includes_headers, parse_options
from spark_pipeline.source.stream import StreamReader

if TYPE_CHECKING:
    from spark_pipeline.sink.options import SinkOptions
    from spark_pipeline.sink.writers import BatchWriter, StreamWriter

NAME: Final = "tidelog"


class TidelogDataSource(DataSource):
    """Topics as DataFrames, with the options and columns of Spark's Kafka source."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> StructType:
        """Return Kafka's columns, with ``headers`` only for ``includeHeaders``, and the typed columns of the topics' tables.

        ``.schema(…)`` may give fewer columns, and fewer members of a typed one. Options are checked here already, so that
        ``load`` refuses a wrong one. Raises as ``find_columns``.
        """
        has_headers = includes_headers(self.options)
        fields = [field for field in KAFKA_SOURCE if field.name != "headers" or has_headers]
        self._schema = StructType([*fields, *typed_fields(find_columns(self.options))])
        return self._schema

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader for ``spark.read``. Raises ``OptionRefused``."""
        return BatchReader(parse_options(self.options, streaming=False), self._checked(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Return the reader for ``spark.readStream``. Raises ``OptionRefused``."""
        return StreamReader(parse_options(self.options, streaming=True), self._checked(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer for ``df.write``. Raises ``OptionRefused``."""
        # Spark starts at least one Python process per query: readers need not load the writing code.
        from spark_pipeline.sink.writers import BatchWriter  # noqa: PLC0415

        return BatchWriter(self._sink(schema, overwrite, streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Return the writer for ``df.writeStream``. Raises ``OptionRefused``."""
        from spark_pipeline.sink.writers import StreamWriter  # noqa: PLC0415 - as above

        return StreamWriter(self._sink(schema, overwrite, streaming=True))

    def _checked(self, schema: StructType) -> StructType:
        """Return the schema after a check. That of ``schema()``, which Spark brings back here, needs none."""
        return schema if schema == getattr(self, "_schema", None) else check_schema(schema, self.options)

    def _sink(self, schema: StructType, overwrite: bool, *, streaming: bool) -> SinkOptions:
        from spark_pipeline.sink.columns import check_columns  # noqa: PLC0415 - as above
        from spark_pipeline.sink.options import parse_sink_options  # noqa: PLC0415
        from spark_pipeline.sink.topic import ensure_topic  # noqa: PLC0415

        if overwrite:
            raise OptionRefused("mode", "a log is appended to: write with mode append")
        options = parse_sink_options(self.options, streaming=streaming)
        check_columns(schema, options.topic)
        ensure_topic(options)
        return options
