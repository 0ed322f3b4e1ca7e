"""The Parquet object of a checkpoint: which of its row groups hold nothing but tombstones.

A topic that is merged all the time has many times as many tombstones as segments, and who only wants the state has no use for
them: they come last, in row groups of their own, and are passed over by the statistics of ``remove.path``. A checkpoint that
somebody else wrote is read whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_TOMBSTONE_COLUMN: Final = "remove.path"
_ROWS_MAX: Final = 16_384
"""Rows of one piece: more make nothing faster."""


def encode_checkpoint_file(reconciled: pa.Table) -> bytes:
    """The object's bytes. ``reconciled``: ``checkpoint.SCHEMA``, with what belongs into the file's metadata."""
    is_tombstone = pc.is_valid(reconciled.column("remove"))
    sink = pa.BufferOutputStream()
    options = {"compression": "zstd", "store_schema": False, "write_page_checksum": True}
    with pq.ParquetWriter(sink, reconciled.schema, **options) as writer:
        for rows in (reconciled.filter(pc.invert(is_tombstone)), reconciled.filter(is_tombstone)):
            if rows.num_rows:
                writer.write_table(rows)
        # Without the Arrow schema pyarrow leaves the table's own metadata out as well.
        writer.add_key_value_metadata(reconciled.schema.metadata or {})
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode_checkpoint_file(data: bytes, *, with_tombstones: bool) -> pa.Table:
    """The object's rows as they are in it, and its metadata; without those that are only tombstones, where they lie apart.

    Raises ``pa.ArrowException`` and ``OSError`` when it can't be read.
    """
    return CheckpointFile(data).read(None, with_tombstones=with_tombstones)


class CheckpointFile:
    """The object, of which only the footer is decoded yet. Everything here raises ``pa.ArrowException``, ``OSError``."""

    def __init__(self, data: bytes) -> None:
        self._file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)

    def read(self, columns: Sequence[str] | None, *, with_tombstones: bool) -> pa.Table:
        """All rows at once, of these columns (``add.path``; None: all), with the object's metadata."""
        table: pa.Table = self._file.read_row_groups(self._groups(with_tombstones), columns=columns, use_threads=False)
        return table

    def pieces(self, columns: Sequence[str], bytes_max: int, *, with_tombstones: bool) -> Iterator[pa.Table]:
        """The rows of these columns in pieces of about ``bytes_max`` decoded bytes at most."""
        for number in self._groups(with_tombstones):
            group = self._file.metadata.row_group(number)
            chunks = (group.column(index) for index in range(group.num_columns))
            size = sum(
                chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema.startswith(tuple(columns))
            )
            count = max(1, min(_ROWS_MAX, group.num_rows * bytes_max // max(1, size)))
            for batch in self._file.iter_batches(count, row_groups=[number], columns=columns, use_threads=False):
                yield pa.Table.from_batches([batch])

    def _groups(self, with_tombstones: bool) -> list[int]:
        metadata = self._file.metadata
        groups = range(metadata.num_row_groups)
        return [group for group in groups if with_tombstones or not _is_of_tombstones(metadata.row_group(group))]


def _is_of_tombstones(group: pq.RowGroupMetaData) -> bool:
    """Whether each of its rows is a ``remove``."""
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema == _TOMBSTONE_COLUMN:
            statistics = column.statistics
            return statistics is not None and statistics.has_null_count and statistics.null_count == 0
    return False
