"""Which message of a Protobuf schema a value is: Confluent's indexes, between the schema's id and the message's bytes.

A count and as many indexes, all zigzag varints: the first among the file's messages, each next one within it. A single zero byte
is the first message.

Source: Confluent, "Wire format".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_INDEXES_MAX: Final = 100
_VARINT_BYTES_MAX: Final = 5


def encode(indexes: Sequence[int]) -> bytes:
    """Return the bytes of some indexes."""
    if tuple(indexes) == (0,):
        return b"\0"
    found = bytearray()
    for number in (len(indexes), *indexes):
        raw = number << 1
        while raw > 0x7F:
            found.append(raw & 0x7F | 0x80)
            raw >>= 7
        found.append(raw)
    return bytes(found)


def decode(value: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the indexes at a position, and the position behind them. Raises ``ValueError``."""
    count, at = _number(value, at)
    if not 0 <= count <= _INDEXES_MAX:
        raise ValueError("the indexes of its message are damaged")
    indexes = []
    for _ in range(count):
        index, at = _number(value, at)
        indexes.append(index)
    return tuple(indexes) or (0,), at


def _number(value: bytes, at: int) -> tuple[int, int]:
    raw = 0
    for place, byte in enumerate(value[at : at + _VARINT_BYTES_MAX]):
        raw |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return raw >> 1 ^ -(raw & 1), at + place + 1
    raise ValueError("the indexes of its message are damaged")
