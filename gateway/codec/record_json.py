"""Encoding of records as JSON in the API's form: one object for each row, made by Arrow column by column.

1. The members are ``partition``, ``offset``, ``timestamp``, ``key``, ``value``, ``headers``, in this order, without white space
   or line breaks.
2. Bytes are exact. A key or value in UTF-8 is a string, and null is null. Other bytes are base64 under the name with ``_base64``,
   and the plain name is absent. Only such rows are encoded one by one.
3. ``json_record`` decodes the result to the same record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gateway.codec.base64_text import encode_base64
from gateway.codec.text_rows import Parts, join_rows, text_of
from log_format.records.size import record_bytes

PIECE_BYTES: Final = 512 * 1024
"""Size of the pieces in which records are encoded: JSON may be six times as long as its record."""
_ROW_BYTES: Final = 64
"""Bytes of a row besides its key, value and headers."""

_SHORT_ESCAPES: Final = {0x08: "\\b", 0x09: "\\t", 0x0A: "\\n", 0x0C: "\\f", 0x0D: "\\r"}

Rows = TypeVar("Rows", pa.Table, pa.Array)


def record_objects(records: pa.Table, further: str = "", *, lead: str = "", end: str = "") -> pa.Array:
    """Return each row of ``records`` (``RECORD_SCHEMA``) as the text of a JSON object: a ``string`` array without nulls.

    ``further``: text of additional members, the same in each object, with a comma before the first. ``lead``: text before each
    object; ``end``: text after it.
    """
    columns = {name: _one_piece(records.column(name)) for name in records.column_names}
    timestamps_ms = columns["timestamp"].view(pa.int64()).to_numpy() // 1_000
    return join_rows(
        [
            lead + '{"partition":',
            columns["partition"].to_numpy(),
            ',"offset":',
            columns["offset"].to_numpy(),
            ',"timestamp":',
            timestamps_ms,
            ",",
            *_bytes_member("key", columns["key"]),
            ",",
            *_bytes_member("value", columns["value"]),
            ",",
            *_headers_member(columns["headers"]),
            further + "}" + end,
        ]
    )


def pieces(records: pa.Table, piece_bytes: int = PIECE_BYTES) -> Iterator[pa.Table]:
    """Yield ``records`` in order, in slices of at most about ``piece_bytes``, each of at least one row."""
    if records.nbytes > piece_bytes:
        yield from pieces_of(records, record_bytes(records) + _ROW_BYTES, piece_bytes)
    elif records.num_rows:
        yield records


def is_large(piece: pa.Table) -> bool:
    """Return whether a slice is a single record that must itself be written in pieces (``large_record``)."""
    return bool(piece.num_rows == 1 and piece.nbytes > PIECE_BYTES)


def pieces_of(rows: Rows, sizes: npt.NDArray[np.int64], piece_bytes: int) -> Iterator[Rows]:
    """Yield ``rows`` of the given sizes, in slices of at most ``piece_bytes``, each of at least one row."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + piece_bytes, side="right")))
        yield rows.slice(start, stop - start)
        start = stop


def _one_piece(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _bytes_member(name: str, column: pa.Array) -> Parts:
    """Return the member ``name`` of each row, or ``<name>_base64``."""
    if column.null_count == len(column):
        return [f'"{name}":null']
    try:
        texts = column.cast(pa.string())
    except pa.ArrowInvalid:
        return [_mixed_member(name, column)]
    parts: Parts = [f'"{name}":"', escaped(texts), '"']
    return parts if not column.null_count else [pc.coalesce(join_rows(parts), f'"{name}":null')]


def _mixed_member(name: str, column: pa.Array) -> pa.Array:
    encoded: list[str | None] = []
    for data in column.to_pylist():
        try:
            if data is not None:
                data.decode()
            encoded.append(None)
        except UnicodeDecodeError:
            encoded.append(f'"{name}_base64":"{encode_base64(data)}"')
    members = pa.array(encoded, pa.string())
    texts = pc.if_else(members.is_null(), column, pa.scalar(None, pa.binary())).cast(pa.string())
    plain = join_rows([f'"{name}":"', escaped(texts), '"'])
    return pc.coalesce(members, plain, f'"{name}":null')


def _headers_member(column: pa.Array) -> Parts:
    headers = column.flatten() if column.null_count < len(column) else ()
    if len(headers) == 0:
        return ['"headers":[]']
    objects = header_objects(headers)
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    return ['"headers":[', pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), objects), ","), "]"]


def header_objects(headers: pa.StructArray) -> pa.Array:
    """Return each header as the text of a JSON object."""
    keys, values = headers.flatten()
    return join_rows(['{"key":"', escaped(keys), '",', *_bytes_member("value", values), "}"])


def escaped(texts: pa.Array) -> pa.Array:
    """Return the texts, escaped as in JSON strings."""
    data = bytes(text_of(texts))  # a copy, in which looking for one byte is faster than comparing all
    if b"\\" in data:
        texts = pc.replace_substring(texts, "\\", "\\\\")
    if b'"' in data:
        texts = pc.replace_substring(texts, '"', '\\"')
    controls = np.frombuffer(data, dtype=np.uint8)
    if data and controls.min() < 0x20:
        for code in np.unique(controls[controls < 0x20]).tolist():
            texts = pc.replace_substring(texts, chr(code), _SHORT_ESCAPES.get(code, f"\\u{code:04x}"))
    return texts
