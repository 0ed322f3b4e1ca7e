"""What Spark, Trino and Athena need of a Delta table in a Hive Metastore or in Glue, beside its location."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from log_format.catalogs.table import TopicTable, altered_properties

INPUT_FORMAT: Final = "org.apache.hadoop.mapred.SequenceFileInputFormat"
OUTPUT_FORMAT: Final = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
SERDE: Final = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
"""Formats as Spark stores them for tables that are not Hive's: Hive itself can't read the files of a Delta table."""
EXTERNAL_TABLE: Final = "EXTERNAL_TABLE"
_SCHEMA: Final = "spark.sql.sources.schema."
_PIECE_CHARACTERS: Final = 4_000
"""Longest value of a parameter in a Metastore; Spark stores the schema in pieces of this size."""


def hive_parameters(table: TopicTable, before: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of the table, with those that others gave it before."""
    schema = f'{{"type":"struct","fields":[{",".join(column.spark_field for column in table.columns)}]}}'
    pieces = [schema[first : first + _PIECE_CHARACTERS] for first in range(0, len(schema), _PIECE_CHARACTERS)]
    others = {name: value for name, value in before.items() if not name.startswith(_SCHEMA)}
    return {
        **altered_properties(others, table),
        "EXTERNAL": "TRUE",
        "comment": table.comment,
        "spark.sql.sources.provider": "delta",
        f"{_SCHEMA}numParts": str(len(pieces)),
        **{f"{_SCHEMA}part.{number}": piece for number, piece in enumerate(pieces)},
    }


def serde_parameters(table: TopicTable) -> dict[str, str]:
    """Return the parameters of the table's format: Spark takes the table's address from there."""
    return {"path": table.location, "serialization.format": "1"}
