"""JSON in a tag: as it is where it is short, else compressed with zlib, as base64."""

from __future__ import annotations

import base64
import zlib
from typing import Final

PLAIN_BYTES_MAX: Final = 64 * 1024
"""Of a system table's tags. People could not read longer ones at a glance anyway."""
_LEVEL: Final = 1
"""zlib's fastest: its usual level takes more than twice as long to make a tag a tenth shorter."""


def packed(data: bytes, *, plain_bytes_max: int = PLAIN_BYTES_MAX) -> str:
    """The text of a JSON array."""
    return data.decode() if len(data) <= plain_bytes_max else base64.b64encode(zlib.compress(data, _LEVEL)).decode()


def unpacked(text: str, *, bytes_max: int = 0) -> bytes:
    """The JSON of a tag. ``bytes_max``: of the JSON, 0 for no limit. Raises ``ValueError``."""
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
