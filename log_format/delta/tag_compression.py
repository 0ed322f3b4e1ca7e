"""JSON in a tag: plain if it is short, else compressed with zlib and encoded as base64."""

from __future__ import annotations

import base64
import zlib
from typing import Final

PLAIN_BYTES_MAX: Final = 64 * 1024
"""Largest plain JSON in a system table's tag, in bytes. People could not read more at a glance anyway."""
_LEVEL: Final = 1
"""Fastest level of zlib: the default level takes more than twice as long for a tag that is a tenth shorter."""


def compress_tag(data: bytes, *, plain_bytes_max: int = PLAIN_BYTES_MAX) -> str:
    """Return the tag's text for a JSON array."""
    return data.decode() if len(data) <= plain_bytes_max else base64.b64encode(zlib.compress(data, _LEVEL)).decode()


def decompress_tag(text: str, *, bytes_max: int = 0) -> bytes:
    """Return the JSON of a tag. ``bytes_max``: limit of the JSON's size, 0 for none. Raises ``ValueError``."""
    if text.startswith("["):
        return text.encode()
    try:
        decompressor = zlib.decompressobj()
        data = decompressor.decompress(base64.b64decode(text, validate=True), bytes_max)
    except zlib.error as problem:
        raise ValueError(f"it can't be decompressed: {problem}") from problem
    if not decompressor.eof:
        raise ValueError("it is damaged or too large")
    return data
