"""Zigzag varints of many records, as columns. Source: Kafka's protocol guide, ``Varint`` and ``Varlong``; Avro's ``int`` and
``long`` are the same."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Uint64s = npt.NDArray[np.uint64]


class Malformed(Exception):
    """Bytes that violate their format. The text says how; Kafka's listener logs it and closes the connection."""


VARINT_BYTES_MAX: Final = 10
"""Number of bytes after a position that ``read`` may access."""
_LIMITS: Final = np.array([1 << (7 * size) for size in range(1, VARINT_BYTES_MAX)], np.uint64)


def read(data: Bytes, at: Int64s) -> tuple[Int64s, Int64s]:
    """Return the values at the positions, and the positions behind them. Raise ``Malformed``.

    ``data`` has to extend ``VARINT_BYTES_MAX`` bytes beyond the last position.
    """
    byte = data[at]
    if byte.max(initial=0) < _ONE_BYTE:
        return _ONE_BYTE_VALUES.take(byte), at + 1
    if (both := two_bytes(data, at, byte)) is not None:
        return _TWO_BYTE_VALUES.take(both), at + 1 + (byte >> 7)
    words = words_of(data)[at]
    ends = ~words
    ends &= _CONTINUATION_BITS
    if not ends.all():
        return _read_by_bytes(data, at)
    raw, sizes = closed_gaps(words, ends)
    return _unzigzag(raw), at + sizes


def words_of(data: Bytes) -> Uint64s:
    """Return a view with the 8 bytes from each position on as a number, little-endian."""
    return np.ndarray((len(data) - _WORD_BYTES + 1,), "<u8", data, strides=(1,))


def two_bytes(data: Bytes, at: Int64s, first: Bytes) -> npt.NDArray[np.uint16] | None:
    """Return the first two bytes at the positions, the first one low; None if a number has more. ``first``: the first bytes."""
    second = data[at + 1]
    if (first & second).max() >= _ONE_BYTE:
        return None
    both = second.astype(np.uint16)
    both <<= 8
    both |= first
    return both


def closed_gaps(words: Uint64s, ends: Uint64s) -> tuple[Uint64s, Bytes]:
    """Return the numbers of up to 8 bytes without their continuation bits, and the size of each.

    Args:
        words: 8 bytes from each number's start on; overwritten.
        ends: the 8th bits of those bytes that end a number, or are behind its end; 0: all 8 bytes are of the number.
    """
    # The bits below the lowest end are all of the number, since its last byte has no 8th bit. In place: memory takes the time.
    part = -ends
    part &= ends
    part -= np.uint64(1)
    words &= part
    words &= _DATA_BITS
    sizes = np.bitwise_count(part)
    sizes += 1
    sizes >>= 3
    for high, gap in _HALVES:
        # Moves the high half down by the gap: high * 2^gap becomes high.
        np.bitwise_and(words, high, out=part)
        part >>= gap
        part *= (np.uint64(1) << gap) - np.uint64(1)
        words -= part
    return words, sizes


def _read_by_bytes(data: Bytes, at: Int64s) -> tuple[Int64s, Int64s]:
    """Read numbers of any size, a byte of each at a time."""
    byte = data[at]
    raw = (byte & 0x7F).astype(np.uint64)
    at = at + 1
    more = np.flatnonzero(byte & 0x80)
    shift = 7
    while len(more):
        if shift >= 7 * VARINT_BYTES_MAX:
            raise Malformed("a number of more than 10 bytes")
        byte = data[at[more]]
        raw[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        at[more] += 1
        more = more[(byte & 0x80) != 0]
        shift += 7
    return _unzigzag(raw), at


def read_one(data: bytes, at: int) -> tuple[int, int]:
    """Return the value at one position, and the position behind it, as ``read`` does."""
    raw, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= _UINT64_MAX
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
        if shift >= 7 * VARINT_BYTES_MAX:
            raise Malformed("a number of more than 10 bytes")


def _unzigzag(raw: npt.NDArray[np.uint64]) -> Int64s:
    return (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64)


def encode(values: Int64s) -> tuple[Bytes, Int64s | int]:
    """Return the encoded numbers as rows of a matrix, as wide as the longest number, and the size of each: a single size if
    all have the same."""
    raw = ((values << 1) ^ (values >> 63)).view(np.uint64)
    largest = int(raw.max(initial=0))
    if largest < _ONE_BYTE:
        return raw.astype(np.uint8).reshape(-1, 1), 1
    width = (largest.bit_length() + 6) // 7
    sizes = np.ones(len(raw), np.int64)
    for limit in _LIMITS[: width - 1]:
        sizes += raw >= limit
    rows = np.empty((len(values), width), np.uint8)
    for column in range(width):
        more = (sizes > column + 1).view(np.uint8) << 7
        rows[:, column] = (raw >> np.uint64(7 * column)).astype(np.uint8) & 0x7F | more
    return rows, sizes if int(sizes.min()) < width else width


_WORD_BYTES: Final = 8
_CONTINUATION_BITS: Final = np.uint64(0x8080_8080_8080_8080)
_DATA_BITS: Final = np.uint64(0x7F7F_7F7F_7F7F_7F7F)
_HALVES: Final = tuple(
    (np.uint64(high), np.uint64(gap))
    for high, gap in ((0x7F00_7F00_7F00_7F00, 1), (0x3FFF_0000_3FFF_0000, 2), (0x0FFF_FFFF_0000_0000, 4))
)
"""High halves of 2, 4 and 8 bytes, and the bits between them and the low ones."""
_ONE_BYTE: Final = 128
_ONE_BYTE_VALUES: Final = np.array([(raw >> 1) ^ -(raw & 1) for raw in range(_ONE_BYTE)], np.int64)
TWO_BYTE_NUMBERS: Final = np.array(
    [low & 0x7F | (high << 7 if low & 0x80 else 0) for high in range(256) for low in range(256)], np.uint64
)
"""Numbers by two bytes, the first byte low. The second byte counts only if the first one has its continuation bit; it is then
the last byte."""
_TWO_BYTE_VALUES: Final = _unzigzag(TWO_BYTE_NUMBERS)
_UINT64_MAX: Final = 2**64 - 1
