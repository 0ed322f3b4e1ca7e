"""Conversion of rows with the Kafka sink's columns to records and their partitions.

``value`` is required, or ``data`` for a typed topic: a struct in either is a value's members as columns. ``key``, ``headers``,
``partition`` and, unless given by the option, ``topic`` are optional. Keys and other values are binary or string. Other columns
are not written, as with Kafka's sink. If ``partition`` is missing or null, the key chooses it by Kafka's hash, and rows without a
key go round robin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType

from log_format.errors import UnknownPartition
from log_format.records.partitioner import partition_for_keys
from log_format.records.schema import BATCH_SCHEMA, HEADERS, TIMESTAMP
from log_format.topic.state import TopicState
from spark_pipeline.option_refused import OptionRefused
from spark_pipeline.schemas import HEADERS as SPARK_HEADERS

_TYPES: Final[dict[str, tuple[DataType, ...]]] = {
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "headers": (SPARK_HEADERS,),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
}


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise ``OptionRefused`` if rows of ``schema`` can't be written."""
    types = {field.name: field.dataType for field in schema}
    struct = next((name for name in ("value", "data") if name in types), None)
    for name, allowed in _TYPES.items():
        if name == struct == "value" and isinstance(types[name], StructType):
            continue
        if name in types and types[name].simpleString() not in {one.simpleString() for one in allowed}:
            names = " or ".join(one.simpleString() for one in allowed)
            raise OptionRefused("schema", f"column {name} is {types[name].simpleString()}, not {names}")
    if struct is None or (struct == "data" and not isinstance(types["data"], StructType)):
        raise OptionRefused("schema", "has no column value, nor data that is a struct")
    if topic is None and "topic" not in types:
        raise OptionRefused("topic", "is missing: give the option, or a column topic")


def split_by_topic(rows: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of each topic, in their order. Raises ``OptionRefused`` for a row without a topic."""
    if topic is not None:
        yield topic, rows
        return
    topics = rows.column("topic")
    if topics.null_count:
        raise OptionRefused("topic", "a row has none: its column topic is null")
    for name in pc.unique(topics).to_pylist():
        yield name, rows.filter(pc.equal(topics, name))


def given_values(rows: pa.RecordBatch) -> pa.StructArray | None:
    """Return the values if they are given as columns: ``value`` is a struct, or there is only ``data``."""
    names = rows.schema.names
    column = rows.column("value" if "value" in names else "data")
    return column if pa.types.is_struct(column.type) else None


def to_records(rows: pa.RecordBatch, now_ms: int) -> pa.Table:
    """Return the rows as records (``BATCH_SCHEMA``), all with the timestamp ``now_ms``. Values given as columns are null."""
    count = rows.num_rows
    names = [name for name in rows.schema.names if name != "value" or given_values(rows) is None]

    def column(name: str, kind: pa.DataType) -> pa.Array:
        return rows.column(name).cast(kind) if name in names else pa.nulls(count, kind)

    timestamps = pa.array(np.full(count, now_ms * 1000, np.int64)).cast(pa.timestamp("us")).cast(TIMESTAMP)
    arrays = [timestamps, column("key", pa.binary()), column("value", pa.binary()), column("headers", HEADERS)]
    return pa.Table.from_arrays(arrays, schema=BATCH_SCHEMA)


def assign_partitions(rows: pa.RecordBatch, state: TopicState, first: int) -> npt.NDArray[np.int32]:
    """Return the partition of each row, int32; round robin begins with ``first``. Raises ``UnknownPartition``."""
    names = rows.schema.names
    keys = rows.column("key") if "key" in names else pa.nulls(rows.num_rows, pa.binary())
    chosen = partition_for_keys(keys, state.partition_count)
    free = chosen < 0
    chosen[free] = ((first + np.arange(int(free.sum()))) % state.partition_count).astype(np.int32)
    if "partition" not in names:
        return chosen
    asked = pc.fill_null(rows.column("partition"), -1).to_numpy(zero_copy_only=False)
    named = pc.is_valid(rows.column("partition")).to_numpy(zero_copy_only=False)
    wrong = named & ((asked < 0) | (asked >= state.partition_count))
    if wrong.any():
        raise UnknownPartition(state.topic, int(asked[wrong][0]), state.partition_count)
    return np.where(named, asked, chosen).astype(np.int32)
