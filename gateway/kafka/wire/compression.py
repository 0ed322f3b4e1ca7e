"""Compression of record batches, and decompression within a bound: Kafka's codecs by Arrow, Snappy in either of its framings."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import cramjam
import pyarrow as pa

from gateway.kafka.wire.reading import Malformed

NONE: Final = 0
SNAPPY: Final = 2
LZ4: Final = 3
_STREAMS: Final = {1: "gzip", LZ4: "lz4", 4: "zstd"}
CODECS: Final = (NONE, SNAPPY, *_STREAMS)
ZSTD: Final = 4
CODEC_NAMES: Final = {"gzip": 1, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD_BYTES: Final = 16
_XERIAL_VERSIONS: Final = struct.pack(">ii", 1, 1)
_LENGTH: Final = struct.Struct(">i")
_LZ4_HEAD: Final = bytes.fromhex("04224d18604082")
"""Magic number; version 1, independent blocks, no checksums; blocks of at most 64 KiB; the second byte of the header's xxHash."""
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_LENGTH: Final = struct.Struct("<I")
_LZ4_END: Final = bytes(4)


class TooLarge(Exception):
    """The decompressed batch is larger than allowed."""


def compress(codec: int, parts: Sequence[bytes | memoryview]) -> bytes | memoryview:
    """Return the records of a batch compressed. ``codec`` is one of ``CODECS``."""
    data = b"".join(parts)
    if codec == NONE:
        return data
    if codec == SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(data))
        return b"".join((_XERIAL, _XERIAL_VERSIONS, _LENGTH.pack(len(block)), block))
    if codec == LZ4:
        return _lz4_frame(data)
    with pa.BufferOutputStream() as sink:
        with pa.CompressedOutputStream(sink, _STREAMS[codec]) as stream:
            stream.write(data)
        return memoryview(sink.getvalue())


def _lz4_frame(data: bytes) -> bytes:
    """Return a frame of independent blocks, the only ones that Java reads (KIP-57; LZ4 Frame Format 1.6). Arrow writes linked
    ones."""
    view = memoryview(data)
    frame: list[bytes | memoryview] = [_LZ4_HEAD]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = view[start : start + _LZ4_BLOCK_BYTES]
        block: bytes | memoryview = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        is_plain = len(block) >= len(plain)
        if is_plain:
            block = plain
        frame += (_LZ4_LENGTH.pack(len(block) | is_plain << 31), block)
    return b"".join((*frame, _LZ4_END))


def decompress(codec: int, data: memoryview, bytes_max: int) -> bytes | memoryview:
    """Return the records of a batch decompressed. ``codec`` is one of ``CODECS``. Raise ``Malformed``, ``TooLarge``."""
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
