"""Kafka's default hash of one key, in pure Python, since the SDK can't rely on numpy.

murmur2 is the 32-bit MurmurHash2 with seed ``0x9747b28c`` over little-endian words, as in
``org.apache.kafka.common.utils.Utils.murmur2``. ``partitioner`` hashes whole Arrow columns.
"""

from __future__ import annotations

import struct
from typing import Final

SEED: Final = 0x9747B28C
MULTIPLIER: Final = 0x5BD1E995
SHIFT: Final = 24
MASK: Final = 0xFFFFFFFF
POSITIVE: Final = 0x7FFFFFFF


def positive_murmur2(key: bytes) -> int:
    """Return ``murmur2(key) & 0x7fffffff``. Modulo the partition count it is the key's partition."""
    length = len(key)
    word_count = length >> 2
    hash_ = SEED ^ length
    for word in struct.unpack_from(f"<{word_count}I", key):
        mixed = (word * MULTIPLIER) & MASK
        mixed = ((mixed ^ (mixed >> SHIFT)) * MULTIPLIER) & MASK
        hash_ = ((hash_ * MULTIPLIER) & MASK) ^ mixed
    return finish(hash_, key[word_count << 2 :])


def finish(hash_: int, rest: bytes) -> int:
    """Return the positive hash of a key whose whole words gave ``hash_``; ``rest``: the bytes after them, at most three."""
    if rest:
        hash_ = ((hash_ ^ int.from_bytes(rest, "little")) * MULTIPLIER) & MASK
    hash_ = ((hash_ ^ (hash_ >> 13)) * MULTIPLIER) & MASK
    return (hash_ ^ (hash_ >> 15)) & POSITIVE
