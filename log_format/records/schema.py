"""The Arrow schemas of records. Records are tables, never a Python object each.

The columns are those of Spark's Kafka source, so that queries carry over. Timestamps are microseconds in Arrow and Parquet (Spark
reads these without a cast), but always whole milliseconds in value, as in Kafka.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from log_format.limits import TIMESTAMP_MS_MAX

__all__ = ["BATCH_SCHEMA", "HEADER", "HEADERS", "RECORD_SCHEMA", "TIMESTAMP", "TIMESTAMP_MS_MAX", "TIMESTAMP_MS_MIN"]

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
TIMESTAMP_MS_MIN: Final = 0

HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", HEADER))

BATCH_SCHEMA: Final = pa.schema(
    [
        pa.field("timestamp", TIMESTAMP),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
    ]
)
"""Schema of records without offsets. ``timestamp`` is never null; ``key`` and ``value`` may be. ``headers`` is null, or a list
whose elements and their keys are not null."""

RECORD_SCHEMA: Final = pa.schema([pa.field("partition", pa.int32()), pa.field("offset", pa.int64()), *BATCH_SCHEMA])
"""Schema of records with partition and offset, which are never null: the columns of a topic's table, in order."""
