"""JSON in a tag: as it is where it is short, else compressed with zlib, as base64."""

from __future__ import annotations

import base64
import zlib
from typing import Final

_PLAIN_BYTES_MAX: Final = 2_048
_LEVEL: Final = 1
_UNPACKED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one tag: a commit of the most runs takes a few megabytes."""


def packed(data: bytes) -> str:
    """The text of a JSON array."""
    return data.decode() if len(data) <= _PLAIN_BYTES_MAX else base64.b64encode(zlib.compress(data, _LEVEL)).decode()


def unpacked(text: str) -> bytes:
    """The JSON of a tag. Raises ``ValueError``."""
    if text.startswith("["):
        return text.encode()
    try:
        decompressor = zlib.decompressobj()
        data = decompressor.decompress(base64.b64decode(text, validate=True), _UNPACKED_BYTES_MAX)
    except zlib.error as problem:
        raise ValueError(f"it is damaged: {problem}") from problem
    if not decompressor.eof:
        raise ValueError("it is damaged or too large")
    return data
