"""Columns of a topic as Spark types."""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from log_format.records.typed_columns import TypedColumns
from log_format.topic.table_columns import table_schema_string

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

TOPIC_TABLE: Final = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", HEADERS),
    ]
)
"""Columns of a topic's Delta table."""

KAFKA_SOURCE: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", HEADERS),
    ]
)
"""Columns of Spark's Kafka source with ``includeHeaders``: names, order and types. Nullability is left to the source."""

CREATE_TIME: Final = 0
"""Value of ``timestampType`` for a topic whose records keep the producer's timestamp."""

LOG_APPEND_TIME: Final = 1
"""Value of ``timestampType`` for a topic whose records carry the gateway's clock."""


def typed_fields(columns: TypedColumns) -> list[StructField]:
    """Return the typed columns of a topic's table."""
    names = [field.name for field in columns.fields()]
    return [field for field in StructType.fromJson(json.loads(table_schema_string(columns))) if field.name in names]
