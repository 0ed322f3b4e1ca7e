"""Tables of fetched records, with one schema for all encodings. Requires pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

FETCHED_SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field(
            "headers",
            pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
        ),
    ]
)
"""Columns of a topic, preceded by the topic's name. Such a table can be sent again unchanged."""


def concatenate(parts: Sequence[tuple[str, pa.Table]]) -> pa.Table:
    """Return the tables of some topics as one; without tables an empty one."""
    tables = []
    for topic, table in parts:
        columns = {name: table.column(name) for name in FETCHED_SCHEMA.names if name != "topic"}
        topics = pa.repeat(pa.scalar(topic), table.num_rows)
        tables.append(pa.table({"topic": topics, **columns}).cast(FETCHED_SCHEMA))
    return pa.concat_tables(tables) if tables else FETCHED_SCHEMA.empty_table()
