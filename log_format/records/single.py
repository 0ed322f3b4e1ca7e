"""One record as plain bytes: what most requests of small clients bring.

Columns of Arrow for one record cost many times the record's own work. So such records stay plain until a flush, which makes one
table of all of them. Records travel this way only where a request has just one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from log_format.records.schema import BATCH_SCHEMA, HEADERS, RECORD_SCHEMA, TIMESTAMP

_ARROW_BYTES: Final = 24
"""What a record takes as a row beside its key and value: timestamp, positions, bits for null."""


class SingleRecord(NamedTuple):
    """A record without headers. ``timestamp_ms`` None: it has none yet."""

    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None

    @property
    def size_bytes(self) -> int:
        """As every limit counts it (``log_format.records.size``)."""
        return len(self.key or b"") + len(self.value or b"")

    @property
    def nbytes(self) -> int:
        """About what it takes as a table of its own."""
        return self.size_bytes + _ARROW_BYTES


class PlacedRecord(NamedTuple):
    """A record at its place; it has a timestamp."""

    partition: int
    offset: int
    record: SingleRecord

    def table(self) -> pa.Table:
        """It alone: ``RECORD_SCHEMA``."""
        columns = [pa.array([self.partition], pa.int32()), pa.array([self.offset], pa.int64())]
        return pa.Table.from_arrays([*columns, *table_of([self.record]).columns], schema=RECORD_SCHEMA)


def table_of(records: Sequence[SingleRecord]) -> pa.Table:
    """The records in order: ``BATCH_SCHEMA``, null timestamps where they have none."""
    timestamps, keys, values = zip(*records, strict=True)
    microseconds = pa.array([None if time is None else time * 1000 for time in timestamps], pa.int64())
    columns = [
        microseconds.view(TIMESTAMP),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.nulls(len(records), HEADERS),
    ]
    return pa.Table.from_arrays(columns, schema=BATCH_SCHEMA)
