"""Base64 as the API has it: standard alphabet, padded, and only the canonical text of the bytes."""

from __future__ import annotations

import binascii


def decode_base64(text: str) -> bytes | None:
    """Return the bytes of ``text``; None if it is not exactly the text that encoding them gives."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None
    return data if encode_base64(data) == text else None


def encode_base64(data: bytes | memoryview) -> str:
    """Return the text of ``data``, padded, without line breaks."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")
