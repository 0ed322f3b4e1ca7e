"""Base64 as the contract has it: standard alphabet, padded, and only the exact text that encoding the bytes gives."""

from __future__ import annotations

import binascii


def decode_base64(text: str) -> bytes | None:
    """The bytes of ``text``; None when it is not exactly what encoding them gives."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None
    return data if encode_base64(data) == text else None


def encode_base64(data: bytes | memoryview) -> str:
    """The text of ``data``, padded, without line breaks."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")
