"""Encoding of one large record as JSON, in pieces: each step takes no more memory than many small records do.

The text is the same as ``record_json`` makes in one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from gateway.codec.base64_text import encode_base64
from gateway.codec.record_json import escaped, header_objects, pieces_of
from gateway.codec.text_rows import join_rows, text_of

_TEXT_BYTES: Final = 96 * 1024
"""Bytes of a key or value that are written in one step; a multiple of three, so that pieces of base64 join."""
assert _TEXT_BYTES % 3 == 0


def object_pieces(record: pa.Table, further: str = "") -> Iterator[bytes]:
    """Yield the text of a JSON object; ``record`` has ``RECORD_SCHEMA`` and one row. ``further``: as in ``record_objects``."""
    partition, offset = (record.column(name)[0].as_py() for name in ("partition", "offset"))
    timestamp_ms = record.column("timestamp")[0].value // 1_000
    yield b'{"partition":%d,"offset":%d,"timestamp":%d,' % (partition, offset, timestamp_ms)
    for name in ("key", "value"):
        yield from _member(name, record.column(name)[0].as_buffer())
        yield b","
    yield b'"headers":['
    headers = record.column("headers").combine_chunks().flatten()
    separator = b""
    for piece in pieces_of(headers, _header_bytes(headers), _TEXT_BYTES):
        yield separator
        if len(piece) == 1 and _header_bytes(piece)[0] > _TEXT_BYTES:
            yield from _header(piece[0])
        else:
            yield bytes(text_of(join_rows([header_objects(piece), ","])))[:-1]
        separator = b","
    yield b"]%b}" % further.encode()


def _header_bytes(headers: pa.StructArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    lengths = (
        pa.compute.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False) for column in headers.flatten()
    )
    return np.asarray(sum(lengths) + 16, np.int64)


def _header(header: pa.StructScalar) -> Iterator[bytes]:
    yield b"{"
    yield from _member("key", header["key"].as_buffer())
    yield b","
    yield from _member("value", header["value"].as_buffer())
    yield b"}"


def _member(name: str, data: pa.Buffer | None) -> Iterator[bytes]:
    """Yield the member ``name``, or ``<name>_base64``."""
    if data is None:
        yield b'"%b":null' % name.encode()
        return
    is_text = _is_utf8(data)
    yield b'"%b":"' % name.encode() if is_text else b'"%b_base64":"' % name.encode()
    view = memoryview(data)
    start = 0
    while start < len(view):
        end = min(start + _TEXT_BYTES, len(view))
        if is_text:
            while end < len(view) and view[end] & 0xC0 == 0x80:  # in the middle of a character
                end -= 1
            yield bytes(text_of(escaped(_text(data.slice(start, end - start)))))
        else:
            yield encode_base64(view[start:end]).encode()
        start = end
    yield b'"'


def _text(data: pa.Buffer) -> pa.Array:
    offsets = pa.py_buffer(np.array([0, len(data)], np.int32))
    return pa.Array.from_buffers(pa.string(), 1, [None, offsets, data], null_count=0)


def _is_utf8(data: pa.Buffer) -> bool:
    try:
        _text(data).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
