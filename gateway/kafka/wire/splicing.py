"""Insertion of already encoded bytes into an answer, so that kio does not encode a large or repeated field again."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from gateway.kafka.wire.messages import encoded_body

_COUNT = struct.Struct(">i")


def with_field(entity: Any, size: int, parts: Iterable[Any], *, behind: int = 0) -> list[bytes]:
    """Encode the entity in parts, with ``parts`` in place of its last array or bytes field.

    Args:
        entity: The entity, whose last array or bytes field is empty, and whose tagged fields have their defaults.
        size: Number of entries or bytes in ``parts``.
        parts: The field's encoded entries or bytes.
        behind: Number of bytes of plain fields after the field.
    """
    encoded = encoded_body(entity)
    is_flexible = type(entity).__flexible__
    tail = behind + (1 if is_flexible else 0)
    end = len(encoded) - tail
    head = encoded[: end - (1 if is_flexible else _COUNT.size)] + counted(size, is_flexible=is_flexible)
    return [head, *parts, encoded[end:]] if tail else [head, *parts]


def counted(size: int, *, is_flexible: bool) -> bytes:
    """Encode the number of entries or bytes that follow."""
    if not is_flexible:
        return _COUNT.pack(size)
    left, found = size + 1, bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    found.append(left)
    return bytes(found)
