"""The Parquet object of a checkpoint: which of its row groups hold nothing but tombstones.

A topic that is merged all the time has many times as many tombstones as segments, and who only wants the state has no use for
them: they come last, in row groups of their own, and are passed over by the statistics of ``remove.path``. A checkpoint that
somebody else wrote is read whole.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_TOMBSTONE_COLUMN: Final = "remove.path"


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
    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    groups = range(file.metadata.num_row_groups)
    wanted = [group for group in groups if with_tombstones or not _is_of_tombstones(file.metadata.row_group(group))]
    return file.read_row_groups(wanted, use_threads=False)


def _is_of_tombstones(group: pq.RowGroupMetaData) -> bool:
    """Whether each of its rows is a ``remove``."""
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema == _TOMBSTONE_COLUMN:
            statistics = column.statistics
            return statistics is not None and statistics.has_null_count and statistics.null_count == 0
    return False
