"""Record batches compressed, and decompressed never beyond a bound: Kafka's codecs by Arrow, Snappy in either of its framings."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import cramjam
import pyarrow as pa

from gateway.kafka.wire.reading import Malformed

NONE: Final = 0
SNAPPY: Final = 2
_STREAMS: Final = {1: "gzip", 3: "lz4", 4: "zstd"}
CODECS: Final = (NONE, SNAPPY, *_STREAMS)
ZSTD: Final = 4
CODEC_NAMES: Final = {"gzip": 1, "snappy": SNAPPY, "lz4": 3, "zstd": ZSTD}
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD_BYTES: Final = 16
_XERIAL_VERSIONS: Final = struct.pack(">ii", 1, 1)
_LENGTH: Final = struct.Struct(">i")


class TooLarge(Exception):
    """The batch has more bytes than may be held."""


def compressed(codec: int, parts: Sequence[bytes | memoryview]) -> bytes | memoryview:
    """The records of a batch. ``codec`` is one of ``CODECS``."""
    data = b"".join(parts)
    if codec == NONE:
        return data
    if codec == SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(data))
        return b"".join((_XERIAL, _XERIAL_VERSIONS, _LENGTH.pack(len(block)), block))
    with pa.BufferOutputStream() as sink:
        with pa.CompressedOutputStream(sink, _STREAMS[codec]) as stream:
            stream.write(data)
        return memoryview(sink.getvalue())


def decompressed(codec: int, data: memoryview, bytes_max: int) -> bytes | memoryview:
    """The records of a batch. ``codec`` is one of ``CODECS``. Raises ``Malformed``, ``TooLarge``."""
    if codec == NONE:
        return data
    if codec == SNAPPY:
        return _snappy(data, bytes_max)
    try:
        with pa.CompressedInputStream(pa.py_buffer(data), _STREAMS[codec]) as stream:
            records: bytes = stream.read(bytes_max + 1)
    except (OSError, pa.ArrowException) as error:
        raise Malformed(f"{_STREAMS[codec]}: {error}") from error
    if len(records) > bytes_max:
        raise TooLarge
    return records


def _snappy(data: memoryview, bytes_max: int) -> bytes:
    if bytes(data[: len(_XERIAL)]) != _XERIAL:
        return _snappy_block(data, bytes_max)
    blocks, position, left = [], _XERIAL_HEAD_BYTES, bytes_max
    while position < len(data):
        if len(data) - position < _LENGTH.size:
            raise Malformed("snappy: half a block")
        (size,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if not 0 < size <= len(data) - position:
            raise Malformed(f"snappy: a block of {size} bytes")
        blocks.append(_snappy_block(data[position : position + size], left))
        left -= len(blocks[-1])
        position += size
    return b"".join(blocks)


def _snappy_block(block: memoryview, bytes_max: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(block) > bytes_max:
            raise TooLarge
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise Malformed(f"snappy: {error}") from error
