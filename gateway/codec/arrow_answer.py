"""What a fetch answers as an Arrow IPC stream: the table's columns, timestamps in whole milliseconds, UTC."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from log_format.records import RECORD_SCHEMA

ANSWER_SCHEMA: Final = RECORD_SCHEMA.set(
    RECORD_SCHEMA.get_field_index("timestamp"), pa.field("timestamp", pa.timestamp("ms", tz="UTC"))
)
BATCH_ROWS_MAX: Final = 65_536
"""Rows in one batch of the stream: readers that go batch by batch need not hold more."""


def arrow_answer(records: pa.Table) -> bytes:
    """``records`` (``RECORD_SCHEMA``) as a stream with ``ANSWER_SCHEMA``, which is there also without rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ANSWER_SCHEMA) as writer:
        if records.num_rows:
            writer.write_table(records.cast(ANSWER_SCHEMA), max_chunksize=BATCH_ROWS_MAX)
    data: bytes = sink.getvalue().to_pybytes()
    return data
