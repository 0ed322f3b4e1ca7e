"""The answer of a fetch as an Arrow IPC stream: the table's columns, timestamps in whole milliseconds, UTC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from gateway.codec.record_json import pieces
from log_format.records.schema import RECORD_SCHEMA

ANSWER_SCHEMA: Final = RECORD_SCHEMA.set(
    RECORD_SCHEMA.get_field_index("timestamp"), pa.field("timestamp", pa.timestamp("ms", tz="UTC"))
)
BATCH_ROWS_MAX: Final = 65_536
"""Most rows in one batch of the stream: readers that take one batch at a time need not hold more."""
BATCH_BYTES: Final = 1024 * 1024
"""Most bytes in one batch, unless a single record has more: the most that is written in one step and held for a slow client."""


_SCHEMA_MESSAGE: Final = ANSWER_SCHEMA.serialize().to_pybytes()
END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def arrow_pieces(records: pa.Table) -> Iterator[bytes]:
    """Yield ``records`` (``RECORD_SCHEMA``) as a stream with ``ANSWER_SCHEMA``. Without rows the stream is the schema alone."""
    yield _SCHEMA_MESSAGE
    for piece in pieces(records, BATCH_BYTES):
        for batch in piece.cast(ANSWER_SCHEMA).to_batches(max_chunksize=BATCH_ROWS_MAX):
            yield batch.serialize().to_pybytes()
    yield END_OF_STREAM
