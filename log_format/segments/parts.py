"""Decodes a row group that grows to many times its size, a few records at a time.

A row group holds 4 MiB of records and one more, so it is usually decoded whole. Older versions counted nothing for empty headers:
a few kilobytes of theirs may become a gigabyte. The footer shows such a row group before anything is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from log_format.records.schema import RECORD_SCHEMA
from log_format.segments.footer import PARQUET_ERRORS, Footer, RowGroup, corrupt, corruption
from log_format.segments.segment import checked_file

DECODED_BYTES_MAX: Final = 32 * 1024 * 1024
"""The largest row group that is decoded whole, in decoded bytes: twice 4 MiB of records and a largest one."""

_HEADER_KEYS: Final = 5
"""The index of the column of headers' keys among the Parquet columns."""
_HEADER_BYTES: Final = 12
"""A header's cost beside its bytes: two lengths, and its levels while it is decoded."""
_RECORD_BYTES: Final = 48
"""A record's cost beside its bytes."""


def decoded_bytes(footer: Footer, index: int) -> int:
    """About how many bytes row group ``index`` has when decoded."""
    group = footer.row_groups[index]
    header_count = footer.metadata.row_group(index).column(_HEADER_KEYS).num_values
    return int(group.uncompressed_bytes + _HEADER_BYTES * header_count + _RECORD_BYTES * group.record_count)


def decode_parts(footer: Footer, index: int, data: bytes | memoryview, part_bytes: int) -> Iterator[pa.Table]:
    """The records of row group ``index`` as ``decode_row_group`` gives them, in parts of ``part_bytes`` or one record.

    Raises ``CorruptData``.
    """
    group = footer.row_groups[index]
    file = checked_file(footer, range(index, index + 1), data)
    rows = max(1, group.record_count * part_bytes // max(1, decoded_bytes(footer, index)))
    count, next_offset = 0, group.base_offset
    try:
        source = pq.ParquetFile(file, metadata=footer.metadata)
        for batch in source.iter_batches(batch_size=rows, row_groups=[index], use_threads=False):
            part = pa.Table.from_arrays(batch.columns, schema=RECORD_SCHEMA)
            part.column("headers").validate(full=True)
            next_offset = _checked(footer, group, part, next_offset)
            count += part.num_rows
            yield part
    except PARQUET_ERRORS as problem:
        where = f"bytes [{group.start}, {group.end}) of it"
        raise corruption(footer.segment, f"{where} can't be decoded: {problem}") from problem
    if count != group.record_count:
        corrupt(footer.segment, f"row group {index} has another number of records than the footer says")


def _checked(footer: Footer, group: RowGroup, part: pa.Table, next_offset: int) -> int:
    """The least offset that may follow. Raises ``CorruptData`` unless the part's records are where the footer says."""
    if any(part.column(name).null_count for name in ("partition", "offset", "timestamp")):
        corrupt(footer.segment, "a record has no partition, offset or timestamp")
    offsets = part.column("offset").to_numpy()
    in_order = bool((np.diff(offsets, prepend=next_offset - 1) > 0).all())
    if (
        not in_order
        or int(offsets[-1]) >= group.end_offset
        or (part.column("partition").to_numpy() != group.partition).any()
    ):
        corrupt(
            footer.segment, f"the records in bytes [{group.start}, {group.end}) are not those that the footer names"
        )
    return int(offsets[-1]) + 1
