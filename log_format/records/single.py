"""A single record as plain bytes, as most requests of small clients have it.

Arrow columns for one record cost many times the record's own work. So such records stay plain until a flush, which makes one
table of all of them. Only a request with just one record uses this form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from log_format.records.schema import BATCH_SCHEMA, HEADERS, RECORD_SCHEMA, TIMESTAMP

_ARROW_BYTES: Final = 24
"""Size of a row in addition to its key and value: timestamp, positions, null bits."""


class SingleRecord(NamedTuple):
    """A record without headers. ``timestamp_ms`` None: it has no timestamp yet."""

    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None

    @property
    def size_bytes(self) -> int:
        """Size in bytes, as every limit counts it (``log_format.records.size``)."""
        return len(self.key or b"") + len(self.value or b"")

    @property
    def nbytes(self) -> int:
        """Estimated size as a table of its own, in bytes."""
        return self.size_bytes + _ARROW_BYTES


class RecordAtOffset(NamedTuple):
    """A record with its partition and offset; it has a timestamp."""

    partition: int
    offset: int
    record: SingleRecord

    def table(self) -> pa.Table:
        """Return a table with only this record: ``RECORD_SCHEMA``."""
        columns = [pa.array([self.partition], pa.int32()), pa.array([self.offset], pa.int64())]
        return pa.Table.from_arrays([*columns, *records_to_table([self.record]).columns], schema=RECORD_SCHEMA)


def records_to_table(records: Sequence[SingleRecord]) -> pa.Table:
    """Return the records in order as a table: ``BATCH_SCHEMA``, with null for a missing timestamp."""
    timestamps, keys, values = zip(*records, strict=True)
    microseconds = pa.array([None if time is None else time * 1000 for time in timestamps], pa.int64())
    columns = [
        microseconds.view(TIMESTAMP),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.nulls(len(records), HEADERS),
    ]
    return pa.Table.from_arrays(columns, schema=BATCH_SCHEMA)
