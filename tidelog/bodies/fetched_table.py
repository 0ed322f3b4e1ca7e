"""Tables of fetched records: one schema, whatever encoding they came in. Imported only where pyarrow is."""

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
"""A topic's columns, with the topic before them. A table of it can be sent again as it is."""


def concatenate(parts: Sequence[tuple[str, pa.Table]]) -> pa.Table:
    """The tables of some topics as one; without any: no rows."""
    tables = []
    for topic, table in parts:
        columns = {name: table.column(name) for name in FETCHED_SCHEMA.names if name != "topic"}
        topics = pa.repeat(pa.scalar(topic), table.num_rows)
        tables.append(pa.table({"topic": topics, **columns}).cast(FETCHED_SCHEMA))
    return pa.concat_tables(tables) if tables else FETCHED_SCHEMA.empty_table()
