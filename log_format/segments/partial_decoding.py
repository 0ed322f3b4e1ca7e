"""Decoding a few records at a time from a row group that decodes to many times its size.

A row group has at most 4 MiB of records and one more record, so it is usually decoded as a whole. But older releases counted
empty headers as nothing, so a few kilobytes of theirs may become a gigabyte. The footer shows such a row group before it is
decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from log_format.records.left_out import with_values
from log_format.records.schema import RECORD_SCHEMA
from log_format.records.typed_columns import DATA
from log_format.segments.footer import PARQUET_ERRORS, Footer, RowGroup, corrupt_error, raise_corrupt
from log_format.segments.segment import makes_values_of, verified_file

DECODED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Largest row group, in decoded bytes, that is decoded as a whole: twice 4 MiB of records and a record of the largest size."""

_HEADER_KEYS: Final = 5
"""Index of the column of header keys among the Parquet columns."""
_HEADER_BYTES: Final = 12
"""Decoded bytes of a header in addition to its content: two lengths, and its levels during decoding."""
_RECORD_BYTES: Final = 48
"""Decoded bytes of a record in addition to its content."""


def estimate_decoded_bytes(footer: Footer, index: int) -> int:
    """Return an estimate of the decoded size of row group ``index`` in bytes."""
    group = footer.row_groups[index]
    header_count = footer.metadata.row_group(index).column(_HEADER_KEYS).num_values
    return int(group.uncompressed_bytes + _HEADER_BYTES * header_count + _RECORD_BYTES * group.record_count)


def decode_parts(footer: Footer, index: int, data: bytes | memoryview, part_bytes: int) -> Iterator[pa.Table]:
    """Yield the records of row group ``index`` like ``decode_row_group``, in parts of about ``part_bytes`` or one record.

    Raises ``CorruptData``.
    """
    group = footer.row_groups[index]
    file = verified_file(footer, range(index, index + 1), data)
    rows = max(1, group.record_count * part_bytes // max(1, estimate_decoded_bytes(footer, index)))
    count, next_offset = 0, group.base_offset
    try:
        source = pq.ParquetFile(file, metadata=footer.metadata)
        makes_values = makes_values_of(footer, RECORD_SCHEMA)
        names = [*RECORD_SCHEMA.names, *([DATA] if makes_values else [])]
        for batch in source.iter_batches(batch_size=rows, row_groups=[index], columns=names, use_threads=False):
            part = pa.Table.from_arrays(batch.columns[: len(RECORD_SCHEMA)], schema=RECORD_SCHEMA)
            if makes_values:
                part = with_values(part.append_column(DATA, pa.chunked_array([batch.column(DATA)])))
            part.column("headers").validate(full=True)
            next_offset = _check_part(footer, group, part, next_offset)
            count += part.num_rows
            yield part
    except PARQUET_ERRORS as problem:
        where = f"bytes [{group.start}, {group.end}) of it"
        raise corrupt_error(footer.segment, f"{where} can't be decoded: {problem}") from problem
    if count != group.record_count:
        raise_corrupt(footer.segment, f"row group {index} has another number of records than the footer says")


def _check_part(footer: Footer, group: RowGroup, part: pa.Table, next_offset: int) -> int:
    """Return the smallest offset that may follow the part. Raises ``CorruptData`` if the part's records contradict the footer."""
    if any(part.column(name).null_count for name in ("partition", "offset", "timestamp")):
        raise_corrupt(footer.segment, "a record has no partition, offset or timestamp")
    offsets = part.column("offset").to_numpy()
    in_order = bool((np.diff(offsets, prepend=next_offset - 1) > 0).all())
    if (
        not in_order
        or int(offsets[-1]) >= group.end_offset
        or (part.column("partition").to_numpy() != group.partition).any()
    ):
        raise_corrupt(
            footer.segment, f"the records in bytes [{group.start}, {group.end}) are not those that the footer names"
        )
    return int(offsets[-1]) + 1
