"""Checks of the messages of an Arrow IPC stream, before a reader allocates anything for them.

1. A stream must end with its end-of-stream marker, and nothing may follow. (The format also lets a writer just close the
   stream; then a truncated stream would look complete.)
2. Its compressed buffers declare at most ``bytes_max`` decompressed bytes in total.

A message's metadata is a flatbuffer (Arrow's ``Message.fbs``), which the message reader has verified. Only these fields are
read::

    Message      0 version  1 header_type  2 header  3 bodyLength
    Header type  2 DictionaryBatch  3 RecordBatch
    DictionaryBatch  0 id  1 data: RecordBatch
    RecordBatch  0 length  1 nodes  2 buffers: [{offset: i64, length: i64}]  3 compression

In the body a compressed buffer begins with its decompressed length, i64, little-endian; -1 means not compressed after all.
"""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

from gateway.codec.refusal import malformed, too_large

MESSAGES_MAX: Final = 65_536
"""Most messages in one stream. Each costs about as much as a hundred records, whatever it contains."""

_DICTIONARY_BATCH: Final = 2
_RECORD_BATCH: Final = 3
_END_OF_STREAM: Final = (b"\xff\xff\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00")
"""The marker's present form, and its form before version 0.15."""


def check_messages(body: pa.Buffer, bytes_max: int, messages_max: int = MESSAGES_MAX) -> None:
    """Check all messages of a stream.

    Raises ``RequestRefused``: 400 ``INVALID_REQUEST`` if the stream is truncated or corrupt, 413 ``REQUEST_TOO_LARGE`` if it
    decompresses to more than ``bytes_max``.
    """
    source = pa.BufferReader(body)
    reader = pa.ipc.MessageReader.open_stream(source)
    total = 0
    end = 0
    count = 0
    try:
        while True:
            message = reader.read_next_message()
            end = source.tell()
            total += _decompressed_bytes(message)
            count += 1
            if total > bytes_max:
                raise too_large(f"The Arrow stream decompresses to more than {bytes_max} bytes.", bytes_max)
            if count > messages_max:
                raise malformed(f"The Arrow stream has more than {messages_max} messages: send fewer, larger batches.")
    except StopIteration:
        pass
    except (pa.ArrowException, OSError, struct.error) as error:
        raise malformed(f"The Arrow stream is corrupt: {first_line(error)}.") from None
    rest = body.slice(end).to_pybytes() if len(body) - end <= len(_END_OF_STREAM[0]) else b""
    if rest not in _END_OF_STREAM:
        what = (
            "there are bytes after its end"
            if len(body) > source.tell()
            else "it does not end with the end-of-stream marker"
        )
        raise malformed(f"The Arrow stream is incomplete or corrupt: {what}.")


def first_line(error: BaseException) -> str:
    """Return the first line of Arrow's error message, shortened."""
    return str(error).partition("\n")[0][:200].rstrip(". ")


def _decompressed_bytes(message: pa.ipc.Message) -> int:
    """Return the decompressed size of the message's buffers. Raise ``struct.error`` if the metadata points outside of itself."""
    metadata = message.metadata.to_pybytes()
    root = struct.unpack_from("<I", metadata)[0]
    header_type = _field(metadata, root, 1)
    header = _table(metadata, root, 2)
    if header_type is None or header is None:
        return 0
    kind = metadata[header_type]
    if kind == _DICTIONARY_BATCH:
        header = _table(metadata, header, 1)
    elif kind != _RECORD_BATCH:
        return 0
    if header is None or _field(metadata, header, 3) is None:
        return 0
    buffers = _table(metadata, header, 2)
    if buffers is None or message.body is None:
        return 0
    (count,) = struct.unpack_from("<I", metadata, buffers)
    total = 0
    for offset, length in struct.iter_unpack("<qq", _exactly(metadata, buffers + 4, 16 * count)):
        if length <= 0:
            continue
        if offset < 0 or offset + 8 > len(message.body):
            raise struct.error("a buffer lies outside of its message")
        (size,) = struct.unpack("<q", message.body.slice(offset, 8).to_pybytes())
        if size < -1:
            raise struct.error("a buffer has a negative size")
        total += length if size == -1 else size
    return total


def _field(data: bytes, table: int, index: int) -> int | None:
    """Return the position of field ``index`` of a flatbuffer table; None if it is absent."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    _exactly(data, vtable, 4)
    (size,) = struct.unpack_from("<H", data, vtable)
    if 4 + 2 * index >= size:
        return None
    (offset,) = struct.unpack_from("<H", data, vtable + 4 + 2 * index)
    if offset == 0:
        return None
    _exactly(data, table + offset, 1)
    return int(table + offset)


def _table(data: bytes, table: int, index: int) -> int | None:
    """Return the position of the table or vector to which field ``index`` refers; None if it is absent."""
    place = _field(data, table, index)
    return None if place is None else place + int(struct.unpack_from("<I", data, place)[0])


def _exactly(data: bytes, start: int, size: int) -> bytes:
    if start < 0 or start + size > len(data):
        raise struct.error("the metadata points outside of itself")
    return data[start : start + size]
