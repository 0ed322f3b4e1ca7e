"""The answer of a fetch as a Parquet file: the columns of the topic's table, as its segments have them.

Each row group is written and sent before the next one is made, so an answer takes as much memory as other large ones.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from gateway.codec.record_json import pieces
from log_format.records.schema import RECORD_SCHEMA

ROW_GROUP_BYTES: Final = 1024 * 1024
"""Bytes of records in a row group, unless a single record has more: encoded it may be held twice."""


class _Sink(io.RawIOBase):
    """Buffer of the bytes that were written and not yet taken."""

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._written.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        """Return the bytes written since the last call."""
        data = b"".join(self._written)
        self._written.clear()
        return data


def parquet_pieces(records: pa.Table) -> Iterator[bytes]:
    """Yield ``records`` (``RECORD_SCHEMA``) as a file, in pieces. Without rows the file has the columns only."""
    sink = _Sink()
    options = {"compression": "zstd", "write_statistics": ["partition", "offset", "timestamp"]}
    with pq.ParquetWriter(sink, RECORD_SCHEMA, **options) as writer:
        for piece in pieces(records, ROW_GROUP_BYTES):
            writer.write_table(piece, row_group_size=piece.num_rows)
            yield sink.taken()
    yield sink.taken()
