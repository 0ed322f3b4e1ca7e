"""How large records are: key, value, and the keys and values of headers, in bytes, as ``max.message.bytes`` counts them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gateway.codec.incoming import IncomingRecords
from gateway.codec.refusal import BadRecords
from log_format.errors import ErrorCode
from log_format.limits import REPORTED_ERRORS_MAX

Sizes = npt.NDArray[np.int64]


def record_sizes(table: pa.Table) -> Sizes:
    """The size in bytes of each row of ``table``, which has at least the columns ``key``, ``value`` and ``headers``."""
    sizes = _lengths(table.column("value"))
    keys = table.column("key")
    if keys.null_count < len(keys):
        sizes += _lengths(keys)
    headers = table.column("headers")
    if headers.null_count < len(headers):
        sizes += _header_sizes(headers)
    return sizes


def refuse_large(incoming: IncomingRecords, message_bytes_max: int) -> None:
    """Raise ``RequestRefused`` (413 ``RECORD_TOO_LARGE``, ``limit_bytes``) naming the records above ``message_bytes_max``."""
    if incoming.records.nbytes <= message_bytes_max:
        return
    sizes = record_sizes(incoming.records)
    large = np.flatnonzero(sizes > message_bytes_max)
    if not len(large):
        return
    bad = BadRecords()
    for index in large[:REPORTED_ERRORS_MAX].tolist():
        what = f"has {sizes[index]} bytes of key, value and headers; the topic takes {message_bytes_max}"
        incoming.places.note(bad, index, "", what)
    raise bad.refusal(ErrorCode.RECORD_TOO_LARGE, limit_bytes=message_bytes_max)


def _lengths(column: pa.ChunkedArray | pa.Array) -> Sizes:
    lengths: Sizes = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _header_sizes(column: pa.ChunkedArray) -> Sizes:
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    elements = pc.list_flatten(column)
    total = np.zeros(len(elements) + 1, dtype=np.int64)
    np.cumsum(_lengths(pc.struct_field(elements, 0)) + _lengths(pc.struct_field(elements, 1)), out=total[1:])
    ends = np.cumsum(counts)
    sizes: Sizes = total[ends] - total[ends - counts]
    return sizes
