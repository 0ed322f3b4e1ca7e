"""What typed columns cost at least: CPU of pyarrow alone to write eight columns, beside that of one column of bytes.

Nothing of Tidelog is in it: no check, no decoding, no statistics, no commit. A row group for each partition, as a segment has
them; texts have a dictionary where a real segment's would.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.report import Table

RECORDS_MAX: Final = 20_000
_SEGMENTS: Final = ((1_000, 4), (RECORDS_MAX, 4), (10_000, 1))
"""Records and partitions of a request over HTTP, of a large one, and of a Kafka producer's batch."""
_SECONDS: Final = 0.5
_DICTIONARY: Final = ("name", "city")


def floor_table(orders: Sequence[Mapping[str, Any]], framed: Sequence[bytes]) -> Table:
    """Return a table of CPU µs a record.

    Args:
        orders: as many orders as the largest segment has, as JSON has them.
        framed: the same in Avro, of which a Kafka topic keeps the bytes.
    """
    table = Table(
        "The floor of a schema's price: CPU us/record of pyarrow alone to write columns",
        ["records", "row groups", "JSON as bytes", "Avro as bytes", "eight columns", "eight columns, no codec"],
        notes=[
            "zstd of level 1, no statistics; the quickest of half a second's runs. A topic that keeps values writes both."
        ],
    )
    for count, groups in _SEGMENTS:
        some = [dict(order) for order in orders[:count]]
        documents = pa.table({"value": pa.array([json.dumps(one).encode() for one in some])})
        values = pa.table({"value": pa.array(framed[:count])})
        members = pa.Table.from_pylist([one | {"at": datetime.fromisoformat(one["at"])} for one in some])
        prices = [
            _cpu_us(records, groups, codec) / count
            for records, codec in ((documents, "zstd"), (values, "zstd"), (members, "zstd"), (members, "none"))
        ]
        table.add(f"{count:,}", groups, *(f"{price:.3f}" for price in prices))
    return table


def _cpu_us(records: pa.Table, groups: int, codec: str) -> float:
    """Write the records as so many row groups for a while, and return the least CPU of a run in µs."""
    encodings = {
        field.name: "DELTA_BINARY_PACKED" if _is_delta(field.type) else "PLAIN"
        for field in records.schema
        if field.name not in _DICTIONARY
    }
    size = records.num_rows // groups
    quickest, end = float("inf"), time.monotonic() + _SECONDS
    while time.monotonic() < end:
        began = time.process_time()
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(
            sink,
            records.schema,
            compression=codec,
            compression_level=1 if codec == "zstd" else None,
            use_dictionary=[name for name in _DICTIONARY if name in records.column_names],
            column_encoding=encodings,
            write_statistics=False,
            store_schema=False,
        ) as writer:
            for first in range(0, records.num_rows, size):
                writer.write_table(records.slice(first, size), row_group_size=size)
        quickest = min(quickest, time.process_time() - began)
    return quickest * 1e6


def _is_delta(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_timestamp(arrow))
