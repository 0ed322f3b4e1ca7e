"""Bytes compressed in each way that collecting and producing read."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable

import pyarrow as pa
import zstandard


def _lz4(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(data)
    return bytes(sink.getvalue().to_pybytes())


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    ".bz2": lambda data: bz2.compress(data, 1),
    ".lz4": _lz4,
}
"""By the suffix of such files' names. Of bzip2 the blocks are small."""
