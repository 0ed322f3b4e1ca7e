"""The data source that Spark knows by the name ``tidelog``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from spark_pipeline.option_refused import OptionRefused
from spark_pipeline.schemas import KAFKA_SOURCE
from spark_pipeline.source.batch import BatchReader
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
        """Return Kafka's columns, with ``headers`` only for ``includeHeaders``. ``.schema(…)`` may give fewer columns.

        Options are checked here already, so that ``load`` refuses a wrong one. Raises ``OptionRefused``.
        """
        fields = [field for field in KAFKA_SOURCE if field.name != "headers"]
        return KAFKA_SOURCE if includes_headers(self.options) else StructType(fields)

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader for ``spark.read``. Raises ``OptionRefused``."""
        return BatchReader(parse_options(self.options, streaming=False), _check_schema(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Return the reader for ``spark.readStream``. Raises ``OptionRefused``."""
        return StreamReader(parse_options(self.options, streaming=True), _check_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer for ``df.write``. Raises ``OptionRefused``."""
        # Spark starts at least one Python process per query: readers need not load the writing code.
        from spark_pipeline.sink.writers import BatchWriter  # noqa: PLC0415

        return BatchWriter(self._sink(schema, overwrite, streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Return the writer for ``df.writeStream``. Raises ``OptionRefused``."""
        from spark_pipeline.sink.writers import StreamWriter  # noqa: PLC0415 - as above

        return StreamWriter(self._sink(schema, overwrite, streaming=True))

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


def _check_schema(schema: StructType) -> StructType:
    """Return the schema after checking that its columns are some of the Kafka source's, with their types."""
    types = {field.name: field.dataType for field in KAFKA_SOURCE}
    for field in schema:
        if types.get(field.name) != field.dataType:
            known = ", ".join(f"{name} {type_.simpleString()}" for name, type_ in types.items())
            raise OptionRefused("schema", f"{field.name} {field.dataType.simpleString()} is none of {known}")
    if not len(schema):
        raise OptionRefused("schema", "has no column")
    return schema
